-- Run by `dofile`.
local sum = 1
return sum + callback()
