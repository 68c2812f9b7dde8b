//! The names of an interpreter's functions: each is read once, and cached.

use std::sync::Arc;

use super::Context;
use super::known::{Known, REREAD_DELAY};
use super::running::{Running, read_process};
use crate::language::family::Key;
use crate::language::{Attached, Caller, Function, Memory, NamedCall, Reason, Script, ScriptCall};
use crate::trace::{Found, Frame, ScriptId};

/// Delay until an unnamed function is read again, in nanoseconds: its address may be reused.
const RETRY_DELAY: u64 = 100_000_000;

/// Maximum of [`REREAD_DELAY`].
const MAX_REREAD_DELAY: u64 = 64 * REREAD_DELAY;

/// Maximum number of named functions cached per interpreter.
const MAX_KNOWN: usize = 1 << 16;

/// A frame as the kernel side sent it.
pub(super) struct Seen {
    pub(super) call: ScriptCall,
    /// The position in the function.
    pub(super) position: u32,
    pub(super) caller: Option<Caller>,
    pub(super) found: Found,
}

impl Running {
    /// Appends the frame of a function, after those of the functions inlined into it, innermost
    /// first. Returns `true` if it is code that the runtime doesn't know.
    pub(super) fn frames(&mut self, seen: &Seen, around: &mut Context<'_>, frames: &mut Vec<Frame>) -> bool {
        let &Seen { call: ScriptCall { address, check, site, .. }, position, found, .. } = seen;
        if address == 0 {
            let function = unnamed(around, self.language, "frame not readable");
            frames.push(Frame::Script { function, line: 0, found });
            return false;
        }
        let key = Key { address, check, site, bits: position & self.identity_bits };
        let known = self.known(key, seen, around);
        if known.is_hidden {
            return false;
        }
        let is_foreign = known.is_foreign;
        let inlined = known.function.inlines.calls_at(position).iter().rev().filter_map(|&(index, line)| {
            let &function = known.inlined.get(index as usize)?;
            Some(Frame::Script { function, line, found: Found::Inlined })
        });
        frames.extend(inlined);
        let line = known.function.lines.at(position);
        let mut function = known.script;
        if known.unnamed_until.is_some() && self.identity_bits != 0 {
            let reserve = || around.scripts.reserve(function);
            function = self.family.unnamed(key.of_family(), position, reserve).unwrap_or(function);
        }
        frames.push(Frame::Script { function, line, found });
        is_foreign
    }

    /// Drops all names, those of the family as well.
    pub(super) fn forget_names(&mut self) {
        self.known = Arc::default();
        self.family.clear();
    }

    /// Returns the function of a frame, naming it the first time.
    fn known(&mut self, key: Key, seen: &Seen, around: &mut Context<'_>) -> &Known {
        let is_current = match self.known.get(&key) {
            Some(Known { unnamed_until: None, .. }) => true,
            // Another process may have read the name since.
            Some(Known { unnamed_until: Some(until), .. }) => {
                around.now < *until && self.shared(key).is_none()
            }
            None => false,
        };
        let is_current = is_current && !self.is_outdated(key, seen, around);
        if !is_current {
            let known = match self.shared(key) {
                Some(known) => {
                    let (language, function) = (self.language, Ok(known.function.clone()));
                    around.journal.record(&seen.call, &NamedCall { language, function });
                    known
                }
                None => self.read_name(key, seen, around),
            };
            let all = Arc::make_mut(&mut self.known);
            if all.len() >= MAX_KNOWN {
                all.clear();
            }
            all.insert(key, known);
        }
        &self.known[&key]
    }

    /// Reads a named function again, one a second or less often. Returns `true` if it is another
    /// one by now, and drops it.
    fn is_outdated(&mut self, key: Key, seen: &Seen, around: &mut Context<'_>) -> bool {
        if self.reread_at == 0 {
            self.reread_at = around.now.saturating_add(self.reread_delay);
        }
        let is_due = around.now >= self.reread_at && self.attached.is_ok();
        let Some(known) = self.known.get(&key).filter(|known| is_due && known.unnamed_until.is_none()) else {
            return false;
        };
        let function = known.function.clone();
        let now = self.name(seen, around);
        // The name of one that is gone was right.
        let is_other = now.is_ok_and(|now| {
            (&now.name, &now.file, now.start_line) != (&function.name, &function.file, function.start_line)
        });
        self.reread_delay =
            if is_other { REREAD_DELAY } else { (self.reread_delay * 2).min(MAX_REREAD_DELAY) };
        self.reread_at = around.now.saturating_add(self.reread_delay);
        if is_other {
            Arc::make_mut(&mut self.known).remove(&key);
            self.family.clear();
            self.renamed = self.renamed.wrapping_add(1);
        }
        is_other
    }

