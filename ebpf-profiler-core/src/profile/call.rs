//! What people read in a stack: functions, from the root to the leaf, and notes where something is missing.

use std::fmt;

use super::{FrameView, TraceView};
use crate::symbol::Symbol;
use crate::trace::{Frame, Stop};

/// One line of a stack as people read it.
///
/// A frame gives one function for each of its symbols; what is missing from a stack gives a line too.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'p> {
    /// A function.
    Function {
        /// The frame that it lies in.
        frame: FrameView<'p>,
        /// How many functions of that frame stand around it: 0 is the one that was called, all others were
        /// inlined.
        depth: usize,
    },
    /// So many frames are left out here.
    LeftOut(u32),
    /// The root side is missing from here on, for this reason.
    Truncated(Stop),
}

/// What kind of code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// No function: everything, a process or a thread, the stem of a tree.
    Origin,
    /// The kernel, or a BPF program.
    Kernel,
    /// Rust, in a file.
    Rust,
    /// C++, in a file.
    Cpp,
    /// Any other code in a file: C, assembly, Go, code without symbols.
    Native,
    /// Code made at run time.
    RunTime,
    /// No function: a note that something is missing from the stack.
    Missing,
    /// No function: several that find no room in a picture.
    Merged,
}

impl<'p> TraceView<'p> {
    /// The stack as people read it, root first.
    ///
    /// A stack that doesn't reach its root begins with [`Call::Truncated`]; where frames are left out in the
    /// middle, [`Call::LeftOut`] stands.
    pub fn calls(&self) -> impl Iterator<Item = Call<'p>> + use<'p> {
        let frames = self.frames();
        let gap = self.omitted().map(|(count, at)| (Call::LeftOut(count), at));
        let outside = gap.filter(|&(_, at)| at >= frames.len());
        let truncated = self.truncated().map(Call::Truncated);
        let inside = frames.enumerate().rev().flat_map(move |(index, frame)| {
            let here = gap.filter(|&(_, at)| at == index);
            frame.calls().chain(here.map(|(call, _)| call))
        });
        truncated.into_iter().chain(outside.map(|(call, _)| call)).chain(inside)
    }

    /// Why its root side is missing, if it is.
    fn truncated(&self) -> Option<Stop> {
        let only_the_middle = self.stop() == Stop::TooDeep && self.omitted().is_some();
        (!self.is_whole() && !only_the_middle).then_some(self.stop())
    }
}

impl<'p> FrameView<'p> {
    /// Its functions, the one that was called first, what was inlined into it after it.
    ///
    /// There is always one: without a name it shows as the frame does.
    pub fn calls(self) -> impl Iterator<Item = Call<'p>> {
        let count = self.symbols().len().max(1);
        (0..count).map(move |depth| Call::Function { frame: self, depth })
    }
}

impl<'p> Call<'p> {
    /// The function, where it has a name.
    pub fn symbol(&self) -> Option<&'p Symbol> {
        let Call::Function { frame, depth } = self else { return None };
        frame.symbols().iter().rev().nth(*depth)
    }

    /// The last part of the path of the file that it lies in.
    pub fn module(&self) -> Option<&'p str> {
        let Call::Function { frame, .. } = self else { return None };
        frame.module().map(|module| module.name())
    }

    /// Whether it has no frame of its own.
    pub fn is_inlined(&self) -> bool {
        matches!(self, Call::Function { depth, .. } if *depth > 0)
    }

    /// Whether its frame was found through the frame pointer of code without unwind data.
    pub fn is_guessed(&self) -> bool {
        matches!(self, Call::Function { frame, .. } if frame.is_guessed())
    }

    /// What kind of code it is.
    pub fn kind(&self) -> Kind {
        let Call::Function { frame, .. } = self else { return Kind::Missing };
        match frame.frame() {
            Frame::Kernel { .. } => Kind::Kernel,
            Frame::Anonymous { .. } => Kind::RunTime,
            Frame::Native { .. } => self.symbol().map_or(Kind::Native, language),
        }
    }
}

/// The function's name, what [`FrameView`] shows where there is none, or the note:
/// `malloc`, `libc.so.6+0x2e1c0`, `[… 12 frames left out]`, `[truncated: stack not readable]`.
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Function { frame, .. } => match self.symbol() {
                Some(symbol) if !symbol.function.is_empty() => f.write_str(&symbol.function),
                _ => frame.fmt_unnamed(f),
            },
            Call::LeftOut(count) => write!(f, "[… {count} frames left out]"),
            Call::Truncated(stop) => write!(f, "[truncated: {stop}]"),
        }
    }
}

/// Rust and C++ from the linker's name, or else from the ending of the source file.
fn language(symbol: &Symbol) -> Kind {
    let linked = if symbol.system_name.is_empty() { &symbol.function } else { &symbol.system_name };
    if linked.starts_with("_R") || is_legacy_rust(linked) {
        return Kind::Rust;
    }
    if linked.starts_with("_Z") {
        return Kind::Cpp;
    }
    match symbol.file.rsplit('.').next() {
        Some("rs") => Kind::Rust,
        Some("cc" | "cpp" | "cxx" | "hh" | "hpp") => Kind::Cpp,
        _ => Kind::Native,
    }
}

/// Rust's older names look like C++ but end in `17h`, a hash of 16 digits and `E`, perhaps with a suffix that
/// LLVM appended behind a dot.
fn is_legacy_rust(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    let hash =
        name.strip_suffix('E').and_then(|name| name.len().checked_sub(19).and_then(|at| name.get(at..)));
    name.starts_with("_ZN")
        && hash
            .and_then(|hash| hash.strip_prefix("17h"))
            .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
