//! Compares sampled stacks with the chains of `builtins.js`: the function that uses builtins must
//! be there, below any of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ebpf_profiler_core::profile::{Call, Profile};
use ebpf_profiler_core::trace::Frame;

/// Functions that call others, and these. Names differ between versions: accessors have a prefix
/// from 16 on.
const CALLERS: &[(&str, &[&str])] = &[
    ("loads", &["Point"]),
    ("stores", &["Point"]),
    ("polymorphic", &["Point", "Point3"]),
    ("missing", &["Point"]),
    ("accessors", &["Point", "get size", "set size", "size"]),
    ("proxies", &["trap"]),
    ("direct", &["callee"]),
    ("few", &["optional"]),
    ("many", &["callee"]),
    ("defaults", &["defaulted"]),
    ("applied", &["callee"]),
    ("bound", &["callee"]),
    ("methods", &["sum", "Point", "Point3"]),
    ("spread", &["callee"]),
    ("rest", &["collected"]),
    ("constructors", &["Point", "Point3", "of"]),
    ("fields", &["Fields", "hidden", "<instance_members_initializer>"]),
    ("closures", &["f"]),
    ("contexts", &["(anonymous)"]),
    ("entries", &["(anonymous)"]),
    ("generators", &["generate"]),
    ("delegating", &["delegate", "generate"]),
    ("callbacks", &["mapped", "callee", "(anonymous)"]),
    ("sorting", &["(anonymous)"]),
    ("exceptions", &["thrower", "Point"]),
    ("promises", &["waiting"]),
    ("recursion", &["fibonacci"]),
];

/// Maximum number of calls below a function, of which `recursion` has the most.
const MAX_DEPTH: usize = 13;

/// The samples of one run.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Samples of the main thread without a function of the program, as between its rounds.
    pub(crate) without: u64,
    /// Exact samples of each function.
    pub(crate) whole: BTreeMap<String, u64>,
    wrong: HashMap<String, u64>,
}

impl Comparison {
    /// Compares the samples of the thread `main` in a profile; `program` is the path of
    /// `builtins.js`.
    pub(crate) fn on(profile: &Profile, program: &str, main: u32) -> Comparison {
        let source = std::fs::read_to_string(program).unwrap();
        let mut comparison = Comparison::default();
        for sample in profile.samples().filter(|sample| sample.thread().tid == main) {
            let (mut root, mut names, mut leaf) = (String::new(), Vec::new(), String::new());
            let (mut is_whole, mut reads_clock, mut compiles) = (true, false, false);
            for call in sample.trace().calls() {
                let Call::Function { frame, .. } = call else {
                    is_whole = false;
                    continue;
                };
                if matches!(frame.frame(), Frame::Kernel { .. }) {
                    continue;
                }
                leaf = frame.symbols().last().map_or("?", |symbol| &*symbol.function).to_owned();
                if root.is_empty() {
                    root.clone_from(&leaf);
                }
                reads_clock |= leaf.contains("DateNow") || leaf.contains("CurrentTime");
                compiles |= leaf.contains("::Compiler::") || leaf.contains("CompilationJob");
                if let Some(script) = frame.script()
                    && (&*script.file == program || script.is_unnamed)
                {
                    names.push(script.name.to_string());
                }
            }
            let is_in_call = names.last().is_some_and(|name| name == "call");
            if reads_clock {
                names.push("now".to_owned());
            } else if compiles && is_in_call {
                // Its own loop is compiled.
                names.push("compile".to_owned());
            }
            comparison.compare(&names, is_whole && root == "_start", (&root, &leaf), &source, sample.count());
        }
        comparison
    }

    fn compare(&mut self, names: &[String], is_whole: bool, ends: (&str, &str), source: &str, count: u64) {
        let mut rest: Vec<&str> = names.iter().map(String::as_str).collect();
        match rest[..] {
            [] => {
                self.without += count;
                return;
            }
            // A microtask, and the first round.
            ["mapped"] if is_whole => return,
            ["(anonymous)", "main", ..] => _ = rest.drain(..2),
            ["main", ..] => _ = rest.drain(..1),
            _ => {}
        }
        self.samples += count;
        let kind = match rest[..] {
            ["round", "call", own @ ("now" | "compile")] if is_whole => Some(own),
            ["round", "call", kind, ref callees @ ..] if is_whole && are_of(kind, callees, source) => {
                Some(kind)
            }
            _ => None,
        };
        if let Some(kind) = kind {
            self.exact += count;
            *self.whole.entry(kind.to_owned()).or_default() += count;
        } else {
            let stack = format!("{} … {} … {}", ends.0, names.join(" "), ends.1);
            *self.wrong.entry(stack).or_default() += count;
        }
    }

    pub(crate) fn is_good(&self, per_mille: u64) -> bool {
        self.samples >= 500
            && self.exact * 1000 >= self.samples * per_mille
            && self.without * 50 <= self.samples
            && self.whole.len() >= 50
    }
}

/// Returns `true` if a function of the program calls these.
fn are_of(kind: &str, callees: &[&str], source: &str) -> bool {
    let known = CALLERS.iter().find(|(caller, _)| *caller == kind).map_or(&[][..], |(_, callees)| callees);
    callees.len() <= MAX_DEPTH
        && callees.iter().all(|callee| known.contains(callee))
        && source.contains(&format!("\nfunction {kind}()"))
}

/// As people read it.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} samples exact, {} without functions", self.exact, self.samples, self.without)?;
        write!(f, ", {} kinds", self.whole.len())?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        wrong.iter().take(30).try_for_each(|(names, count)| write!(f, "\n  {count} {names}"))
    }
}
