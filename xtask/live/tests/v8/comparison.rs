//! Compares sampled stacks with the chains of `chains.js`.

use std::collections::HashMap;
use std::fmt;

use ebpf_profiler_core::profile::{Call, Profile};
use ebpf_profiler_core::trace::Frame;

/// The chains: a function that `main` calls, and what follows behind it. Each stack is the root
/// side of one.
const CHAINS: &[(&str, &[&str])] = &[
    ("classes", &["Square", "Shape"]),
    ("classes", &["area", "area", "scaled"]),
    ("classes", &["get weight", "scaled"]),
    // Before 16 getters have no prefix.
    ("classes", &["weight", "scaled"]),
    ("sorting", &["comparison"]),
    ("mapping", &["mapped"]),
    ("json", &["revive"]),
    ("regexp", &["(regular expression)"]),
    ("regexp", &["replacement"]),
    ("generators", &["generate"]),
    ("exceptions", &["throwing"]),
    ("closures", &["arrow", "inner"]),
    ("asynchronous", &["awaited"]),
];

/// Number of calls of `recurse` before `spinRecursion`.
const DEPTH: usize = 9;

/// The samples of one run.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Samples with a function of the program, or an unnamed one.
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Stacks that aren't exact, with the number of their samples.
    wrong: HashMap<String, u64>,
    /// Samples of frames with lines, and all frames of the program.
    pub(crate) lines: (u64, u64),
    /// Samples of callers on the line of their call, and all callers.
    pub(crate) calls: (u64, u64),
    /// The others, with the number of their samples.
    misplaced: HashMap<String, u64>,
}

impl Comparison {
    /// Compares the samples of a profile; `program` is the path of `chains.js`.
    pub(crate) fn on(profile: &Profile, program: &str) -> Comparison {
        let source = std::fs::read_to_string(program).unwrap();
        let texts = texts(&source);
        let source: Vec<&str> = source.lines().collect();
        let mut comparison = Comparison::default();
        for sample in profile.samples() {
            let (mut root, mut names, mut is_whole, mut are_lines_right) =
                (String::new(), Vec::new(), true, true);
            let mut caller = 0;
            for call in sample.trace().calls() {
                let Call::Function { frame, .. } = call else {
                    is_whole = false;
                    continue;
                };
                if matches!(frame.frame(), Frame::Kernel { .. }) {
                    continue;
                }
                let symbol = frame.symbols().last();
                let line = symbol.map_or(0, |symbol| symbol.line);
                if root.is_empty() {
                    root = symbol.map_or_else(|| "?".to_owned(), |symbol| symbol.function.to_string());
                }
                let Some(script) = frame.script() else { continue };
                if script.is_unnamed
                    || &*script.file == program
                    || script.name.starts_with('(') && script.file.is_empty()
                {
                    names.push(script.name.to_string());
                }
                if &*script.file == program {
                    if let Some(text) = source.get((caller as usize).wrapping_sub(1))
                        && let Some(call) = call_of(&script.name)
                    {
                        comparison.calls.1 += sample.count();
                        if text.contains(call) {
                            comparison.calls.0 += sample.count();
                        } else {
                            let place = format!("call of {} in line {caller}: {}", script.name, text.trim());
                            *comparison.misplaced.entry(place).or_default() += sample.count();
                        }
                    }
                    caller = line;
                }
                if let Some(range) = texts.get(&*script.name).filter(|_| &*script.file == program) {
                    comparison.lines.1 += sample.count();
                    comparison.lines.0 += if line == 0 { 0 } else { sample.count() };
                    let start = symbol.map_or(0, |symbol| symbol.start_line);
                    are_lines_right &= range.iter().any(|&(first, last)| {
                        start == first && (line == 0 || (first..=last).contains(&line))
                    });
                }
            }
            if names.is_empty() {
                continue;
            }
            comparison.samples += sample.count();
            if is_whole && are_lines_right && root == "_start" && is_known(&names) {
                comparison.exact += sample.count();
            } else {
                let names = format!(
                    "{root} … {}{}",
                    names.join(" "),
                    if are_lines_right { "" } else { ", wrong line" }
                );
                *comparison.wrong.entry(names).or_default() += sample.count();
            }
        }
        comparison
    }

