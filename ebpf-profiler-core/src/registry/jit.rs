//! Names of JIT-compiled code, from the files that runtimes write.

use std::sync::Arc;

use super::Registry;
use crate::jit::{JitFiles, JitFunction};
use crate::language::{Function, Lines, NamedCall, Script, ScriptCall};
use crate::process::{Region, Regions};
use crate::trace::{Found, Frame};

/// The language of functions named by a perf map or a jitdump file, which say nothing of it.
const LANGUAGE: &str = "jit";

/// The number that stands for no interpreter in the calls of a journal.
const NO_INTERPRETER: u32 = u32::MAX;

/// Beginning of the names of CPython's trampolines (`-X perf`), which call the function that has a
/// frame already.
const TRAMPOLINE: &str = "py::";

impl Registry {
    /// Returns the frame of an address that lies in no ELF file.
    pub(super) fn jit_frame(
        &mut self,
        pid: u32,
        regions: &Regions,
        address: u64,
        found: Found,
        now: u64,
    ) -> Frame {
        let Registry { processes, system, journal, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return Frame::Anonymous { address, found } };
        let is_dump = |region: &&Region| is_dump(&region.name.path);
        let open = || JitFiles {
            perf_map: system.perf_map(pid).ok(),
            dump: regions
                .iter()
                .find(is_dump)
                .and_then(|region| system.opener(pid, &region.map()).open().ok()),
        };
        entry.jit.refresh(now, open, &mut stats.jit);
        let hides_trampolines = !entry.interpreters.are_none();
        let named = entry.jit.cached(address, |names| {
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
