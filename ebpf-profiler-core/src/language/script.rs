//! The functions of all scripts, each once.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Function, Reason};

/// A function of a script in a profile or in the tables, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptId(pub u32);

/// A function of a script, told from others by its content: a thousand processes that run one program share theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Script {
    /// The language, as [`Language::name`](super::Language::name) says it.
    pub language: &'static str,
    /// The function's name; where it couldn't be told, the reason in brackets.
    pub name: Arc<str>,
    /// The source file; empty where it isn't known.
    pub file: Arc<str>,
    /// The line on which the function begins; 0 where it isn't known.
    pub start_line: u32,
    /// Whether the name is a reason instead.
    pub is_unnamed: bool,
}

/// A call in a script as a walk left it, without its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptCall {
    /// The process.
    pub pid: u32,
    /// Which of its interpreters.
    pub interpreter: u32,
    /// The address of the function.
    pub address: u64,
    /// What tells it from another one at its address.
    pub check: u32,
}

/// What a call was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCall {
    /// The language.
    pub language: &'static str,
    /// The function, or why it can't be told.
    pub function: Result<Arc<Function>, Reason>,
}

/// Functions by number and by content.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    by_content: HashMap<Arc<Script>, ScriptId>,
    by_id: HashMap<ScriptId, Arc<Script>>,
    next: u32,
}

impl Scripts {
    pub(crate) fn intern(&mut self, script: Script) -> ScriptId {
        if let Some(&id) = self.by_content.get(&script) {
            return id;
        }
        let id = ScriptId(self.next);
        self.next = self.next.wrapping_add(1);
        let script = Arc::new(script);
        self.by_content.insert(script.clone(), id);
        self.by_id.insert(id, script);
        id
    }

    pub(crate) fn get(&self, id: ScriptId) -> Option<&Arc<Script>> {
        self.by_id.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Forgets all of them; no number is given twice.
    pub(crate) fn clear(&mut self) {
        self.by_content.clear();
        self.by_id.clear();
    }
}
