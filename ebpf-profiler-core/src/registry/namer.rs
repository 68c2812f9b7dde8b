//! Names of functions that no file has: of scripts, and of JIT-compiled code.
//!
//! ```text
//!   words of a call ──► interpreters of the process ──► journal, or memory ──► Scripts ──► Frame::Script
//!   address in no file ──► perf map, jitdump ─────────► journal, or file ───┘
//! ```

use std::sync::Arc;

use super::modules::Modules;
use super::processes::Entry;
use crate::jit::{JitFiles, JitFunction, JitStats};
use crate::language::{
    Context, Function, InterpreterStats, Interpreters, Journal, Lines, NamedCall, NoJournal, Script,
    ScriptCall, Scripts,
};
use crate::process::{Region, System};
use crate::trace::{Found, Frame, ScriptId};

/// The language of functions named by a perf map or a jitdump file, which say nothing of it.
const LANGUAGE: &str = "jit";

/// The interpreter index of functions without one in the calls of a journal.
const NO_INTERPRETER: u32 = u32::MAX;

/// Beginning of the names of CPython's trampolines (`-X perf`), which call the function that has a
/// frame already.
const TRAMPOLINE: &str = "py::";

/// Maximum number of functions of scripts cached between two profiles.
const MAX_SCRIPTS: usize = 1 << 18;

/// Names functions, each once, and keeps them for the profiles.
pub(super) struct Namer {
    pub(super) journal: Box<dyn Journal>,
    scripts: Scripts,
    pub(super) interpreters: InterpreterStats,
    pub(super) jit: JitStats,
}

impl Default for Namer {
    fn default() -> Namer {
        Namer {
            journal: Box::new(NoJournal),
            scripts: Scripts::default(),
            interpreters: InterpreterStats::default(),
            jit: JitStats::default(),
        }
    }
}

impl Namer {
    /// Returns the interpreters of a process, and the context in which they read it.
    pub(super) fn interpreters_of<'a>(
        &'a mut self,
        (pid, entry): (u32, &'a mut Entry),
        files: &'a Modules,
        system: &'a dyn System,
        now: u64,
    ) -> (&'a mut Interpreters, Context<'a>) {
        let Namer { journal, scripts, interpreters: stats, .. } = self;
        let (interpreters, regions, journal) = (&mut entry.interpreters, &entry.regions, &**journal);
        (interpreters, Context { pid, now, regions, files, system, journal, scripts, stats })
    }

    /// Returns the frame of an address of a process that lies in no ELF file.
    pub(super) fn jit_frame(
        &mut self,
        (pid, entry): (u32, &mut Entry),
        system: &dyn System,
        address: u64,
        found: Found,
        now: u64,
    ) -> Frame {
        let Namer { journal, scripts, jit: stats, .. } = self;
        let Entry { regions, jit, interpreters, .. } = entry;
        let is_dump = |region: &&Region| is_dump(&region.name.path);
        let open = || JitFiles {
            perf_map: system.perf_map(pid).ok(),
            dump: regions
                .iter()
                .find(is_dump)
                .and_then(|region| system.opener(pid, &region.map()).open().ok()),
        };
        jit.refresh(now, open, stats);
        let hides_trampolines = !interpreters.are_none();
        let named = jit.cached(address, |names| {
            let call = ScriptCall { pid, interpreter: NO_INTERPRETER, address, check: 0, site: 0 };
            let function = match journal.recall(&call) {
                Some(named) => named.function.ok()?,
                None => {
                    let function = names.function(address)?;
                    let function = Arc::new(recorded(function));
                    journal.record(&call, &NamedCall { language: LANGUAGE, function: Ok(function.clone()) });
                    function
                }
            };
            if hides_trampolines && function.name.starts_with(TRAMPOLINE) {
                return None;
            }
            Some((scripts.intern(script(&function)), function.lines.at(0)))
        });
        match named {
            Some((function, line)) => Frame::Script { function, line, found },
            None => Frame::Anonymous { address, found },
        }
    }

    /// Returns the function of a script, if it is cached.
    pub(super) fn script(&self, id: ScriptId) -> Option<&Script> {
        self.scripts.get(id).map(|script| &**script)
    }

    /// Returns the function and the line of a frame that was named after its walk.
    pub(super) fn late_script(&self, id: ScriptId) -> Option<(ScriptId, u32)> {
        self.scripts.late(id)
    }

    /// Drops the cached functions if there are too many. Returns `true` if it did: the processes
    /// must forget them then.
    pub(super) fn limit_scripts(&mut self) -> bool {
        let has_too_many = self.scripts.len() > MAX_SCRIPTS;
        if has_too_many {
            self.scripts.clear();
        }
        has_too_many
    }
}

/// Returns `true` for the path of a jitdump file, `jit-PID.dump`.
fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let pid = name.strip_prefix("jit-").and_then(|name| name.strip_suffix(".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Converts a function to the form that a journal keeps, with the line of its address alone.
fn recorded(function: JitFunction) -> Function {
    let mut lines = Lines::default();
    lines.push(0, function.line);
    Function { name: (*function.name).into(), file: (*function.file).into(), lines, ..Function::default() }
}

fn script(function: &Function) -> Script {
    let (name, file) = ((*function.name).into(), (*function.file).into());
    Script { language: LANGUAGE, name, file, ..Script::default() }
}

#[test]
fn dumps_are_known_by_their_names() {
    assert!(is_dump("/tmp/.debug/jit/jit-4711.dump"));
    for other in ["/tmp/jit-.dump", "/tmp/jit-12.dumps", "/tmp/jit-1x.dump", "//anon", ""] {
        assert!(!is_dump(other), "{other}");
    }
}
