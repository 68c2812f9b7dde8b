# Chains of calls of all kinds, each of which ends in a method that spins. Arguments: the names of chains, of which each
# calls the next; without further arguments each calls the end. The end is reached ROUNDS times before it spins, so that
# the chain is compiled.

$stdout.sync = true
Thread.report_on_exception = false
$names = ARGV.map { |name| name.dup.force_encoding('UTF-8') }
$rounds = ENV['ROUNDS'].to_i

# Ends a round.
class Over < Exception
end

# The end of each chain.
module Leaf
  def self.report
    lines = ["chain\t#{Process.pid}"]
    caller_locations(1).each do |frame|
      lines << "frame\t#{frame.lineno}\t#{frame.label}\t#{frame.path}"
    end
    $stdout.set_encoding('UTF-8')
    # A ractor has its own.
    $stdout.sync = true
    puts lines, 'ready'
  end

  def self.spin
    raise Over if $rounds > 0
    report
    number = 0
    while true
      number += 1
    end
  end
end

# Calls the next chain.
def link
  name = $links.shift
  if name
    Chains.new.public_send(name)
  else
    Leaf.spin
  end
end

module Outer
  module Mixed
    def mixed
      link
    end
  end

  class Base
    def inherited
      link
    end
  end

  class Inner < Base
    include Mixed
    include Comparable

    def initialize(*)
      link if $initialize
    end

    def inherited
      super
    end

    def self.singleton
      link
    end

    class << self
      def opened
        link
      end
    end

    define_method(:defined) do |*|
      link
    end

    define_method(:defined_with_block) do
      [1].each { link }
    end

    def original
      link
    end
    alias_method :aliased, :original

    def method_missing(name, *)
      name == :missing ? link : super
    end

    def respond_to_missing?(*)
      true
    end

    def <=>(_other)
      link
    end

    def to_s
      link
    end

    def each
      yield 1
    end
    include Enumerable

    def optional(one = 1, *, two: 2)
      link
    end

    def yields
      yield
    end
  end
end

module Refined
  refine String do
    def refinement
      link
    end
  end
end
using Refined

class Chains
  def recursion(depth = 300)
    if depth > 1
      recursion(depth - 1)
    else
      link
    end
  end

  def blocks
    [1].each do |_|
      [1].map do
        {a: 1}.each do
          link
        end
      end
    end
  end

  def iterators
    1.times do
      1.upto(1) do
        [1].each_with_index do
          loop do
            link
          end
        end
      end
    end
  end

  def enumerables
    [1, 2].inject do
      [2, 1].sort_by do
        [2, 1].sort do
          'a'.gsub(/a/) do
            link
          end
        end
      end
    end
  end

  def enumerable_of_class
    Outer::Inner.new.map do
      link
    end
  end

  def methods
    Outer::Inner.new.mixed
  end

  def inherited
    Outer::Inner.new.inherited
  end

  def singleton
    Outer::Inner.singleton
  end

  def opened
    Outer::Inner.opened
  end

  def defined
    Outer::Inner.new.defined
  end

  def defined_with_block
    Outer::Inner.new.defined_with_block
  end

  def aliased
    Outer::Inner.new.aliased
  end

  def missing
    Outer::Inner.new.missing
  end

  def compared
    Outer::Inner.new < Outer::Inner.new
  end

  def interpolated
    "#{Outer::Inner.new}"
  end

  def initialized
    $initialize = true
    Outer::Inner.new
  end

  def sent
    Outer::Inner.new.send(:optional, 1, 2, two: 3)
  end

  def optional
    Outer::Inner.new.method(:optional).call
  end

  def refinement
    'a'.refinement
  end

  def procs
    proc {
      lambda { |*|
        Outer::Inner.new.yields {
          link
        }
      }.call(1)
    }.call
  end

  def symbols
    [Outer::Inner.new].each(&:mixed)
  end

  def rescued
    begin
      raise 'expected'
    rescue
      link
    end
  end

  def ensured
    begin
      1
    ensure
      link
    end
  end

  def ensured_by_exception
    begin
      raise 'expected'
    ensure
      link
    end
  end

  def evaluated
    eval("\nlink", binding, 'evaluated.rb', 7)
  end

  def instance_evaluated
    Outer::Inner.new.instance_eval { link }
  end

  def class_evaluated
    Outer::Inner.class_eval("def self.late\n  link\nend", 'late.rb', 40)
    Outer::Inner.late
  end

  def object_singleton
    object = Object.new
    def object.own
      link
    end
    object.own
  end

  def anonymous
    Class.new { def nameless; link; end }.new.nameless
  end

  def fiber
    Fiber.new do
      link
    end.resume
  end

  def external
    Enumerator.new { |yielder| link; yielder << 1 }.next
  end

  def thread
    Thread.new do
      link
    end.join
  end

  def größe_π
    link
  end

  class_eval("def #{'n' * 1000}\n  link\nend", __FILE__, 0)

  def long
    send('n' * 1000)
  end
end

require_relative 'kinds'

begin
  $links = $names.dup
  link
rescue Over
  $rounds -= 1
  retry
end
