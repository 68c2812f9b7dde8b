//! Languages: name the functions of scripts in the stacks of the programs that run them.
//!
//! ```text
//!   Language ──find──► Runtime ──attach──► Attachment ─┬─ FrameWalker ──► kernel side, which walks the frames
//!   all of them        once a file         once a      │
//!                                          process     └─ Attached ──function──► Function, lines
//!                                                                     once a function
//! ```
//!
//! [`Language`] is the seam: `ebpf-profiler-hll` has implementations, and a language of your own
//! plugs in beside them. It describes its frames with a [`FrameWalker`], so it needs no code in the
//! kernel:
//!
//! | frames | walker | toy language in the repository |
//! | --- | --- | --- |
//! | beside the native stack, each with the address of its caller | [`FrameWalker::list`] | `examples/src/toy/mod.rs`, `toy.c` |
//! | beside the native stack, elements of an array | [`FrameWalker::array`] | `array.rs`, `array.c` |
//! | on the native stack, in code that the runtime compiles | [`FrameWalker::compiled`], [`Attachment::with_code`] | `compiled.rs`, `compiled.c` |
//!
//! An interpreter's frames replace those of its loop, a native function, in the stack; compiled
//! code, native code and interpreters may call one another. Code without frame pointers needs a
//! specific walker in `ebpf-programs`.
//!
//! A function is named when it is first sampled, not when the profile is finished: the kernel side
//! wakes user space for a function that is new, so that the name is read while the process still
//! runs.
//!
//! # A language of your own
//!
//! An interpreter in C whose frames are a linked list (`examples/src/toy/toy.c` in the repository):
//!
//! ```c
//! struct function { const char *name; uint32_t first_line, serial; const struct op *code; };
//! struct frame    { struct frame *caller; const struct function *function; volatile uint32_t line; };
//!
//! struct frame *volatile toy_top;                            // the innermost frame
//!
//! void toy_run(const struct function *function) {            // the loop: one call of it runs one frame
//!     struct frame frame = {toy_top, function, function->first_line};
//!     toy_top = &frame;
//!     …
//!     toy_top = frame.caller;
//! }
//! ```
//!
//! Its language, complete:
//!
//! ```
//! use std::ops::Range;
//!
//! use ebpf_profiler_core::elf::Elf;
//! use ebpf_profiler_core::language::*;
//! use ebpf_profiler_core::process::LoadBias;
//!
//! /// The toy language.
//! #[derive(Clone, Copy, Debug, Default)]
//! pub struct Toy;
//!
//! impl Language for Toy {
//!     fn name(&self) -> &'static str {
//!         "toy"
//!     }
//!
//!     /// Recognizes the interpreter by its exported symbols, whatever the name of the file.
//!     fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
//!         let exports = elf.exports()?;
//!         let (run, top) = (exports.get("toy_run")?, exports.get("toy_top")?.address);
//!         Some(Box::new(ToyRuntime { loops: [run.address..run.address.checked_add(run.size)?], top }))
//!     }
//! }
//!
//! struct ToyRuntime {
//!     loops: [Range<u64>; 1],
//!     /// Virtual address of `toy_top`.
//!     top: u64,
//! }
//!
//! impl Runtime for ToyRuntime {
//!     fn loops(&self) -> &[Range<u64>] {
//!         &self.loops
//!     }
//!
//!     fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
//!         let walker = FrameWalker::list(FramePath::from_address(target.address(self.top), &[]))
//!             .caller(0)
//!             .function(8)
//!             .position_number(16)
//!             .identity_number(12)
//!             .build()
//!             .map_err(|_| Reason::Unsupported)?;
//!         Ok(Attachment::new(walker, ToyNames(walker)))
//!     }
//! }
//!
//! struct ToyNames(FrameWalker);
//!
//! impl Attached for ToyNames {
//!     fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
//!         let name: [u8; 16] = memory.array(memory.u64(address)?)?;
//!         let end = name.iter().position(|&byte| byte == 0).ok_or(Reason::Implausible)?;
//!         let name = std::str::from_utf8(&name[..end]).map_err(|_| Reason::Implausible)?;
//!         let start_line = memory.u32(address.wrapping_add(8))?;
//!         // Read after everything else: the function may have been replaced in between.
//!         if self.0.check(address, |at| memory.u64(at))? != check {
//!             return Err(Reason::Replaced);
//!         }
//!         // The position of a frame is its line.
//!         let lines = Lines::of_positions();
//!         Ok(Function::new(name).with_file("script.toy").with_start_line(start_line).with_lines(lines))
//!     }
//! }
//!
//! // The memory of a process: a function `draw`, first line 1, serial number 7.
//! let memory = |address: u64, buffer: &mut [u8]| {
//!     let words = [0x2010, 7 << 32 | 1, u64::from_le_bytes(*b"draw\0\0\0\0"), 0];
//!     let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//!     let at = address.checked_sub(0x2000).ok_or(Unreadable)? as usize;
//!     buffer.copy_from_slice(bytes.get(at..at + buffer.len()).ok_or(Unreadable)?);
//!     Ok(())
//! };
//! let runtime = ToyRuntime { loops: [0x500..0x600], top: 0x1000 };
//! let mut attachment = runtime.attach(&Target::new(&memory, LoadBias::ZERO, Vec::new()))?;
//! let function = attachment.names().function(0x2000, 7, &memory)?;
//! assert_eq!((&*function.name, function.start_line, function.lines.at(2)), ("draw", 1, 2));
//! assert_eq!(attachment.names().function(0x2000, 8, &memory), Err(Reason::Replaced));
//! # Ok::<(), Reason>(())
//! ```
//!
//! With `.languages([Box::new(Toy) as _])` the folded stacks of `./toy` hold the functions of its
//! script instead of `toy_run` (`cargo run --release --bin own_language`):
//!
//! ```text
//! toy;_start;__libc_start_main;__libc_start_call_main;main;main;frame;draw 176
//! toy;_start;__libc_start_main;__libc_start_call_main;main;main;frame 50
//! ```
//!
//! [`testing::language`](crate::testing::language) checks an implementation against hostile files
//! and memory.
//!
//! # Untrusted memory
//!
//! Files and memory belong to programs that may be hostile. A [`Memory`] fails or returns all
//! bytes; implementations bound each length and each list. Implausible data yields a [`Reason`],
//! which appears in the stack instead of the name.

