//! LuaJIT 2.0, whose objects have another layout: its code stays native.

use std::path::Path;
use std::process::Command;

use crate::chain::Running;
use crate::fixtures::fixtures;
use crate::profile::profile;
use crate::seen::{Seen, stacks};
use crate::{DURATION, PER_MILLE};

/// Runs a script in Python: the folder of the extension, and the script with its arguments.
const HOST: &str = "
import sys
sys.path.insert(0, sys.argv[1])
import lupa.luajit20
lua = lupa.luajit20.LuaRuntime()
lua.globals().arg = lua.table_from(dict(enumerate(sys.argv[2:])))
lua.globals().dofile(sys.argv[2])
";

/// Fails unless the stacks are whole and have no frame of a script beyond those of Python.
pub(crate) fn check() {
    let Ok(folder) = fixtures().join("luajit/lupa-2.8").canonicalize() else {
        return test_needs::skip("no LuaJIT 2.0: cargo xtask fixtures luajit");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/luajit/programs/chains.lua");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", HOST]).arg(folder).arg(script).args(["recursion", "20"]);
    let running = Running::start(command);
    let stacks = stacks(&profile([running.pid()], DURATION));
    let (mut samples, mut native) = (0, 0);
    for stack in stacks.iter().filter(|stack| stack.is_of(running.pid(), None)) {
        samples += stack.count;
        let is_of_python =
            |seen: &Seen| matches!(seen, Seen::Script { file, is_unnamed: false, .. } if file == "<string>");
        let is_right = |seen: &Seen| matches!(seen, Seen::Native(_)) || is_of_python(seen);
        if stack.cut.is_none() && stack.frames.iter().all(is_right) && stack.frames.iter().any(is_of_python) {
            native += stack.count;
        } else if samples - native < 5 {
            println!("{stack:?}");
        }
    }
    println!("share\tluajit\t2.0, native\trecursion\t{native}\t{samples}");
    assert!(samples > 0 && native * 1000 >= samples * PER_MILLE, "{native} of {samples}");
}
