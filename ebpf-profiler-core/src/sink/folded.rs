//! Folded text: one line per stack, the input format of FlameGraph and similar tools.
//!
//! ```text
//!   cat;main;read;entry_SYSCALL_64_[k];vfs_read_[k] 5
//!   cat;main;print;format_[i] 2
//!   node;main;[anonymous]_[j] 1
//!   sh;[truncated: stack not readable];fork 1
//!   tree;main;walk;[… 976 frames left out];walk;visit 3
//! ```
//!
//! A line is the thread's name (that of the command, unless the thread has set another), the
//! functions from root to leaf, a space and the value: the number of samples of CPU time,
//! nanoseconds of off-CPU time, in general the unit of the [kind](crate::profile::SampleKind). Of
//! several kinds the first is written. Equal stacks are one line; lines are sorted, so equal
//! profiles give equal text.
//!
//! | part | meaning |
//! | --- | --- |
//! | `_[k]` at the end | kernel code |
//! | `_[i]` | function inlined into the previous one |
//! | `_[j]` | code generated at run time |
//! | `libc.so.6+0x2e1c0` | code without a name, as virtual address in its file, for other tools to symbolize |
//! | `[truncated: reason]` after the command | the root side of the stack is missing, for this [reason](crate::trace::Stop::text) |
//! | `[… 12 frames left out]` | 12 frames are missing in the middle |
//! | `[unknown]` as first part | the thread has no name |
//! | `…` at the end of a name | the name is cut |
//! | a colon inside a name | possibly a semicolon |
//! | `�` inside a name | a control character, or one that changes the direction of writing |
//!
//! Names are cut after 1,024 characters. A line longer than 256 KiB has its names cut further, to
//! equal lengths, and so have the longest lines of a profile that would exceed 256 MiB. Counts are
//! never cut.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;

use hashbrown::HashMap;

use crate::profile::{Call, Kind, Profile, Sample};
use crate::text::{clean, clip};

/// Maximum length of a name in characters.
const MAX_NAME: usize = 1024;

/// Length below which no name is cut further, in characters.
const MIN_NAME: usize = 8;

/// Length in bytes below which no line is cut to shorten the whole.
const MIN_LINE: usize = 1 << 10;

/// Bounds of the text in bytes.
struct Bounds {
    /// Maximum length of a line.
    line: usize,
    /// Length of all lines above which the longest ones are cut.
    total: usize,
}

const BOUNDS: Bounds = Bounds { line: 256 << 10, total: 256 << 20 };

/// Writes the profile as folded text, line by line.
///
/// # Errors
///
/// Fails if `out` does.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::folded, testing};
///
/// let profile = testing::profile("cat;main;read_[k] 3\ncat;main 1");
/// let mut text = Vec::new();
/// folded::write(&profile, &mut text)?;
/// assert_eq!(String::from_utf8_lossy(&text), "cat;main 1\ncat;main;read_[k] 3\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = Lines::default();
    for sample in profile.samples_of_first_kind() {
        lines.add(&sample);
    }
    lines.write(&BOUNDS, out)
}

/// All stacks of a profile, as numbers of names.
#[derive(Default)]
struct Lines {
    names: Names,
    stacks: Vec<u32>,
    lines: Vec<Line>,
}

struct Line {
    /// The names, in `stacks`.
    names: Range<usize>,
    value: u64,
}

impl Lines {
    fn add(&mut self, sample: &Sample<'_>) {
        let start = self.stacks.len();
        let thread = &sample.thread().name;
        self.stacks.push(self.names.intern(if thread.is_empty() { "[unknown]" } else { thread }, ""));
        for call in sample.trace().calls() {
            self.stacks.push(self.names.of(&call));
        }
        self.lines.push(Line { names: start..self.stacks.len(), value: sample.value() });
    }

