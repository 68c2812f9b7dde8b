//! High-level languages for ebpf-profiler: the functions of scripts, in the stacks of the programs that run them.
//!
//! ```
//! use std::fs::File;
//! use ebpf_profiler_core::elf::Elf;
//!
//! # let path = std::env::args().nth(1).unwrap_or("/proc/self/exe".into());
//! let elf = Elf::open(File::open(path)?)?; // /usr/bin/python3
//! for language in ebpf_profiler_hll::all() {
//!     if let Some(runtime) = language.find(&elf) {
//!         println!("{}: {:x?}", language.name(), runtime.loops());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! cpython: [52b0f0..538a4c, 430f05..43455e]
//! ```
//!
//! To the profiler it is one call, `.languages(ebpf_profiler_hll::all())`: where the interpreter's loop stood in a
//! stack, the functions stand that it ran, with file and line.
//!
//! # The way of a name
//!
//! ```text
//!   find ──────► offsets ──────► attach ──────────► name ─────────► lines
//!   is it one?   of its fields   where a thread's   of a function,  of its positions
//!   once a file  once a file     frames begin       once            once
//!                                once a process
//! ```
//!
//! One folder a language, each with these files. What languages share lies beside them: `code` reads from the
//! machine code of an accessor where a thread keeps its state, `thread_local` makes a way through memory of it
//! (glibc's and musl's keys, thread-local variables of all models), `split` finds the parts of a function that the
//! compiler moved away.
//!
//! # What it understands
//!
//! | language | versions | found by | frames | names |
//! |---|---|---|---|---|
//! | [CPython](python) | 2.7, 3.6 to 3.14; free-threaded builds | exported or kept symbols, in any file | all threads and generators, exactly where they stand | qualified from 3.11 on; file; line of each frame |
//!
//! # What it does not do
//!
//! * On arm64 all is read as on x86_64, and tried on what compilers make for it, but nothing has run there. CPython 2.7
//!   isn't attached to; until 3.11 a thread shows the first interpreter that it worked for, and no version the interpreters that
//!   called another one.
//! * Runtimes that hide all their symbols, and were stripped of them.
//! * PyPy, Jython and others that are called Python but are other programs.
//!
//! # Other languages
//!
//! Those whose frames are a linked list need no code in the kernel: an
//! [`Interpreter`](ebpf_programs::abi::interpreter::Interpreter) says in numbers where it begins, how a frame is laid
//! out and where a run of the loop ends. How the others would fit:
//!
//! | runtime | its frames | with what there is | what else it would take |
//! |---|---|---|---|
//! | PHP | `zend_execute_data`, a list; `execute_ex` is the loop, a run ends with a frame that has `ZEND_CALL_TOP` in `This` | all of it: top from address 0 over `executor_globals`, [`WITH_MARKED`](ebpf_programs::abi::interpreter::run::WITH_MARKED) | ranges of JIT code as loops |
//! | Ruby | control frames, an array that grows down; `rb_vm_exec` is the loop | the way to the first: a thread-local variable, or the one Ractor there is | a caller at a fixed distance instead of behind a pointer; a mark behind a pointer (`ep[0]`) |
//! | Perl | contexts, an array with a count in each of a list of stacks | the way to the list: a key | a walker for arrays with a count |
//! | LuaJIT | slots of a stack, each with the distance to the next in its type word | the way to the state, from a register of the loop | a walker of its own |
//! | HotSpot | native frames of JIT code, whose size the blob says that the address lies in; interpreted ones by frame pointer | naming: a method is a function, a bytecode index or an address a position | a walker that finds blobs by address; its anchor leads over native code without frame pointers |
//! | V8 | native frames by frame pointer | naming: `JSFunction` is the function, the bytecode offset the position | reading both at fixed distances from the frame pointer of a frame |
//! | .NET | native frames by frame pointer | | naming by address: ranges of code, then headers before the code |
//! | BEAM | words on the process's own stack that lead into code | | a walker that scans; naming by address |
//! | Go | native frames, named by `ebpf-profiler-unwind`'s table | | labels: a way through thread-local storage to words that go with a whole stack, not with a frame |
//!
//! "Naming by address" is what a [`Symbolizer`](ebpf_profiler_core::symbol::Symbolizer) does for files; for code that
//! was made at run time it would be asked with a process in addition.
//!
//! # Requirements
//!
//! Reading the memory of the processes: the profiler has what that takes. A C library that is glibc or musl.
//!
//! # Cost
//!
//! | what | CPU time | compared with |
//! |---|---|---|
//! | a function that is met the first time: four reads, 800 bytes | 9 to 11 µs | 7 µs for the same reads alone; 26 to 37 µs a frame in `py-spy dump` |
//! | once more, at another line | 0.2 µs | |
//! | once more, at the same | 0.05 to 0.2 µs | 20 µs a frame in each sample of `py-spy record` |
//! | attaching to a process: 2 to 40 reads | 0.05 to 0.15 ms | |
//! | a file that holds a runtime, once | 0.1 to 0.6 ms; 2.2 ms of a stripped 2.7 | |
//!
//! CPython 2.7 to 3.14, by `cargo bench -p benches --bench naming`. py-spy's figures include its reading of the frame. A file
//! that is no runtime costs 3.5 µs (the median of 2,467 files); one that is not stripped is searched for two names, a
//! millisecond for some megabytes of them.
//!
//! # Security
//!
//! All that is read belongs to programs that may mean harm. Lengths are bounded before memory is taken, lists have an
//! end, and what makes no sense is a [`Reason`](ebpf_profiler_core::language::Reason): tests and fuzzing with memory
//! full of lies see to it. There is no unsafe code.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod python;

mod code;

mod thread_local;

mod split;

mod fde;

use ebpf_profiler_core::language::Language;

/// All languages that there are.
///
/// # Examples
///
/// ```
/// let languages = ebpf_profiler_hll::all();
/// assert!(languages.iter().any(|language| language.name() == "cpython"));
/// ```
pub fn all() -> Vec<Box<dyn Language>> {
    vec![Box::new(python::Python)]
}
