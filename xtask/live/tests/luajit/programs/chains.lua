-- Calls the chain named by the first argument and spins at its end, after having printed Lua's own backtrace:
--
--     chain
--     frame<TAB>function<TAB>file<TAB>line         leaf first; no file and line 0: a function in C
--     ready
--
-- Lines with the comment "spin" are those on which the innermost function may be.

local ENDS_AFTER = 120
local clock = os.clock
local ends = clock() + ENDS_AFTER
local folder = arg[0]:match("^(.*)/") or "."

-- Of each coroutine: the frames that resumed it, and the coroutine that they belong to.
local resumers = {}

local function frame(info)
  local is_c = info.what == "C"
  local file = is_c and "" or info.source:gsub("^@", "")
  -- Iterators have the names of the loop's own variables.
  local name = info.name and not info.name:find("^%(") and info.name
  if not name and info.what == "main" then
    name = "main chunk"
  elseif not name then
    name = is_c and "[C]" or file:match("[^/]*$") .. ":" .. info.linedefined
  end
  return ("frame\t%s\t%s\t%d\n"):format(name, file, is_c and 0 or info.currentline)
end

-- Returns the frames of this state, from its caller's caller on, or from a level.
local function backtrace(first)
  local text, level = "", first or 3
  while true do
    local info = debug.getinfo(level, "Sln")
    if not info then return text end
    text, level = text .. frame(info), level + 1
  end
end

-- Prints the chain that leads to its caller.
local function announce()
  local text = "chain\n" .. backtrace()
  local resumer = resumers[coroutine.running()]
  while resumer do
    text, resumer = text .. resumer.frames, resumers[resumer.state]
  end
  io.write(text, root or "", "ready\n")
  io.flush()
end

-- Records that the caller resumes a coroutine on this line, by a function of this name.
local function resumes(routine, name)
  resumers[routine] = { frames = "frame\t" .. name .. "\t\t0\n" .. backtrace(), state = coroutine.running() or "main" }
end

-- The end of every chain.
local function leaf()
  announce()
  local sum = 0
  while clock() < ends do                                               -- spin
    for i = 1, 20000 do                                                 -- spin
      sum = (sum * 31 + i) % 65521                                      -- spin
      sum = sum - i % 7                                                 -- spin
    end
  end
  return sum
end

local chains = {}

function chains.recursion(depth)
  local function down(rest)
    if rest > 0 then
      return 1 + down(rest - 1)
    end
    return 1 + leaf()
  end
  return 1 + down(depth)
end

-- Globals, fields, local functions, upvalues, and functions without a name.
function area(side)
  return side * leaf()
end

function chains.names()
  local shapes = { square = { area = function(side) return 1 + area(side) end } }
  local function by_field(shape) return 1 + shape.square.area(2) end
  local function call(callback, ...) return 1 + callback(...) end
  local function by_upvalue() return 1 + call(by_field, shapes) end
  return 1 + (function() return 1 + by_upvalue() end)()
end

function chains.foreign()
  local long = "f" .. ("x"):rep(999)
  local text = "local leaf = ...; local function fläche() return 1 + leaf() end " ..
    "local function " .. long .. "() return 1 + fläche() end return 1 + " .. long .. "()"
  return 1 + loadstring(text, "@generated.lua")(leaf)
end

local Shape = {}
Shape.__index = Shape

function Shape.new(side)
  return setmetatable({ side = side }, Shape)
end

function Shape:area()
  return self.side * self:measure(3)
end

function Shape:measure(rest)
  if rest == 0 then
    return leaf()
  end
  return 1 + self:measure(rest - 1)
end

local Square = setmetatable({}, { __index = Shape })
Square.__index = Square

function Square:area()
  return 1 + Shape.area(self)
end

function chains.methods()
  return 1 + setmetatable({ side = 2 }, Square):area()
end

function chains.metamethods()
  local meta = {}
  local function object(value) return setmetatable({ value = value }, meta) end
  meta.__add = function(left, right) return 1 + (left .. right) end
  meta.__concat = function(left, right) return left < right and 1 or 2 end
  meta.__lt = function(left, right) return 1 + left.missing > right.value end
  meta.__index = function(self) self.missing2 = 1; return 1 end
  meta.__newindex = function(self, key, value) rawset(self, key, 1 + -self) end
  meta.__unm = function(self) return 1 + self(2) end
  meta.__call = function(self, value) return value + leaf() end
  return 1 + (object(1) + object(2))
end

function chains.tostring()
  local object = setmetatable({}, { __tostring = function() return "" .. leaf() end })
  return #tostring(object)
end

function chains.pcall()
  local function inner(value) return 1 + value + leaf() end
  local function outer()
    local ok, result = pcall(inner, 1)
    return ok and result
  end
  local ok, result = xpcall(outer, debug.traceback)
  return ok and result
end

