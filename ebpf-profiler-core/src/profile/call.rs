//! Display form of a stack: functions from the root to the leaf, and notes for missing frames.

use std::fmt;

use super::{FrameView, TraceView};
use crate::symbol::Symbol;
use crate::trace::{Frame, Stop};

/// One line of a stack in display form.
///
/// A frame gives one line for each of its symbols; a gap or a missing root side gives one too.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'p> {
    /// A function of a frame, called or inlined.
    Function {
        /// Frame of the function.
        frame: FrameView<'p>,
        /// Number of functions of the frame that it was inlined into; 0 for the function that was
        /// called.
        depth: usize,
    },
    /// Number of frames that are missing here.
    LeftOut(u32),
    /// Reason why the root side is missing.
    Truncated(Stop),
}

/// Kind of code of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// No function: the root of a tree, a process or a thread.
    Origin,
    /// The kernel, or a BPF program.
    Kernel,
    /// Rust code of a file.
    Rust,
    /// C++ code of a file.
    Cpp,
    /// Other code of a file: C, assembly, Go, code without symbols.
    Native,
    /// A script.
    Script,
    /// JIT-compiled code.
    RunTime,
    /// No function: a note on missing frames.
    Missing,
    /// No function: several that are too narrow to be drawn.
    Merged,
}

impl<'p> TraceView<'p> {
    /// Returns the stack in display form, root first.
    ///
    /// A stack that doesn't reach its root begins with [`Call::Truncated`]. [`Call::LeftOut`]
    /// stands for a gap.
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

    /// Returns the reason for a missing root side.
    fn truncated(&self) -> Option<Stop> {
        let only_the_middle = self.stop() == Stop::TooDeep && self.omitted().is_some();
        let is_cut = !self.is_whole() && !only_the_middle;
        (is_cut || self.stop() == Stop::Exec).then_some(self.stop())
    }
}

impl<'p> FrameView<'p> {
    /// Returns the functions of the frame: the one that was called, then those inlined into it.
    ///
    /// Yields at least one call; for a frame without symbols, it displays as the frame.
    pub fn calls(self) -> impl Iterator<Item = Call<'p>> {
        let count = self.symbols().len().max(1);
        (0..count).map(move |depth| Call::Function { frame: self, depth })
    }
}

impl<'p> Call<'p> {
    /// Returns the symbol of the function; `None` without a name.
    pub fn symbol(&self) -> Option<&'p Symbol> {
        let Call::Function { frame, depth } = self else { return None };
        frame.symbols().iter().rev().nth(*depth)
    }

    /// Returns the file name of the module, or of the source of a script.
    pub fn module(&self) -> Option<&'p str> {
        let Call::Function { frame, .. } = self else { return None };
        let script = || frame.script().map(|script| script.file.rsplit('/').next().unwrap_or(&script.file));
        frame.module().map(|module| module.name()).or_else(script)
    }

    /// Returns `true` if the function was inlined into the next frame.
    pub fn is_inlined(&self) -> bool {
        matches!(self, Call::Function { frame, depth } if *depth > 0 || frame.is_inlined())
    }

    /// Returns `true` if the frame was guessed: found through a frame pointer, without unwind data.
    pub fn is_guessed(&self) -> bool {
        matches!(self, Call::Function { frame, .. } if frame.is_guessed())
    }

    /// Returns the kind of code.
    pub fn kind(&self) -> Kind {
        let Call::Function { frame, .. } = self else { return Kind::Missing };
        match frame.frame() {
            Frame::Kernel { .. } => Kind::Kernel,
            Frame::Script { .. } if frame.script().is_some_and(|script| script.language == "jit") => {
                Kind::RunTime
            }
            Frame::Script { .. } => Kind::Script,
            Frame::Anonymous { .. } => Kind::RunTime,
            Frame::Native { .. } => self.symbol().map_or(Kind::Native, language),
        }
    }
}

/// Displays the function's name, without one the frame as [`FrameView`] does, or the note:
/// `malloc`, `libc.so.6+0x2e1c0`, `[… 12 frames left out]`, `[truncated: stack not readable]`. The
/// alternate form is that of [`FrameView`].
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Function { frame, .. } => match self.symbol() {
                Some(symbol) if !symbol.function.is_empty() => f.write_str(&symbol.function),
                _ => frame.fmt_unnamed(f),
            },
            Call::LeftOut(count) => write!(f, "[… {count} frames left out]"),
            Call::Truncated(stop @ Stop::Exec) => write!(f, "[{stop}]"),
            Call::Truncated(stop) => write!(f, "[truncated: {stop}]"),
        }
    }
}

/// Returns the language by the linker's name, else by the extension of the source file.
fn language(symbol: &Symbol) -> Kind {
    let linked = if symbol.system_name.is_empty() { &symbol.function } else { &symbol.system_name };
    if linked.starts_with("_R") || is_legacy_rust(linked) {
        return Kind::Rust;
    }
    if linked.starts_with("_Z") {
        return Kind::Cpp;
    }
    match symbol.file.rsplit_once('.') {
        Some((_, "rs")) => Kind::Rust,
        Some((_, "cc" | "cpp" | "cxx" | "hh" | "hpp")) => Kind::Cpp,
        _ => Kind::Native,
    }
}

/// Returns `true` for a name of Rust's legacy mangling: like C++, but it ends in `17h`, a hash of
/// 16 digits and `E`, optionally followed by a dot and a suffix of LLVM.
fn is_legacy_rust(name: &str) -> bool {
    let Some((path, hash)) = name.rsplit_once("17h") else { return false };
    let (Some(digits), Some(rest)) = (hash.get(..16), hash.get(16..)) else { return false };
    path.starts_with("_ZN")
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        && (rest == "E" || rest.starts_with("E."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(linked: &str, file: &str) -> Kind {
        language(&Symbol {
            function: "f".into(),
            system_name: linked.into(),
            file: file.into(),
            ..Symbol::default()
        })
    }

    #[test]
    fn linker_name_decides_the_language() {
        let hash = "17h0123456789abcdefE";
        for rust in ["_RNvC1a1f", &format!("_ZN4core3fmt5write{hash}"), &format!("_ZN1a1b{hash}.llvm.1234")] {
            assert_eq!(kind(rust, ""), Kind::Rust, "{rust}");
        }
        let shim = format!("_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d${hash}");
        assert_eq!(kind(&shim, ""), Kind::Rust);
        for cpp in
            ["_ZN1a1bE", "_ZNSt6vectorIiE9push_backEi", "_ZN3f17hE", "_ZN1a17h0123456789abcdefgE", "_Z1fv"]
        {
            assert_eq!(kind(cpp, ""), Kind::Cpp, "{cpp}");
        }
        assert_eq!(kind("main", ""), Kind::Native);
    }

    #[test]
    fn source_file_decides_the_language_without_linker_name() {
        assert_eq!(kind("f", "/src/main.rs"), Kind::Rust);
        assert_eq!(kind("f", "a.cpp"), Kind::Cpp);
        assert_eq!(kind("f", "a.c"), Kind::Native);
        assert_eq!(kind("f", "rs"), Kind::Native);
    }
}
