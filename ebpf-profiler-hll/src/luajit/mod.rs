//! LuaJIT 2.0 and 2.1 on x86_64: its interpreter, and traces, the code that it compiles.
//!
//! The *loop* is the interpreter's assembler code (`lj_vm_call`, `lj_BC_ADDVV`, …), one range of a
//! file. A *run* is the list of frames on the Lua stack from the innermost one to the function that
//! C called: functions in Lua, in C (`string.gsub`), and in assembler (`pcall`).
//!
//! ```text
//!   native frame of the loop          lua_State                       Lua stack
//!   stack pointer + 16  ────────────► base, stack      ────────────►  … | function | link | slots … | function | link | slots …
//!                     one a coroutine                                       │
//!                                                                           ▼
//!   GCfunc ──pc──► instructions, directly behind their GCproto: chunkname, firstline, lineinfo, constants, names of variables
//! ```
//!
//! # Traces
//!
//! A trace runs in the frame of the loop that entered it. It is shown as the functions on the Lua
//! stack, the innermost of which is that in which the trace began, on the line where it began.
//! Functions that the trace inlines have no frames.
//!
//! # Names
//!
//! A function has no name. It is shown by the name by which its caller called it, as in
//! `debug.traceback`: the instructions before the call load it from there.
//!
//! | called as | name |
//! |---|---|
//! | global, local variable, upvalue, field, method: `area(x)`, `shape:area()` | `area` |
//! | operator, `__index`, … | `__add` |
//! | without a name; from C: a callback of `table.sort`; by `pcall`; start of a coroutine | `shapes.lua:12` |
//! | code of a file outside functions | `main chunk` |
//! | function in C without a name | `[C]` |
//!
//! After a tail call, `return f(x)`, the name is that of the function that is gone, as in
//! `debug.traceback`.
//!
//! # Limits
//!
//! A sample in one of the few instructions that set up the loop's native frame, or take it down, is
//! cut there, or misses the native frames up to the next loop: 0.6 % of a program that sorts and
//! replaces with callbacks. A stripped program that contains LuaJIT and exports nothing is not
//! found.
//!
//! # Reuse of addresses
//!
//! Frames carry a hash of the prototype's contents: the name of its chunk, its lines, its first
//! eight constants, of which three by the strings' own numbers or hashes, and the first names of
//! its variables. A later function at the same address in the same chunk, which differs by none of
//! these, is not distinguished, nor are the names that it gives to the functions that it calls.
//!
//! Structures: [lj_frame.h](https://github.com/LuaJIT/LuaJIT/blob/v2.1.0-beta3/src/lj_frame.h),
//! [lj_obj.h](https://github.com/LuaJIT/LuaJIT/blob/v2.1.0-beta3/src/lj_obj.h).

mod attach;

mod build;

mod caller;

mod find;

mod instruction;

mod name;

mod offsets;

mod prototype;

mod text;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language Lua: functions of LuaJIT 2.0 and 2.1 on x86_64, interpreted and in compiled traces.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::luajit::LuaJit;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(LuaJit.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LuaJit;

impl Language for LuaJit {
    fn name(&self) -> &'static str {
        "luajit"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    fn walkers(&self) -> u32 {
        1 << walker::LUAJIT
    }
}