function chains.handler()
  local function handler(message) return #message + leaf() end
  local function fails() error("fails") end
  local ok, result = xpcall(fails, handler)
  return ok or result
end

function chains.gsub()
  local function replace(word) return word .. leaf() end
  local text = ("one two"):gsub("%a+", replace)
  return #text
end

function chains.sort()
  local values = { 3, 1, 2 }
  table.sort(values, function(left, right) return left + leaf() < right end)
  return values[1]
end

function chains.callbacks()
  local function compare(left, right)
    local text = ("x"):gsub("x", function(word) return word .. leaf() end)
    return #text + left < right
  end
  local ok = pcall(table.sort, { 3, 1, 2 }, compare)
  return ok
end

function chains.varargs()
  local function last(...)
    return select("#", ...) + leaf()
  end
  local function middle(...)
    return 1 + last(0, ...)
  end
  return 1 + middle(1, nil, 3)
end

function chains.tail()
  local function second(value) return 1 + leaf() + value end
  local function first(value) return second(value) end
  return 1 + first(1)
end

function chains.iterator()
  local function each(list)
    local index = 0
    return function()
      index = index + 1
      if index == 3 then leaf() end
      return list[index]
    end
  end
  local sum = 0
  for value in each({ 1, 2, 3 }) do
    sum = sum + value
  end
  return sum
end

function chains.wrap()
  local routine
  local function generate(first)
    routine = coroutine.running()
    local value = coroutine.yield(first)
    return value + leaf()
  end
  local step = coroutine.wrap(generate)
  step(1)
  resumes(routine, "step") return 1 + step(2)
end

function chains.coroutines()
  local function inner(value)
    coroutine.yield(value)
    return value + leaf()
  end
  local function outer(value)
    local routine = coroutine.create(inner)
    coroutine.resume(routine, value)
    resumes(routine, "resume") local _, result = coroutine.resume(routine)
    return 1 + result
  end
  local routine = coroutine.create(outer)
  resumes(routine, "resume") local _, result = coroutine.resume(routine, 1)
  return result
end

function chains.callback_of_coroutine()
  local function replace(word) return word .. leaf() end
  local function body(text)
    local replaced = text:gsub("%a+", replace)
    return #replaced
  end
  local routine = coroutine.create(body)
  resumes(routine, "resume") local _, result = coroutine.resume(routine, "one")
  return result
end

function chains.files()
  package.path = folder .. "/?.lua"
  return require("required")(leaf)
end

function chains.dofile()
  callback = leaf
  return 1 + dofile(folder .. "/done.lua")
end

-- Two lines with the same code: as often on the one as on the other.
function chains.two_lines()
  local function two()
    announce()
    local sum = 0
    while clock() < ends do                                             -- spin
      for i = 1, 20000 do                                               -- spin
        sum = (sum * 31 + i) % 65521 + (sum * 31 + i) % 65521           -- spin
        sum = (sum * 31 + i) % 65521 + (sum * 31 + i) % 65521           -- spin
      end
    end
    return sum
  end
  return 1 + two()
end

-- A loop of one line, to whose start the interpreter jumps: never on the line before it.
function chains.jumps()
  local function counts()
    announce()
    local number = 0
    while number < 1e11 do number = number + 1 end                      -- spin
    return number
  end
  return 1 + counts()
end

-- A callback from C through the foreign function interface.
function chains.foreign_callback()
  local ffi = require("ffi")
  ffi.cdef("void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));")
  local compare = ffi.cast("int (*)(const void *, const void *)", function() return leaf() end)
  local C = ffi.C
  local function sort(numbers)
    C.qsort(numbers, 2, 4, compare)
    return numbers[0]
  end
  jit.off(sort)
  return 1 + sort(ffi.new("int[2]", 2, 1))
end

-- A second state, which runs this file.
function chains.states()
  local ffi = require("ffi")
  ffi.cdef([[
    typedef struct lua_State lua_State;
    lua_State *luaL_newstate(void);
    void luaL_openlibs(lua_State *);
    int luaL_loadbuffer(lua_State *, const char *, size_t, const char *);
    int lua_pcall(lua_State *, int, int, int);
  ]])
  local C = ffi.C
  -- Loads the code of the second state, which prints the frames of this one behind its own.
  local function load(state, frames)
    local text = ("root, arg = %q, { [0] = %q, 'names', '0' } dofile(arg[0])"):format(frames, arg[0])
    assert(C.luaL_loadbuffer(state, text, #text, "@state.lua") == 0)
  end
  local function run(state)
    load(state, "frame\tlua_pcall\t\t0\n" .. backtrace(2)) local result = C.lua_pcall(state, 0, 0, 0)
    return 1 + result
  end
  jit.off(run)
  local state = C.luaL_newstate()
  C.luaL_openlibs(state)
  return 1 + run(state)
end

local run = chains[arg[1]]
local result = run(tonumber(arg[2]))
os.exit(result and 0 or 1)
