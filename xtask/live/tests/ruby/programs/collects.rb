# Allocates and collects garbage for some seconds of processor time. Prints the processor time of the process and that of
# its collector, in nanoseconds.

module Collects
  HAS_TOTAL = GC.respond_to?(:total_time)

  def self.time
    Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
  end

  def self.collector_time
    HAS_TOTAL ? GC.total_time : (GC::Profiler.total_time * 1e9).to_i
  end

  def self.allocates
    20_000.times { |number| [number, "text #{number}"] }
  end

  def self.starts
    GC.start
  end

  def self.counts
    number = 0
    number += 1 while number < 300_000
  end

  def self.until(finish)
    while time < finish
      allocates
      starts
      counts
    end
  end

  # The times are those of this method.
  def self.measured(seconds)
    before = [time, collector_time]
    self.until(before[0] + seconds * 1_000_000_000)
    puts [time - before[0], collector_time - before[1]].join("\t")
  end
end

GC::Profiler.enable unless Collects::HAS_TOTAL
kept = Array.new(100_000) { |number| number.to_s }
Collects.until(500_000_000)
Collects.measured(ARGV.fetch(0, '2').to_i)
kept.clear
