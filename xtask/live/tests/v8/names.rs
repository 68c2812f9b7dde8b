//! Stacks of `names.js` compared with those that `node --cpu-prof` takes of the same run: names as
//! DevTools shows them, and the lines where functions begin.
//!
//! `--cpu-prof` gives many samples of functions that loop to their callers, mostly in interpreted
//! programs. So its own shares are not compared, but each function that calls no others and in
//! which it often is must be in the profile.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use ebpf_profiler_core::profile::{Call, Profile};

use crate::Node;
use crate::recorded::{Recorded, SEPARATE};

/// Program, and what prints the stacks in a file of `--cpu-prof`.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/names.js");
const PATHS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/paths.js");

/// Ends of the names of the program's scripts.
const SCRIPTS: [&str; 6] = ["names.js", "long.js", "first.js", "second.js", "evaluated.js", "crowds.js"];

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Fails unless nearly all stacks are such as Node.js has, and each function in which Node.js is
/// often is in them.
pub(crate) fn check(node: &Node, mode: &str, flags: &[&str], duration: Duration) {
    let version: u32 = node.name.parse().unwrap();
    let separate = if version < 25 { SEPARATE } else { &[] };
    let program = Recorded::start(node, &[separate, flags].concat(), PROGRAM);
    let profile = program.profile(duration);
    let output = program.read(PATHS, &SCRIPTS);
    let paths: Vec<(u64, &str)> = output.lines().filter_map(parse).collect();
    let known: HashSet<&str> = paths.iter().map(|(_, path)| *path).collect();
    let mut comparison = Comparison::default();
    comparison.add(&profile, &known);
    let name = format!("Node.js {} {mode}", node.name);
    println!("share\tv8\t{}\tnames, {mode}\t{}\t{}", node.name, comparison.exact, comparison.samples);
    let missing = comparison.missing(&paths);
    println!("{name}: {} of {} exact, {missing:?} missing", comparison.exact, comparison.samples);
    let mut wrong: Vec<_> = comparison.wrong.iter().collect();
    wrong.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    wrong.iter().take(10).for_each(|(path, count)| println!("  {count:5} {path}"));
    assert!(comparison.samples >= 200 && paths.len() > 40, "{name}: {} samples", comparison.samples);
    assert!(comparison.exact * 1000 >= comparison.samples * PER_MILLE, "{name}: {wrong:?}");
    assert_eq!(missing, Vec::<&str>::new(), "{name}");
}

/// Parses samples and functions of a stack.
fn parse(line: &str) -> Option<(u64, &str)> {
    let (count, path) = line.split_once('\t')?;
    Some((count.parse().ok()?, path))
}

/// Judged samples.
#[derive(Default)]
struct Comparison {
    samples: u64,
    exact: u64,
    /// Samples by their innermost function.
    leaves: HashMap<String, u64>,
    wrong: BTreeMap<String, u64>,
}

impl Comparison {
    /// Compares samples with functions of the program; `known` has its stacks.
    fn add(&mut self, profile: &Profile, known: &HashSet<&str>) {
        for sample in profile.samples() {
            let (mut path, mut is_whole) = (Vec::new(), true);
            for call in sample.trace().calls() {
                match &call {
                    Call::Function { frame, .. } => {
                        let Some(script) = frame.script() else { continue };
                        let line = call.symbol().map_or(0, |symbol| symbol.start_line);
                        if SCRIPTS.iter().any(|name| script.file.ends_with(name)) || script.is_unnamed {
                            path.push(format!("{}:{line}", script.name));
                        }
                    }
                    _ => is_whole = false,
                }
            }
            let Some(leaf) = path.last() else { continue };
            *self.leaves.entry(leaf.clone()).or_default() += sample.count();
            let path = path.join("\t");
            self.samples += sample.count();
            if is_whole && known.contains(&*path) {
                self.exact += sample.count();
            } else {
                *self.wrong.entry(path).or_default() += sample.count();
            }
        }
    }

    /// Returns the functions that call no others and have 1 % of the samples of Node.js, but few of
    /// these.
    fn missing<'p>(&self, paths: &[(u64, &'p str)]) -> Vec<&'p str> {
        let mut leaves = BTreeMap::<&str, u64>::new();
        let mut callers = HashSet::new();
        for (count, path) in paths {
            let mut functions = path.rsplit('\t');
            *leaves.entry(functions.next().unwrap_or(path)).or_default() += count;
            callers.extend(functions);
        }
        leaves.retain(|leaf, _| !callers.contains(leaf));
        let all: u64 = leaves.values().sum();
        let sampled = |leaf: &str| self.leaves.get(leaf).copied().unwrap_or(0);
        let is_missing = |leaf: &str, count: u64| count * 100 > all && sampled(leaf) * 400 < self.samples;
        leaves.into_iter().filter(|(leaf, count)| is_missing(leaf, *count)).map(|(leaf, _)| leaf).collect()
    }
}
