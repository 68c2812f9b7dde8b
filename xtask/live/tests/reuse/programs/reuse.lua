-- Defines a function, runs it for 25 ms of CPU time and frees it, again and again: reuse.lua VARIANT SECONDS.
-- Prints for each function: name, file, first line and CPU time in milliseconds.
local variant, seconds = arg[1], tonumber(arg[2])
local clock = os.clock

local loop = [[
(clock, limit)
  local total = 0
  while clock() < limit do
    for number = 1, 500 do total = (total + number * number) % 1021 end
  end
  return total
end
]]

local make = {
  -- Local functions with names of the same length; the text is the name of the chunk.
  texts = function(index)
    local name = ('f_%03dx'):format(index)
    return 'local function ' .. name .. loop .. 'return (' .. name .. '(...))', nil, name, '*'
  end,
  -- Global functions, in chunks with one name.
  globals = function(index)
    local name = ('f_%03dx'):format(index)
    return 'function ' .. name .. loop .. name .. '(...) _G.' .. name .. ' = nil', '=reload', name, 'reload'
  end,
  -- Fields of a table, in chunks with one name.
  fields = function(index)
    local name = ('f_%03dx'):format(index)
    return 'local M = {} function M.' .. name .. loop .. 'M.' .. name .. '(...)', '=reload', name, 'reload'
  end,
  -- Functions with one name, in different files.
  files = function(index)
    local file = ('/srv/application/%03d/share/lua/5.1/plugins/handlers/base.lua'):format(index)
    return 'local function run' .. loop .. 'return (run(...))', '@' .. file, 'run', file
  end,
  -- Functions with one name, in one file, on different lines.
  lines = function(index)
    return ('\n'):rep(index) .. 'local function run' .. loop .. 'return (run(...))', '@lines.lua', 'run', 'lines.lua', index + 1
  end,
}

local load = loadstring or load
local deadline = clock() + seconds
local index = 1
while clock() < deadline do
  local text, chunk, name, file, line = make[variant](index)
  local code = assert(load(text, chunk))
  local start = clock()
  code(clock, start + 0.025)
  local used = (clock() - start) * 1000
  io.stdout:write(('%s\t%s\t%s\t%.2f\n'):format(name, file, line or '*', used))
  code, text, chunk = nil, nil, nil
  collectgarbage()
  index = index + 1
end
