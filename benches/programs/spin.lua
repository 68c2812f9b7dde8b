-- Burns a CPU at a given depth of calls until it is ended: spin.lua DEPTH
local function burn()
  local total = 0
  for number = 1, 20000 do total = (total + number * number) % 1021 end
  return total
end

local function descend(depth, rounds)
  if depth > 1 then return descend(depth - 1, rounds) + 1 end
  for _ = 1, rounds do burn() end
  return 0
end

print 'ready'
io.stdout:flush()
-- The main script and the innermost function are frames too.
descend(arg[1] - 2, 1e12)
