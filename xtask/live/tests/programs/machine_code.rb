# Calls machine code that Ruby didn't compile, as that of another compiler in the same process. A perf map has its names.
require "fiddle"

LIBC = Fiddle.dlopen(nil)
WORD = Fiddle::TYPE_SIZE_T
POINTER = Fiddle::TYPE_VOIDP
INT = Fiddle::TYPE_INT

def function(name, arguments, result)
  Fiddle::Function.new(LIBC[name], arguments, result)
end

# foreign_outer: push rbp; mov rbp, rsp; call foreign_inner; pop rbp; ret
# foreign_inner: push rbp; mov rbp, rsp; dec rdi; jnz; pop rbp; ret
code = ["554889e5e8070000005dc3", "cc" * 5, "554889e548ffcf75fb5dc3"].map { |hex| [hex].pack("H*") }.join
memory = function("mmap", [POINTER, WORD, INT, INT, INT, Fiddle::TYPE_LONG], POINTER).call(nil, 4096, 3, 0x22, -1, 0)
memory[0, code.size] = code
function("mprotect", [POINTER, WORD, INT], INT).call(memory, 4096, 5)
File.write("/tmp/perf-#{$$}.map", format("%x 10 foreign_outer\n%x 10 foreign_inner\n", memory.to_i, memory.to_i + 16))
SPIN = Fiddle::Function.new(memory.to_i, [WORD], Fiddle::TYPE_VOID)

def caller_of_code(count)
  count.times { SPIN.call(1_000_000) }
end

loop { caller_of_code(1000) }
