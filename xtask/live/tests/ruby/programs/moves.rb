# Calls and returns all the time: methods, blocks from C, exceptions, evaluated code.

$stdout.sync = true

class Moves
  def add(one, two)
    one + two
  end

  def blocks
    [1, 2, 3].each { |number| add(number, 1) }
  end

  def sorts
    [3, 1, 2].sort_by { |number| -number }
  end

  def replaces
    'a-b'.gsub(/[ab]/) { |letter| letter.upcase }
  end

  def raises
    raise ArgumentError, 'expected'
  rescue ArgumentError
    add(1, 2)
  ensure
    add(2, 3)
  end

  def evaluates
    eval('add(3, 4)')
  end

  def compares
    ['b', 'a'].max { |one, two| one <=> two }
  end

  def all
    blocks
    sorts
    replaces
    raises
    evaluates
    compares
  end
end

puts 'ready' unless ARGV[0] == 'silent'
moves = Moves.new
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV.fetch(1, '1000').to_f
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  moves.all
end