    /// Returns the function if a process of the family has named it.
    fn shared(&self, key: Key) -> Option<Known> {
        self.family.get(&key.of_family()).filter(|_| self.identity_bits != 0)
    }

    fn read_name(&mut self, key: Key, seen: &Seen, around: &mut Context<'_>) -> Known {
        let named = around.journal.recall(&seen.call).unwrap_or_else(|| {
            let function = self.name(seen, around).map(Arc::new);
            let named = NamedCall { language: self.language, function };
            around.journal.record(&seen.call, &named);
            named
        });
        let is_foreign = matches!(named.function, Err(Reason::Foreign));
        let (script, function, unnamed_until) = match named.function {
            Ok(function) => {
                around.stats.functions += 1;
                (self::script(named.language, &function), function, None)
            }
            Err(reason) => {
                around.stats.unnamed += 1;
                let delay = if self.identity_bits != 0 { RETRY_DELAY / 20 } else { RETRY_DELAY };
                let until = around.now.saturating_add(delay);
                (no_script(named.language, reason.text()), Arc::default(), Some(until))
            }
        };
        let is_hidden = script.name.is_empty();
        let inlined = function.inlines.functions().iter();
        let inlined =
            inlined.map(|inlined| around.scripts.intern(self::script(named.language, inlined))).collect();
        let known = Known {
            script: around.scripts.intern(script),
            unnamed_until,
            is_foreign,
            is_hidden,
            function,
            inlined,
        };
        if unnamed_until.is_none() && self.identity_bits != 0 {
            let frames = self.family.insert(key.of_family(), known.clone());
            for (position, id) in frames.into_iter().filter(|_| !known.is_hidden) {
                around.scripts.name_late(id, known.script, known.function.lines.at(position));
            }
        }
        known
    }

    fn name(&mut self, seen: &Seen, around: &mut Context<'_>) -> Result<Function, Reason> {
        if let Ok(None) = self.attached {
            // Forked: attach to the process itself, or else to its parent.
            let (walker, code) = (self.walker, self.code.clone());
            self.attach(around, around.pid);
            if let (Err(_), Some(parent)) = (&self.attached, self.parent) {
                self.attach(around, parent);
            }
            (self.walker, self.code) = (walker, code);
        }
        let names = match &mut self.attached {
            Ok(Some(names)) => names,
            Ok(None) => return Err(Reason::Unreadable),
            Err(reason) => return Err(*reason),
        };
        let system = around.system;
        let mut ask = |pid: u32| {
            let memory = move |address: u64, buffer: &mut [u8]| read_process(system, pid, address, buffer);
            let memory = &memory as &dyn Memory;
            read_function(&mut **names, seen, memory)
        };
        match (ask(around.pid), self.parent) {
            (Err(Reason::Unreadable), Some(parent)) => ask(parent),
            (named, _) => named,
        }
    }
}

/// Reads a function, and fails with [`Reason::Replaced`] if it was freed meanwhile, or what names
/// it.
fn read_function(names: &mut dyn Attached, seen: &Seen, memory: &dyn Memory) -> Result<Function, Reason> {
    let call = &seen.call;
    let Some(Caller { address, check, position }) = seen.caller else {
        let function = names.function(call.address, call.check, memory)?;
        return if names.is_current(call.address, call.check, memory)? {
            Ok(function)
        } else {
            Err(Reason::Replaced)
        };
    };
    let function = names.called_function(call.address, call.check, (address, position), memory)?;
    let is_current =
        names.is_current(call.address, call.check, memory)? && names.is_current(address, check, memory)?;
    if is_current { Ok(function) } else { Err(Reason::Replaced) }
}

fn script(language: &'static str, function: &Function) -> Script {
    Script {
        language,
        name: (*function.name).into(),
        file: (*function.file).into(),
        start_line: function.start_line,
        ..Script::default()
    }
}

fn no_script(language: &'static str, why: &str) -> Script {
    let name = format!("[{language}: {why}]").into();
    Script { language, name, is_unnamed: true, ..Script::default() }
}

/// Counts a function without a name, and returns one that shows the reason.
pub(super) fn unnamed(around: &mut Context<'_>, language: &'static str, why: &str) -> ScriptId {
    around.stats.unnamed += 1;
    around.scripts.intern(no_script(language, why))
}
