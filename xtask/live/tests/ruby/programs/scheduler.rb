# Schedulers of fibers: from 3.0 on.

module Kinds
  # Runs what is scheduled to its end at once.
  class Scheduler
    def fiber(&block)
      Fiber.new(blocking: false, &block).tap(&:resume)
    end

    def kernel_sleep(*)
      link
    end

    def io_wait(*) = nil

    def block(*) = nil

    def unblock(*) = nil

    def close = nil
  end
end
