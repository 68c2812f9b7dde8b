//! Interned functions of scripts.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Function, Reason};
use crate::trace::{FrameWord, ScriptId};

/// A function of a script, interned by content: processes that run the same program share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Script {
    /// [`Language::name`](super::Language::name).
    pub language: &'static str,
    /// Name of the function, or the reason for a missing name in brackets.
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// First line of the function; 0 if unknown.
    pub start_line: u32,
    /// `true` if `name` is the reason for a missing name.
    pub is_unnamed: bool,
}

/// A frame of a script as walked, without its position: the key of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ScriptCall {
    /// Process id.
    pub pid: u32,
    /// Index of the interpreter in the process.
    pub interpreter: u32,
    /// Address of the function.
    pub address: u64,
    /// [Check](super::FrameWalker::check) of the function.
    pub check: u32,
    /// Hash of the caller and its position, 24 bits, for a function that has the name by which it
    /// was called; 0 for others.
    pub site: u32,
}

impl ScriptCall {
    /// Creates a call from its parts, as a recording holds them: see
    /// [`numbers`](ScriptCall::numbers).
    pub(crate) fn new(pid: u32, numbers: u32, address: u64, check: u32) -> ScriptCall {
        let (interpreter, site) =
            if numbers == u32::MAX { (numbers, 0) } else { (numbers & 0xff, numbers >> 8) };
        ScriptCall { pid, interpreter, address, check, site }
    }

    /// Returns index of the interpreter, in the low eight bits, and site. All bits are set for code
    /// without an interpreter.
    pub(crate) fn numbers(&self) -> u32 {
        self.interpreter | self.site << 8
    }
}

/// The frame that called a function which has the name by which it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Address of its function.
    pub(crate) address: u64,
    /// Its check: what is at its address may be another function soon, and name another one.
    pub(crate) check: u32,
    /// Position in it.
    pub(crate) position: u32,
}

impl Caller {
    /// Returns the caller of the frame with the word `detail`, if its name depends on it. `following`
    /// are the words after it.
    pub(crate) fn of(detail: FrameWord, following: &[u64]) -> Option<Caller> {
        let &[word, next, ..] = following else { return None };
        let (word, next) = (FrameWord(word), FrameWord(next));
        (detail.is_named_by_caller() && word.is_call() && next.is_detail()).then(|| Caller {
            address: word.address(),
            check: next.check(),
            position: next.position(),
        })
    }

    /// Returns the hash of the caller and its position: 24 bits, not 0.
    pub(crate) fn site(&self) -> u32 {
        let mixed =
            (self.address ^ u64::from(self.position).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ u64::from(self.check)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 40) as u32).max(1)
    }
}

/// The name of a [`ScriptCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedCall {
    /// [`Language::name`](super::Language::name).
    pub language: &'static str,
    /// The function, or the reason for a missing name.
    pub function: Result<Arc<Function>, Reason>,
}

/// Functions of scripts by number and by content.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    by_content: HashMap<Arc<Script>, ScriptId>,
    by_id: HashMap<ScriptId, Arc<Script>>,
    /// Functions and lines of frames that were named after their walk.
    late: HashMap<ScriptId, (ScriptId, u32)>,
    next: u32,
}

impl Script {
    /// Creates a named function without a file.
    pub fn new(language: &'static str, name: impl Into<Arc<str>>) -> Script {
        Script { language, name: name.into(), ..Script::default() }
    }

    /// Sets the source file and the first line.
    #[must_use]
    pub fn with_file(self, file: impl Into<Arc<str>>, start_line: u32) -> Script {
        Script { file: file.into(), start_line, ..self }
    }
}

impl NamedCall {
    /// Combines the name of a language with a function, or with the reason for a missing name.
    pub fn new(language: &'static str, function: Result<Arc<Function>, Reason>) -> NamedCall {
        NamedCall { language, function }
    }
}

impl Scripts {
    pub(crate) fn intern(&mut self, script: Script) -> ScriptId {
        if let Some(&id) = self.by_content.get(&script) {
            return id;
        }
        let script = Arc::new(script);
        let id = self.add(script.clone());
        self.by_content.insert(script, id);
        id
    }

    /// Returns a number for a frame without a name, which may be named later; `like` is another
    /// number of it.
    pub(crate) fn reserve(&mut self, like: ScriptId) -> Option<ScriptId> {
        let script = self.by_id.get(&like)?.clone();
        Some(self.add(script))
    }

    /// Gives the frame with a [reserved](Scripts::reserve) number a function and a line.
    pub(crate) fn name_late(&mut self, id: ScriptId, script: ScriptId, line: u32) {
        self.late.insert(id, (script, line));
    }

    /// Returns the function and the line of a frame that was named after its walk; `None` for
    /// others.
    pub(crate) fn late(&self, id: ScriptId) -> Option<(ScriptId, u32)> {
        self.late.get(&id).copied()
    }

    fn add(&mut self, script: Arc<Script>) -> ScriptId {
        let id = ScriptId(self.next);
        self.next = self.next.wrapping_add(1);
        self.by_id.insert(id, script);
        id
    }

    pub(crate) fn get(&self, id: ScriptId) -> Option<&Arc<Script>> {
        self.by_id.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Removes all functions; numbers are not reused.
    pub(crate) fn clear(&mut self) {
        self.by_content.clear();
        self.by_id.clear();
        self.late.clear();
    }
}
