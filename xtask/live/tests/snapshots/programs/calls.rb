# Methods that call themselves below a block of map, then a singleton method that spins.
module Geometry
  class Shape
    def area(n)
      n > 0 ? area(n - 1) : Geometry.leaf
    end
  end

  def self.leaf
    $stdout.sync = true
    puts "ready"
    i = 0
    i += 1 while true
  end
end
[2].map { |n| Geometry::Shape.new.area(n) }
