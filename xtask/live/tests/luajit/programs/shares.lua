-- Four functions of different shares of the processor time, for the seconds of the first argument.

local clock = os.clock

local function first()
  local sum = 0
  for i = 1, 10000 do sum = (sum + i) % 7 end
  return sum
end

local function second()
  local sum = 0
  for i = 1, 20000 do sum = (sum + i) % 7 end
  return sum
end

local function third()
  local sum = 0
  for i = 1, 30000 do sum = (sum + i) % 7 end
  return sum
end

local function fourth()
  local sum = 0
  for i = 1, 40000 do sum = (sum + i) % 7 end
  return sum
end

local ends = clock() + tonumber(arg[1])
while clock() < ends do
  local _ = first() + second() + third() + fourth()
end
