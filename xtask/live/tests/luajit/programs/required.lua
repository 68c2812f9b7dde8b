-- Loaded by `require`.
local function run(callback)
  return 1 + callback()
end

return function(callback)
  return 1 + run(callback)
end
