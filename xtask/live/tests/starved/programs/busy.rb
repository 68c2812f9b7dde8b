# Says that it works, and works for as many seconds as its argument says.
def inner(count)
  sum = 0
  index = 0
  while index < count
    sum += index * 3 % 7
    index += 1
  end
  sum
end

def middle(count)
  sum = 0
  50.times { sum += inner(count) }
  sum
end

def outer
  middle(2000)
end

outer
puts "works"
$stdout.flush
finish = Time.now + ARGV[0].to_i
outer while Time.now < finish
