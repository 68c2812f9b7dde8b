//! Compares sampled stacks with the chains of `engines.js`, in the main thread and in workers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ebpf_profiler_core::profile::{Call, Profile};

/// The chains behind `run`, each with its last functions. A stack is the root side of one.
const CHAINS: &[(&str, &[&str])] = &[
    ("matching", &["matching", "(regular expression)"]),
    ("throughApi", &["throughApi", "fromScript", "spin"]),
    ("hashing", &["hashing"]),
    ("generators", &["generators", "delegating", "inner", "spin"]),
    (
        "intoWasm",
        &["intoWasm", "descend", "descend", "descend", "descend", "descend", "descend", "spinInWasm"],
    ),
    ("throughWasm", &["throughWasm", "wasm-function[3]", "imported", "spin"]),
    ("asynchronous", &["asynchronous", "values", "spin"]),
    ("promised", &["promised", "continued", "spin"]),
];

/// Functions that are continued without their callers: what they call.
const CONTINUED: &[&[&str]] =
    &[&["asynchronous", "values", "spin"], &["values", "spin"], &["continued", "spin"]];

/// Code between functions.
const WRAPPERS: &[&str] = &["(js to wasm)", "(wasm to js)", "(wasm jump table)"];

/// Outermost functions of the main thread and of workers.
const ROOTS: [&str; 3] = ["_start", "__clone", "clone3"];

/// The samples of one run.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Samples of each chain whose last function is the innermost one.
    pub(crate) whole: BTreeMap<&'static str, u64>,
    /// Threads with samples.
    pub(crate) threads: HashMap<u32, u64>,
    wrong: HashMap<String, u64>,
}

impl Comparison {
    /// Compares the samples of a profile; `program` is the path of `engines.js`.
    pub(crate) fn on(profile: &Profile, program: &str) -> Comparison {
        let mut comparison = Comparison::default();
        for sample in profile.samples() {
            let (mut root, mut names, mut is_whole) = (String::new(), Vec::new(), true);
            for call in sample.trace().calls() {
                let Call::Function { frame, .. } = call else {
                    is_whole = false;
                    continue;
                };
                if root.is_empty() {
                    root = frame.symbols().last().map_or("?", |symbol| &*symbol.function).to_owned();
                }
                let Some(script) = frame.script() else { continue };
                let is_own = &*script.file == program || script.file.starts_with("wasm:");
                let is_code = script.name.starts_with('(') && script.file.is_empty();
                if (is_own || is_code || script.is_unnamed) && !WRAPPERS.contains(&&*script.name) {
                    names.push(script.name.to_string());
                }
            }
            if names.is_empty() {
                continue;
            }
            comparison.samples += sample.count();
            *comparison.threads.entry(sample.thread().tid).or_default() += sample.count();
            if is_whole && ROOTS.contains(&&*root) && comparison.is_known(&names, sample.count()) {
                comparison.exact += sample.count();
            } else {
                *comparison.wrong.entry(format!("{root} … {}", names.join(" "))).or_default() +=
                    sample.count();
            }
        }
        comparison
    }

    /// Returns `true` if the functions are a chain of the program, or its root side.
    fn is_known(&mut self, names: &[String], count: u64) -> bool {
        let mut rest: Vec<&str> = names.iter().map(String::as_str).collect();
        if rest.first() == Some(&"(anonymous)") {
            rest.remove(0);
        }
        if CONTINUED.iter().any(|chain| chain.starts_with(&rest)) {
            for (name, chain) in CHAINS {
                if chain.len() > 1 && chain.ends_with(&rest) {
                    *self.whole.entry(name).or_default() += count;
                }
            }
            return true;
        }
        if rest.first() != Some(&"run") {
            return false;
        }
        let Some((name, chain)) = CHAINS.iter().find(|(_, chain)| chain.starts_with(&rest[1..])) else {
            return false;
        };
        if chain.len() == rest.len() - 1 {
            *self.whole.entry(name).or_default() += count;
        }
        true
    }

    /// Returns the chains to whose ends less than 1 % of the samples lead, where each has at least
    /// 3 %: frames that are lost there leave the root side of a chain, which is exact.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let whole = |name: &str| self.whole.get(name).copied().unwrap_or(0);
        CHAINS.iter().map(|(name, _)| *name).filter(|name| whole(name) * 100 < self.samples).collect()
    }

    pub(crate) fn is_good(&self, per_mille: u64) -> bool {
        self.samples >= 200 && self.exact * 1000 >= self.samples * per_mille
    }
}

/// As people read it.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} samples exact, {:?}", self.exact, self.samples, self.whole)?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        wrong.iter().take(12).try_for_each(|(names, count)| write!(f, "\n  {count} {names}"))
    }
}
