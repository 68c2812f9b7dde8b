//! Interpreters: which function of a script a frame belongs to.
//!
//! ```text
//!   Language ──find──► Runtime ──attach──► Attached ──function──► Function, lines
//!   all of them        once a file         once a process         once a function
//!                                            │
//!                                            └─ Interpreter ──► kernel side, which takes the frames
//! ```
//!
//! [`Language`] is the seam; `ebpf-profiler-hll` holds those that come along, and one of your own plugs in beside
//! them. What a frame is and where it lies in memory is said in a few numbers, an
//! [`FrameWalker`]: the kernel side walks any list of frames by them,
//! so a language needs no code there.
//!
//! A function gets its name when it is first seen, not when the profile is finished: the kernel side wakes this
//! program for a function that is new to it, and so the name is read while the process still lives.
//!
//! # Lies
//!
//! Everything that is read here belongs to a program that may mean harm. A [`Memory`] answers with bytes or not at
//! all; lengths are bounded by whoever reads, and what makes no sense is a [`Reason`], which shows in the stack in
//! the place of the name.

mod function;

mod journal;

mod memory;

mod runtimes;

mod script;

mod splice;

mod target;

mod walker;

use std::fmt;
use std::ops::Range;

use crate::elf::Elf;

pub use function::{Function, Lines};
pub use journal::{Journal, NoJournal};
pub use memory::{Memory, Unreadable};
pub use runtimes::InterpreterStats;
pub(crate) use runtimes::{Context, FoundRuntime, Interpreters, RuntimeFiles};
pub(crate) use script::Scripts;
pub use script::{NamedCall, Script, ScriptCall, ScriptId};
pub(crate) use splice::Splice;
pub use target::{LoadedFile, Target};
pub use walker::{FramePath, FrameWalker, InvalidWalker, ListWalker, MAX_RANGES, ThreadLists};

/// A language: finds its runtime in files.
pub trait Language: Send + Sync {
    /// What it is called in profiles, as OpenTelemetry's conventions do: `cpython`, `jvm`, `v8js`.
    fn name(&self) -> &'static str;

    /// Looks whether a file holds the language's runtime.
    ///
    /// Called once for each file that is mapped as code anywhere: what it isn't should be seen by few reads.
    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>>;
}

/// The runtime that one file holds.
pub trait Runtime: Send + Sync {
    /// The code that runs scripts, in virtual addresses of the file: four ranges at most.
    fn loops(&self) -> &[Range<u64>];

    /// Gets ready for a process that has the file mapped.
    ///
    /// # Errors
    ///
    /// [`Reason::NotReady`] is asked again later, [`Reason::Unsupported`] is final. After all others, which may be true of
    /// a process whose loader is still at work, it is asked again for some seconds.
    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason>;
}

/// A runtime's state in one process: its frames for the kernel side, and its names for user space.
pub struct Attachment {
    walker: FrameWalker,
    names: Box<dyn Attached>,
}

impl Attachment {
    /// Combines the walker of the process's frames with the names of its functions.
    pub fn new(walker: FrameWalker, names: impl Attached + 'static) -> Attachment {
        Attachment { walker, names: Box::new(names) }
    }

    /// Returns the walker, without the ranges of the loop.
    pub fn walker(&self) -> &FrameWalker {
        &self.walker
    }

    /// Returns the names.
    pub fn names(&mut self) -> &mut dyn Attached {
        &mut *self.names
    }

    /// Separates the walker and the names.
    pub fn into_parts(self) -> (FrameWalker, Box<dyn Attached>) {
        (self.walker, self.names)
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("walker", &self.walker).finish_non_exhaustive()
    }
}

/// Names the functions of one process.
pub trait Attached: Send {
    /// The function that lies at an address.
    ///
    /// Called once for each function that is met, soon after it was seen running. `check` holds the low 24 bits of
    /// the function's [identity](ListWalker::identity_number) when the frame was taken; if
    /// [`FrameWalker::check`] returns another value now, the function has been replaced ([`Reason::Replaced`]).
    ///
    /// # Errors
    ///
    /// When it can't be read, or isn't one.
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason>;
}

/// Names of languages as OpenTelemetry's conventions have them.
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

/// The name of a language that a text says; `script` for one that isn't known.
pub(crate) fn language_name(text: &str) -> &'static str {
    NAMES.into_iter().find(|name| *name == text).unwrap_or("script")
}

/// Why something of a process can't be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The runtime hasn't begun its work.
    NotReady,
    /// The process has ended, or its memory isn't there.
    Unreadable,
    /// What is there isn't what it should be.
    Implausible,
    /// Another function lies there by now.
    Replaced,
    /// A version or a kind of build whose structures aren't known.
    Unsupported,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 5] =
        [Reason::NotReady, Reason::Unreadable, Reason::Implausible, Reason::Replaced, Reason::Unsupported];

    /// A few words for people.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::NotReady => "not ready yet",
            Reason::Unreadable => "memory gone",
            Reason::Implausible => "makes no sense",
            Reason::Replaced => "replaced since",
            Reason::Unsupported => "version not known",
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
