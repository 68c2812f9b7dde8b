# Runs until it is ended, ten calls deep.
def leaf(seed)
  20000.times { seed = seed * 31 % 1000003 }
  seed
end

def descend(depth, seed)
  loop { seed = leaf(seed) } if depth == 0
  descend(depth - 1, seed + 1) + 1
end

descend(10, 1)
