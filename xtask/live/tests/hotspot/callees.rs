//! The calls that class files hold: the truth for stacks of programs that don't print them.
//!
//! `programs/Callees.java` reads the classes of a program under the same virtual machine. Of two
//! methods that are neighbors in a stack, the outer one's code has to call a method of the inner
//! one's name, in the line that was sampled.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::comparison::{CALL_STUB, Seen};

/// Names of the outermost functions of threads.
const ROOTS: [&str; 3] = ["_start", "clone3", "__clone3"];

/// A callee of which the class file has no name: that of a method handle or a lambda's class.
const ANY: &str = "*";

/// The callees of methods, by the text of the method, a colon and a line; line 0 is for the whole
/// method.
#[derive(Debug, Default)]
pub(crate) struct Callees(HashMap<String, HashSet<String>>);

impl Callees {
    /// Reads the classes of all methods in `stacks`.
    pub(crate) fn read<'a>(
        java: &Path,
        class_path: &str,
        stacks: impl Iterator<Item = &'a Vec<Seen>>,
    ) -> Callees {
        let classes: BTreeSet<&str> = stacks
            .flatten()
            .filter_map(|seen| match seen {
                Seen::Method(name, _) => Some(class_and_method(name).0),
                _ => None,
            })
            .collect();
        let mut command = Command::new(java);
        command.args(["-cp", class_path, "Callees"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let names: String = classes.iter().map(|class| format!("{class}\n")).collect();
        child.stdin.take().unwrap().write_all(names.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "Callees");
        let mut callees = HashMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let mut words = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
            callees.insert(words.next().unwrap(), words.collect());
        }
        Callees(callees)
    }

    /// Returns what is wrong with a whole stack, root first.
    pub(crate) fn wrong(&self, stack: &[Seen]) -> Option<String> {
        match stack.first() {
            Some(Seen::Native(name)) if ROOTS.contains(&name.as_str()) => {}
            first => return Some(format!("{first:?} is the root")),
        }
        stack.windows(2).find_map(|pair| {
            let is_wrong = match (&pair[0], &pair[1]) {
                (Seen::Native(_), Seen::Method(..)) => true,
                (Seen::Stub(name), Seen::Method(..)) => name != CALL_STUB,
                (Seen::Method(caller, line), Seen::Method(callee, _)) => !self.has(caller, *line, callee),
                _ => false,
            };
            is_wrong.then(|| format!("{:?} calls {:?}", pair[0], pair[1]))
        })
    }

    /// Returns `true` if a method calls another in a line, or if its class is in no file.
    fn has(&self, caller: &str, line: i32, callee: &str) -> bool {
        let of = |line: i32| self.0.get(&format!("{caller}:{line}"));
        let (_, name) = class_and_method(callee);
        let calls = if line == 0 { of(0) } else { of(line).or_else(|| of(0).map(|_| &*NONE)) };
        calls.is_none_or(|calls| calls.contains(name) || calls.contains(ANY))
    }
}

/// The callees of a line without calls.
static NONE: std::sync::LazyLock<HashSet<String>> = std::sync::LazyLock::new(HashSet::new);

fn class_and_method(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

#[test]
fn finds_calls_that_code_does_not_make() {
    let callees = |text: &str| text.split(' ').map(str::to_owned).collect();
    let known = HashMap::from([
        ("a.B.run:0".to_owned(), callees("first second *")),
        ("a.B.run:7".to_owned(), callees("first")),
        ("a.B.run:8".to_owned(), callees("*")),
    ]);
    let callees = Callees(known);
    let method = |name: &str, line| Seen::Method(name.to_owned(), line);
    let (start, stub) = (Seen::Native("_start".to_owned()), Seen::Stub(CALL_STUB.to_owned()));
    let wrong = |stack: &[Seen]| callees.wrong(stack).is_some();
    let run = |line| [start.clone(), stub.clone(), method("a.B.run", line)];
    assert!(!wrong(&[&run(7)[..], &[method("c.D.first", 1)]].concat()));
    assert!(wrong(&[&run(7)[..], &[method("c.D.second", 1)]].concat()));
    assert!(!wrong(&[&run(8)[..], &[method("c.D.third", 1)]].concat()));
    assert!(wrong(&[&run(9)[..], &[method("c.D.first", 1)]].concat()));
    assert!(!wrong(&[&run(8)[..], &[method("c.Lambda.get", 0), method("e.F.any", 0)]].concat()));
    assert!(wrong(&run(7)[1..]), "no root");
    assert!(wrong(&[start, method("a.B.run", 7)]), "no call stub");
}
