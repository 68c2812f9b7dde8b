# Burns a CPU at a given depth of calls until it is ended: spin.rb DEPTH
def burn
  total = number = 0
  while number < 20000
    total += number * number % 1021
    number += 1
  end
  total
end

def descend(depth, rounds)
  return descend(depth - 1, rounds) + 1 if depth > 1
  while rounds > 0
    burn
    rounds -= 1
  end
  0
end

# Calls until the compiler is done.
500.times { descend(5, 1) }
$stdout.puts 'ready'
$stdout.flush
# The main script and the innermost method are frames too.
descend(ARGV[0].to_i - 2, 1 << 40)