mod code;

mod family;

mod function;

mod journal;

mod labels;

mod memory;

mod runtimes;

mod script;

mod splice;

mod target;

mod walker;

mod words;

use std::fmt;
use std::ops::Range;

use crate::elf::Elf;
use crate::unwind::BareFunction;

pub use code::CodeRanges;
pub use function::{Function, Inlines, Lines};
pub use journal::{Journal, NoJournal, SampleId};
pub use labels::{LabelLayout, LabelPath, LabelRuntime, LabelSource};
pub use memory::{Memory, Unreadable};
pub use runtimes::InterpreterStats;
pub(crate) use runtimes::{Context, FoundRuntime, Interpreters, RuntimeFiles, loaded_files, read_process};
pub(crate) use script::{Caller, Scripts};
pub use script::{NamedCall, Script, ScriptCall};
pub(crate) use splice::Splice;
pub use target::{LoadedFile, Target};
pub use walker::{
    ArrayWalker, CompiledWalker, FramePath, FrameWalker, InvalidWalker, ListWalker, MAX_RANGES, ThreadLists,
};
#[doc(hidden)]
pub use words::Words;

/// A language: recognizes the files that hold its runtime.
///
/// # Examples
///
/// A complete implementation is in the [module's documentation](self).
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::{Language, Runtime};
///
/// struct Wren;
///
/// impl Language for Wren {
///     fn name(&self) -> &'static str {
///         "wren"
///     }
///     fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
///         let _interpret = elf.exports()?.get("wrenInterpret")?;
///         None // a runtime that reads Wren's structures
///     }
/// }
///
/// assert!(Wren.find(&Elf::open(std::fs::File::open("/proc/self/exe")?)?).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Language: Send + Sync {
    /// Returns the language's name in OpenTelemetry's conventions: `cpython`, `jvm`, `v8js`.
    fn name(&self) -> &'static str;

    /// Returns the runtime that a file holds, `None` if it holds none.
    ///
    /// Called once per executable file. Reject other files with as few reads as possible.
    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>>;

    /// Returns the kernel side's walkers that its runtimes use, a bit for each number.
    #[doc(hidden)]
    fn walkers(&self) -> u32 {
        ebpf_programs::abi::interpreter::walker::GENERIC
    }
}

/// The runtime in a file; attaches to the processes that have the file mapped.
pub trait Runtime: Send + Sync {
    /// Returns the address ranges of the interpreter loop, as virtual addresses in the file. At
    /// most [`MAX_RANGES`]; none for a runtime all of whose frames are in [memory that it
    /// owns](CodeRanges).
    fn loops(&self) -> &[Range<u64>];

    /// Returns `true` if the runtime will own executable memory without a file. Until it is
    /// attached, samples in such memory are sent as copies of their stacks, at most 1,024 of a
    /// process and for at most 10 s, so that its first frames have names.
    fn owns_anonymous_memory(&self) -> bool {
        false
    }

    /// Returns functions of the file without unwind data, sorted by address. Their unwind rows are
    /// derived from their instructions, when the table of the file is built.
    fn bare_functions(&self) -> &[BareFunction] {
        &[]
    }

