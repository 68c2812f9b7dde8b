-- Methods that call themselves below a function that pcall and string.gsub call, then a function that spins.
local Shape = {}
function Shape:area(n)
  local result = n > 0 and self:area(n - 1) or n == 0 and leaf()
  return result
end
function leaf()
  io.write("ready\n")
  io.flush()
  local i = 0
  while true do i = i + 1 end
end
local function each(word)
  local result = Shape:area(2)
  return result
end
pcall(function() local result = string.gsub("one", "%a+", each) end)
