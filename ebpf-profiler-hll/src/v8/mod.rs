//! V8, as in Node.js 12 to 26.
//!
//! ```text
//!   frame ──► JSFunction ──► SharedFunctionInfo ──► name, script, position tables of bytecode
//!                  └───────► Code ──► position table, deoptimization data ──► inlined functions
//! ```
//!
//! | code | position of a frame | line |
//! |---|---|---|
//! | interpreter | bytecode offset | by the bytecode's table |
//! | baseline | offset in the code | by the table of bytecode offsets, then as above |
//! | optimized | offset in the code | by the code's table, which has the calls: a leaf has the line of the call before it |
//! | WebAssembly, regular expression, builtin | | |
//!
//! V8 builds the table of a function's bytecode when it optimizes the function or when an exception
//! passes through it, or with `--no-enable-lazy-source-positions` and under an inspector always.
//! Without a table the line of a frame is the first line of its function, as `lineNumber` is in
//! DevTools and in profiles of `--cpu-prof`.
//!
//! Optimized code has entries for calls only; a function that was inlined and calls nothing is not
//! shown.
//!
//! # Identity
//!
//! Functions are identified by objects that live long and move rarely: `SharedFunctionInfo` and
//! `Code`. A frame carries a hash of what they contain, which naming compares. From Node.js 24 on,
//! functions refer to their code through a table: one of the process, from 26 on one of each
//! isolate. Code that no object of the function refers to, such as the prologue of a leaf or a loop
//! that was optimized while it ran, is identified by the address in it, the bytes there and the
//! function; the code is found by the object before it. The last of such codes are kept, so that
//! their frames have names when the function was freed before they were read.
//!
//! # Limits
//!
//! * Functions that are inlined into WebAssembly are not shown, and its functions have no lines.
//! * A program without symbol table is supported if it exports V8's internal functions, as Debian's
//!   `libnode` does: its builtins have no names. One without the constants that V8 exports for
//!   debuggers, as Deno, is walked through by frame pointers, and its compiled code has no names.
//! * While the deoptimizer replaces a frame, the stack ends there: the frame is overwritten.
//! * In Node.js 16, 0.2 % of samples in baseline code have a function without a name: they are in
//!   its epilogue.
//! * Until a new process's tables are built, 0.1 s or more on a busy machine, its stacks are
//!   copied, and objects are read later. Functions that the garbage collector moved meanwhile have
//!   no name: 0.14 % of frames in UglifyJS's first samples, 5 % on an overloaded machine.
//! * An async function that is continued stands alone: who awaits it is not in the stack.
//!
//! # WebAssembly
//!
//! Functions have the names of the module's section `name`, or `wasm-function[3]`, and the file
//! `wasm://wasm`. Code between JavaScript and them is `(js to wasm)` and `(wasm to js)`.
//!
//! # Builtins
//!
//! Builtins are shown with the names of their symbols: `Builtins_ArrayMap`. Bytecode handlers are
//! part of the interpreted function and have no frame.
//!
//! Published constants: [gen-postmortem-metadata.py of Node.js 22](https://github.com/nodejs/node/blob/v22.0.0/deps/v8/tools/gen-postmortem-metadata.py).
//! Frames: [frame-constants.h](https://github.com/nodejs/node/blob/v22.0.0/deps/v8/src/execution/frame-constants.h).

mod version;

mod symbols;

mod layout;

mod embedded;

mod builtins;

mod find;

mod heap;

mod text;

mod shared;

mod script;

mod positions;

mod code;

mod former;

mod wasm;

mod name;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language JavaScript: interpreted, baseline, optimized and inlined functions of V8 in Node.js
/// 12 to 26.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::v8::V8;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(V8.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct V8;

impl Language for V8 {
    fn name(&self) -> &'static str {
        "v8js"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    fn walkers(&self) -> u32 {
        1 << walker::V8
    }
}
