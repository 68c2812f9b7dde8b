-- Says that it works, and works for as many seconds as its argument says.
local function inner(count)
  local sum = 0
  for index = 1, count do sum = sum + math.sqrt(index) end
  return sum
end
local function middle(count)
  local sum = 0
  for _ = 1, 50 do sum = sum + inner(count) end
  return sum
end
local function outer() return (middle(2000)) end
outer()
print("works")
io.flush()
local finish = os.time() + tonumber(arg[1])
while os.time() < finish do outer() end