    pub(crate) fn is_good(&self, per_mille: u64) -> bool {
        self.samples >= 200 && self.exact * 1000 >= self.samples * per_mille
    }
}

/// Returns the text of a call of a function; `None` for one that has no line of its own or is
/// called otherwise.
fn call_of(name: &str) -> Option<&str> {
    match name {
        "main" | "awaited" | "asynchronous" | "Shape" | "Square" => None,
        "revive" => Some("JSON.parse"),
        "get weight" => Some("weight"),
        _ if DIRECT.contains(&name) => Some("part()"),
        other => Some(other),
    }
}

/// The functions that `main` calls.
const DIRECT: &[&str] = &[
    "recursion",
    "calls",
    "classes",
    "sorting",
    "mapping",
    "json",
    "regexp",
    "generators",
    "exceptions",
    "closures",
];

/// Returns `true` if the functions are a chain of the program, or its root side.
fn is_known(names: &[String]) -> bool {
    let mut rest: Vec<&str> = names.iter().map(String::as_str).collect();
    // An async function is continued without its caller.
    if matches!(rest[..], ["main" | "asynchronous" | "awaited"]) {
        return true;
    }
    if rest.first() == Some(&"main") {
        rest.remove(0);
    }
    let Some((first, behind)) = rest.split_first() else { return false };
    match *first {
        "awaited" => behind.is_empty(),
        "recursion" => {
            let count = behind.iter().take_while(|name| **name == "recurse").count();
            count <= DEPTH
                && (behind.len() == count || behind[count..] == ["spinRecursion"] && count == DEPTH)
        }
        "calls" => behind.iter().zip(["even", "odd"].iter().cycle()).all(|(name, expected)| name == expected),
        _ => CHAINS.iter().any(|(part, chain)| part == first && chain.starts_with(behind)),
    }
}

/// Returns the first and last line of each function, by its name: methods and functions whose last
/// line is a brace on the level of the first.
fn texts(source: &str) -> HashMap<String, Vec<(u32, u32)>> {
    let lines: Vec<&str> = source.lines().collect();
    let mut texts: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        let level = line.len() - line.trim_start().len();
        let Some(name) = declared(line.trim_start()) else { continue };
        let is_end =
            |line: &&str| line.trim_start().starts_with('}') && line.len() - line.trim_start().len() == level;
        let last = match line.ends_with('{') {
            true => index + 1 + lines[index + 1..].iter().position(is_end).unwrap_or(0),
            false => index,
        };
        texts.entry(name).or_default().push((index as u32 + 1, last as u32 + 1));
    }
    texts
}

/// Returns the name of the function that a line declares.
fn declared(line: &str) -> Option<String> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    if let Some(rest) = line.strip_prefix("function* ").or_else(|| line.strip_prefix("function ")) {
        return Some(rest.split('(').next()?.to_owned());
    }
    if let Some((name, _)) = line.strip_prefix("const ").and_then(|rest| rest.split_once(" = ")) {
        return (line.contains("function") || line.contains("=>")).then(|| name.to_owned());
    }
    let (name, _) = line.split_once('(')?;
    let is_method = line.ends_with('{') || line.ends_with('}');
    let is_name = name.chars().all(|it| it.is_alphanumeric() || it == ' ');
    (is_method && is_name && !["if ", "for ", "while ", "constructor"].contains(&name))
        .then(|| name.to_owned())
}

/// As people read it.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (with_line, all) = self.lines;
        write!(
            f,
            "{} of {} samples exact, {with_line} of {all} frames with a line, {} of {} callers on that of the call",
            self.exact, self.samples, self.calls.0, self.calls.1
        )?;
        let mut wrong: Vec<_> = self.wrong.iter().chain(&self.misplaced).collect();
        wrong.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        wrong.iter().take(12).try_for_each(|(names, count)| write!(f, "\n  {count} {names}"))
    }
}
