-- Machine code that LuaJIT didn't compile, as that of another compiler in the same process: called by the interpreter ("off") or by a
-- trace ("on"). A map has its names.
local ffi = require("ffi")
ffi.cdef([[
void *mmap(void *at, size_t size, int protection, int flags, int file, long offset);
int mprotect(void *at, size_t size, int protection);
int getpid(void);
]])

-- push rbp; mov rbp, rsp; call 0x10; pop rbp; ret
-- push rbp; mov rbp, rsp; dec rdi; jnz; pop rbp; ret
local code = "\x55\x48\x89\xe5\xe8\x07\x00\x00\x00\x5d\xc3" .. ("\xcc"):rep(5) ..
  "\x55\x48\x89\xe5\x48\xff\xcf\x75\xfb\x5d\xc3"
local memory = ffi.C.mmap(nil, 4096, 3, 0x22, -1, 0)
ffi.copy(memory, code, #code)
ffi.C.mprotect(memory, 4096, 5)
local map = assert(io.open("/tmp/perf-" .. ffi.C.getpid() .. ".map", "w"))
local address = tonumber(ffi.cast("uintptr_t", memory))
map:write(("%x 10 foreign_outer\n%x 10 foreign_inner\n"):format(address, address + 16))
map:close()
local spin = ffi.cast("void (*)(size_t)", memory)

local function caller(count)
  for _ = 1, count do
    spin(1000000)
  end
end

local function outer()
  while true do
    caller(1000)
  end
end

if arg[1] == "off" then
  jit.off()
end
io.stdout:write("pid\t", ffi.C.getpid(), "\nready\n")
io.stdout:flush()
outer()