    /// Attaches to a process that has this file mapped.
    ///
    /// # Errors
    ///
    /// After [`Reason::NotReady`] attaching is retried as long as the process lives;
    /// [`Reason::Unsupported`] is final. After all other reasons, which may be temporary while
    /// the loader is at work, it is retried for about 8 s.
    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason>;
}

/// A runtime's state in one process: its frames for the kernel side, and its names for user space.
pub struct Attachment {
    walker: FrameWalker,
    code: CodeRanges,
    names: Box<dyn Attached>,
}

impl Attachment {
    /// Combines the walker of the process's frames with the names of its functions.
    pub fn new(walker: FrameWalker, names: impl Attached + 'static) -> Attachment {
        Attachment { walker, code: CodeRanges::default(), names: Box::new(names) }
    }

    /// Sets the memory that the runtime owns: its walker unwinds all native frames there.
    #[must_use]
    pub fn with_code(self, code: CodeRanges) -> Attachment {
        Attachment { code, ..self }
    }

    /// Returns the memory that the runtime owns.
    pub fn code(&self) -> &CodeRanges {
        &self.code
    }

    /// Returns the walker of the process's frames, as it was passed to [`new`](Attachment::new).
    pub fn walker(&self) -> &FrameWalker {
        &self.walker
    }

    /// Returns the names.
    pub fn names(&mut self) -> &mut dyn Attached {
        &mut *self.names
    }

    /// Separates the walker, the memory that the runtime owns, and the names.
    pub fn into_parts(self) -> (FrameWalker, CodeRanges, Box<dyn Attached>) {
        (self.walker, self.code, self.names)
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("walker", &self.walker).finish_non_exhaustive()
    }
}

/// The names of functions in one process.
pub trait Attached: Send {
    /// Returns the function at `address`.
    ///
    /// Called once per function, soon after it is first sampled. `check` holds the low 24 bits of
    /// the function's [identity](ListWalker::identity_number) when the frame was taken; if
    /// [`FrameWalker::check`] returns another value now, the function has been replaced
    /// ([`Reason::Replaced`]).
    ///
    /// # Errors
    ///
    /// The [`Reason`] for a missing name.
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason>;

    /// Returns the function at `address` with the name by which its caller called it. `caller` is
    /// the address of the calling function and the position in it. For languages whose
    /// functions have no names of their own.
    ///
    /// # Errors
    ///
    /// As [`function`](Attached::function).
    #[doc(hidden)]
    fn called_function(
        &mut self,
        address: u64,
        check: u32,
        caller: (u64, u32),
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        let _ = caller;
        self.function(address, check, memory)
    }

    /// Returns `true` if the function at `address` still has this check. The profiler asks after it
    /// has read a name, a file and lines: a function may be freed meanwhile, and another one
    /// take its place.
    ///
    /// # Errors
    ///
    /// As [`function`](Attached::function).
    #[doc(hidden)]
    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let _ = (address, check, memory);
        Ok(true)
    }

    /// Returns the bits of positions that identify the function together with its check: functions
    /// for which these are the same have the same name, file and lines in all processes that
    /// were forked from one, whatever their addresses. 0 if they may differ.
    #[doc(hidden)]
    fn identity_bits(&self) -> u32 {
        0
    }
}

/// Names of languages in OpenTelemetry's conventions.
const NAMES: [&str; 13] = [
    "jit",
    "cpython",
    "jvm",
    "v8js",
    "ruby",
    "php",
    "perl",
    "dotnet",
    "beam",
    "lua",
    "luajit",
    "go",
    "webassembly",
];

/// Returns the name of a language as a static string, `script` if it is unknown.
pub(crate) fn language_name(text: &str) -> &'static str {
    NAMES.into_iter().find(|name| *name == text).unwrap_or("script")
}

/// The reason for a missing name or a failed attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The runtime is not initialized yet.
    NotReady,
    /// The process has ended, or its memory is not mapped.
    Unreadable,
    /// Data that is implausible.
    Implausible,
    /// The sampled function was freed, or its address holds another function by now.
    Replaced,
    /// A version or build whose structures are unknown.
    Unsupported,
    /// The address lies in no code that the runtime knows: a perf map may name it.
    Foreign,
}

impl Reason {
    /// All reasons, in a fixed order; new ones are appended.
    pub const ALL: &[Reason] = &[
        Reason::NotReady,
        Reason::Unreadable,
        Reason::Implausible,
        Reason::Replaced,
        Reason::Unsupported,
        Reason::Foreign,
    ];

    /// Returns a description in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::NotReady => "not ready yet",
            Reason::Unreadable => "memory gone",
            Reason::Implausible => "implausible data",
            Reason::Replaced => "replaced since",
            Reason::Unsupported => "version not known",
            Reason::Foreign => "unknown code",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl std::error::Error for Reason {}

impl From<Unreadable> for Reason {
    fn from(_: Unreadable) -> Reason {
        Reason::Unreadable
    }
}
