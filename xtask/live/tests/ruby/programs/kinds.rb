# Further chains, beside those of `chains.rb`, which loads this file.

module Kinds
  # The ends of chains that see no global variable.
  def self.alone(depth = 3)
    return alone(depth - 1) if depth > 1
    Leaf.report
    number = 0
    while true
      number += 1
    end
  end

  module Before
    def prepended
      super
    end
  end

  class Prepended
    prepend Before

    def prepended
      link
    end

    def self.const_missing(_name)
      link
    end

    def self.method_missing(_name)
      link
    end

    def self.inherited(_class)
      link
      super
    end

    def hash
      link
    end

    def coerce(_other)
      link
    end

    def to_proc
      proc { link }
    end

    def deconstruct
      link
    end

    def call
      link
    end

    def block(&block)
      pass(&block)
    end

    def pass
      yield
    end

    private def hidden
      link
    end

    def [](_index)
      link
    end

    def written=(_value)
      link
    end
  end

  Pair = Struct.new(:one) do
    def of_struct
      link
    end
  end
end

require_relative 'scheduler' if RUBY_VERSION >= '3'

class Chains
  def prepended
    Kinds::Prepended.new.prepended
  end

  def constant
    Kinds::Prepended::Missing
  end

  def class_missing
    Kinds::Prepended.missing
  end

  def hooked
    Class.new(Kinds::Prepended)
  end

  def hashed
    {Kinds::Prepended.new => 1}
  end

  def coerced
    1 + Kinds::Prepended.new
  end

  def converted
    [1].each(&Kinds::Prepended.new)
  end

  def deconstructed
    case Kinds::Prepended.new
    in [1] then 1
    end
  end

  def shorthand
    Kinds::Prepended.new.()
  end

  def passed
    Kinds::Prepended.new.block { link }
  end

  def hidden
    Kinds::Prepended.new.__send__(:hidden)
  end

  def indexed
    Kinds::Prepended.new[1]
  end

  def assigned
    Kinds::Prepended.new.written = 1
  end

  def of_struct
    Kinds::Pair.new(1).of_struct
  end

  def caught
    catch(:end) do
      tap { link }
    end
  end

  def defaulted
    Hash.new { link }[1]
  end

  def lazy
    (1..3).lazy.map { link }.first(1)
  end

  def yielder
    Enumerator.new { |yielder| yielder << 1 }.each { link }
  end

  def nested_fibers
    Fiber.new do
      Fiber.new { Fiber.yield(1); link }.tap(&:resume).resume
    end.resume
  end

  def nested_threads
    Thread.new { Thread.new { link }.join }.join
  end

  def locked
    Mutex.new.synchronize { link }
  end

  def with_object
    [1].each_with_object([]) { [[1, 2]].to_h { |one, two| link } }
  end

  def executed
    Kinds::Prepended.class_exec { Kinds::Prepended.new.instance_exec(1) { link } }
  end

  def within_block
    [1].each do
      begin
        raise 'expected'
      rescue StandardError
        begin
          1
        ensure
          link
        end
      end
    end
  end

  def looped
    for _ in [1]
      until link
      end
    end
  end

  def composed
    (proc { |value| value } >> method(:linked)).call(1)
  end

  def linked(_value)
    link
  end

  def curried
    ->(one, two) { link }.curry[1][2]
  end

  define_method(:of_method, instance_method(:linked))

  def from_method
    of_method(1)
  end

  def comparator
    [2, 1].max_by { [3, 1].min { link } }
  end

  def matched
    'a'.sub('a') { 'b'.each_char { link } }
  end

  def traced
    TracePoint.new(:call) { |trace| trace.disable; link }.enable { linked(1) }
  end

  def loaded
    load(File.join(__dir__, 'loaded.rb'))
  end

  def twice_evaluated
    eval("eval('[1].each { link }', nil, 'inner.rb', 3)", binding, 'outer.rb', 5)
  end

  def scheduled
    Fiber.set_scheduler(Kinds::Scheduler.new)
    Fiber.schedule { link }
  end

  def scheduler
    Fiber.set_scheduler(Kinds::Scheduler.new)
    Fiber.schedule { sleep 1 }
  end

  def ractor
    raise Over if $rounds > 0
    Ractor.new { [1].each { Kinds.alone } }.take
  end

  def forked
    raise Over if $rounds > 0
    fork { link }
    Process.wait
  end

  def forked_thread
    raise Over if $rounds > 0
    fork { Thread.new { link }.join }
    Process.wait
  end
end