    fn write(mut self, bounds: &Bounds, out: &mut dyn io::Write) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.sort_unstable_by(|a, b| self.compare(a, b));
        lines.dedup_by(|next, line| {
            let is_same = self.stacks[next.names.clone()] == self.stacks[line.names.clone()];
            line.value = line.value.saturating_add(if is_same { next.value } else { 0 });
            is_same
        });
        let limit = self.line_limit(&lines, bounds);
        let mut text = String::new();
        for line in &lines {
            text.clear();
            self.format(line, limit, &mut text);
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Compares lines as their text compares.
    fn compare(&self, a: &Line, b: &Line) -> Ordering {
        let (a, b) = (&self.stacks[a.names.clone()], &self.stacks[b.names.clone()]);
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let rest = |stack: &[u32]| {
            let name = stack.get(same).map(|&number| &self.names.items[number as usize]);
            let is_last = same + 1 >= stack.len();
            name.map(|name| (name, if is_last { "" } else { ";" }))
        };
        match (rest(a), rest(b)) {
            (Some((a, a_end)), Some((b, b_end))) => a.bytes(a_end).cmp(b.bytes(b_end)),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    fn len(&self, line: &Line) -> usize {
        self.stacks[line.names.clone()]
            .iter()
            .map(|&number| self.names.items[number as usize].len() + 1)
            .sum()
    }

    /// Returns the largest power of two that keeps the whole within its maximum, if lines are cut
    /// to it.
    fn line_limit(&self, lines: &[Line], bounds: &Bounds) -> usize {
        let lens: Vec<usize> = lines.iter().map(|line| self.len(line)).collect();
        let total = |limit: usize| lens.iter().map(|&len| len.min(limit)).sum::<usize>();
        let mut limit = bounds.line;
        while limit > MIN_LINE && total(limit) > bounds.total {
            limit /= 2;
        }
        limit
    }

    fn format(&self, line: &Line, limit: usize, text: &mut String) {
        let names = &self.stacks[line.names.clone()];
        let is_cut = self.len(line) > limit;
        let most = if is_cut { (limit / names.len()).max(MIN_NAME) } else { MAX_NAME };
        for (index, &number) in names.iter().enumerate() {
            let name = &self.names.items[number as usize];
            text.push_str(if index > 0 { ";" } else { "" });
            text.push_str(&clip(&name.text, most));
            text.push_str(name.ending);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, " {}", line.value);
    }
}

/// One part of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    text: Box<str>,
    /// FlameGraph's mark for the kind of code.
    ending: &'static str,
}

impl Name {
    fn len(&self) -> usize {
        self.text.len() + self.ending.len()
    }

    fn bytes<'n>(&'n self, end: &'n str) -> impl Iterator<Item = u8> + 'n {
        self.text.bytes().chain(self.ending.bytes()).chain(end.bytes())
    }
}

/// Interned names; those of a frame are formatted once.
#[derive(Default)]
struct Names {
    items: Vec<Name>,
    numbers: HashMap<Name, u32>,
    of_functions: HashMap<(u32, usize), u32>,
}

impl Names {
    fn of(&mut self, call: &Call<'_>) -> u32 {
        let Call::Function { frame, depth } = call else { return self.intern(&format!("{call:#}"), "") };
        let key = (frame.id().0, *depth);
        if let Some(&number) = self.of_functions.get(&key) {
            return number;
        }
        let number = match call.symbol().filter(|symbol| !symbol.function.is_empty()) {
            Some(symbol) => self.intern(&symbol.function, ending(call)),
            None => self.intern(&format!("{call:#}"), ending(call)),
        };
        self.of_functions.insert(key, number);
        number
    }

    fn intern(&mut self, name: &str, ending: &'static str) -> u32 {
        let text = clean(&clip(name, MAX_NAME)).replace(';', ":").into();
        let name = Name { text, ending };
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.items.len() as u32;
        self.items.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

/// Returns the suffix that FlameGraph appends for the kind of code.
fn ending(call: &Call<'_>) -> &'static str {
    match call.kind() {
        Kind::Kernel => "_[k]",
        _ if call.is_inlined() => "_[i]",
        Kind::RunTime => "_[j]",
        _ => "",
    }
}

/// Returns the lines of a profile in alphabetical order.
#[cfg(test)]
pub(crate) fn sorted_lines(profile: &Profile) -> Vec<String> {
    let mut bytes = Vec::new();
    write(profile, &mut bytes).unwrap();
    let mut lines: Vec<String> = String::from_utf8(bytes).unwrap().lines().map(Into::into).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[(&[&str], u64)], bounds: &Bounds) -> String {
        let mut all = Lines::default();
        for (names, count) in lines {
            let start = all.stacks.len();
            let names: Vec<u32> = names.iter().map(|name| all.names.intern(name, "")).collect();
            all.stacks.extend(names);
            all.lines.push(Line { names: start..all.stacks.len(), value: *count });
        }
        let mut out = Vec::new();
        all.write(bounds, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_sorted_as_text() {
        let lines: [&[&str]; 6] =
            [&["a", "b!"], &["a"], &["a", "b", "c"], &["a!"], &["a", "b"], &["a;", "b"]];
        let sorted = text(&lines.map(|line| (line, 1)), &BOUNDS);
        let mut expected: Vec<&str> = sorted.lines().map(|line| line.strip_suffix(" 1").unwrap()).collect();
        expected.sort_unstable();
        assert!(sorted.lines().map(|line| line.strip_suffix(" 1").unwrap()).eq(expected));
        assert_eq!(sorted.lines().count(), 6);
    }

    #[test]
    fn names_are_cut_and_counts_are_not() {
        let long = "n".repeat(60_000);
        assert_eq!(text(&[(&[&long], 7)], &BOUNDS), format!("{}… 7\n", "n".repeat(MAX_NAME - 1)));
        let deep: Vec<&str> = vec![&long; 1_900];
        let line = text(&[(&deep, 7), (&["short", "names"], 3)], &BOUNDS);
        assert!(line.ends_with("… 7\nshort;names 3\n"));
        assert_eq!(line.split(';').count(), 1_901);
        assert!((BOUNDS.line - 4_000..BOUNDS.line + 4_000).contains(&line.len()), "{}", line.len());
    }

    #[test]
    fn only_the_longest_lines_are_cut_to_bound_the_whole() {
        let long = "n".repeat(100);
        let deep = [&*long; 250];
        let numbers: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let stacks: Vec<Vec<&str>> =
            numbers.iter().map(|number| [&[&**number][..], &deep].concat()).collect();
        let short: [&str; 2] = ["short", &long];
        let lines: Vec<(&[&str], u64)> = stacks.iter().map(|s| (&**s, 1)).chain([(&short[..], 5)]).collect();
        let bounds = Bounds { line: 100_000, total: 200_000 };
        let whole = text(&lines, &bounds);
        assert!((100_000..=200_000).contains(&whole.len()), "{}", whole.len());
        assert!(whole.ends_with(&format!("short;{long} 5\n")));
        assert_eq!(whole.lines().count(), 13);
    }
}
