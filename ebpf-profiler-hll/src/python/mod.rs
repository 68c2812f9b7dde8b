//! CPython 2.7 and 3.6 on.
//!
//! ```text
//!   thread ──key──► PyThreadState ──► frame ──► frame ──► …        2.7: found in the list of all thread states
//!                     to 3.10  frame          f_back
//!                     3.11     cframe ──► current_frame, previous
//!                     3.13     current_frame, previous
//!
//!   frame ──► code object ──► co_qualname or co_name, co_filename, co_firstlineno, line table
//! ```
//!
//! # Which frames one run of the loop has
//!
//! | version | run | its end |
//! |---|---|---|
//! | to 3.10 | one frame | each call of Python's is one of C's |
//! | 3.11 | several | with the frame whose `is_entry` is set |
//! | 3.12 on | several | before a frame of the loop's own: `owner` is 3, from 3.14 on 3 or 4 |
//!
//! From 3.12 on there are frames that no one wrote, steps of a call: their code has no line. They have no name here,
//! and so they are left out.
//!
//! # Where the thread's state is
//!
//! Behind what `PyGILState_GetThisThreadState` returns, and that also while the thread runs without the lock: from
//! 3.12 on it is the state that the thread used last; before, it is the first that it ever had, whichever interpreter
//! it works for. So until 3.11 the one in use is asked first whether it is this thread's. 2.7 keeps a list of its own; a
//! thread whose state isn't in use is looked for among the states of all interpreters.
//!
//! # Interpreters that call one another
//!
//! A thread may run scripts in one interpreter, and in a call of theirs scripts in another. Nothing leads from the state in
//! use to the one that was in use before. So where a list of frames is at its end, and a loop is met all the same, the
//! lists of all interpreters are searched for another state of this thread that has frames; these are the next ones:
//!
//! | what calls | what is seen |
//! |---|---|
//! | one interpreter another one of the same library | the functions of both, each where it stands |
//! | a library another library, of whichever version | the same: each has its own lists |
//! | one a second one and that a third one, of the same library | those of the third; then a frame that says that it isn't readable: which of two called can't be told; then loops that stand for themselves |
//! | one a second one and that the first again | the functions of both; but those of the first, which are one list, stand together on the side of the leaf |
//!
//! # Functions that take another's place
//!
//! A module's code ends when it is loaded, and the next one's may come to lie where it lay. From 3.12 on code objects
//! are numbered as they are made, and frames bring that number along, so one that takes another's place is told apart.
//! Before, frames bring along what the object is made of, the addresses of its names and what stands behind. Of some 7,000
//! code objects of 150 modules, compiled one after the other, 5 to 339 came to lie where another one had been that begins on the
//! same line (2.7 to 3.11), and none of them was made of the same. An object that was given back when its name is
//! read has none.
//!
//! # Other builds
//!
//! * A file is recognised by symbols, so it may be called anything: `libpython`, `python`, a program that embeds it.
//! * Free-threaded builds describe themselves like all others from 3.13 on. Threads of theirs may run a copy of
//!   the bytecode (3.14 on); frames of that copy have their function, but no line.
//! * Interpreters whose instructions are functions that call each other last (an option of 3.14's, with clang): these
//!   functions stand in the stack, called by the loop.
//! * Code of the JIT (an option from 3.13 on) is native code without a name, called by the loop.
//! * Builds with `Py_TRACE_REFS` have larger objects than is known here: their functions get no names.

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

/// CPython.
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

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }
}
