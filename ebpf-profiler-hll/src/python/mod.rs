//! CPython 2.7 and 3.6 on.
//!
//! The *loop* is `_PyEval_EvalFrameDefault` (`PyEval_EvalFrameEx` in 2.7); a *run* is the list of
//! Python frames that one native call of the loop executes.
//!
//! ```text
//!   thread ──key──► PyThreadState ──► frame ──► frame ──► …        2.7: searched in the list of all thread states
//!                     to 3.10  frame          f_back
//!                     3.11     cframe ──► current_frame, previous
//!                     3.13     current_frame, previous
//!
//!   frame ──► code object ──► co_qualname or co_name, co_filename, co_firstlineno, line table
//! ```
//!
//! # Frames of one run of the loop
//!
//! | version | frames | the run ends |
//! |---|---|---|
//! | to 3.10 | one | each call of a Python function is a call of the loop |
//! | 3.11 | several | with the frame whose `is_entry` is set |
//! | 3.12 on | several | before a frame of the loop itself: `owner` is 3, from 3.14 on 3 or 4 |
//!
//! From 3.12 on there are shim frames without source, steps of a call, whose code has no line. They
//! have no name and produce no output frame.
//!
//! # Thread states
//!
//! The thread state is the result of `PyGILState_GetThisThreadState`, also while the thread runs
//! without the global lock. From 3.12 on that is the state that the thread used last. Up to 3.11 it
//! is the first state of the thread, of whichever interpreter, so the state in use is checked
//! first: it is taken if it is this thread's. 2.7 keeps a separate list; a thread whose state isn't
//! in use is searched for among the states of all interpreters.
//!
//! # Interpreters that call one another
//!
//! A thread may run a script in one interpreter that calls a script in another. Nothing leads from
//! the state in use to the state that was in use before. So if a list of frames ends and the stack
//! still has loops, the lists of all interpreters are searched for another state of this thread
//! that has frames; these follow:
//!
//! | calls | result |
//! |---|---|
//! | from one interpreter to another of the same library | the functions of both, in their positions |
//! | from one library to another, of any version | the same: each library has its own lists |
//! | from one interpreter to a second and from there to a third, of the same library | the functions of the third; then a frame that is marked as not readable, because the order of the other two is unknown; then native frames of the loops |
//! | from one interpreter to a second and back to the first | the functions of both; those of the first, which form one list, all stand on the leaf side |
//!
//! # Children of a fork
//!
//! A child's first write to a page copies it, and the kernel unmaps the page meanwhile. A sample
//! that falls into this moment can't read what is on it: the list ends there, with a frame that is
//! marked as not readable, or has no frames. Of children of CPython 3.8 that live 100 ms, 0.2 to
//! 0.6 % of the samples are such, with `ptep_clear_flush` in their kernel frames.
//!
//! # Reuse of addresses
//!
//! The code object of a module is freed when the module is loaded, that of a function after `del`,
//! and the next one takes its address, and its names and tables those of the former. From 3.12 on
//! code objects have a version number, which frames carry along and naming compares. Before 3.12
//! frames carry a hash of what the object is made from: its words from the counts of arguments to
//! the line table, its name (from 3.11 on the qualified one) by the name's own hash, the end of its
//! file's path, and the beginning of the line table. An object that has been freed before it is
//! named gets no name.
//!
//! # Other builds
//!
//! * A version after 3.15 is accepted if the offsets that it describes lead, in the process, to a
//!   thread's control block and to a code object; else it is refused as not supported.
//! * A file is recognized by symbols, whatever its name: `libpython`, `python`, a program that
//!   embeds CPython.
//! * Free-threaded builds describe themselves from 3.13 on like all others. Their threads may run a
//!   copy of the bytecode (3.14 on); frames of the copy have their function, but no line.
//! * Tail-calling interpreters (an option of 3.14 with clang): the functions of instructions appear
//!   in the stack, called by the loop.
//! * Code of the JIT (an option from 3.13 on) is native code without a name, called by the loop.
//! * Builds with `Py_TRACE_REFS` have larger objects than the table assumes: their functions get no
//!   names.
//!
//! Structures: [pycore_runtime.h of 3.13, with its debug offsets](https://github.com/python/cpython/blob/v3.13.0/Include/internal/pycore_runtime.h),
//! [pycore_frame.h](https://github.com/python/cpython/blob/v3.13.0/Include/internal/pycore_frame.h).

mod attach;

mod debug_offsets;

mod find;

mod lines;

mod name;

mod offsets;

mod symbols;

mod table;

mod text;

mod version;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language Python: functions of CPython 2.7 and 3.6 to 3.15, free-threaded builds included.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::python::Python;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Python.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Python;

impl Language for Python {
    fn name(&self) -> &'static str {
        "cpython"
    }

    fn walkers(&self) -> u32 {
        1 << walker::LIST
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }
}
