//! Programs that replace one another by `exec`, each with functions named after its color.

use std::collections::BTreeMap;
use std::fmt;

use crate::phases::{is_bare_loop, is_mark, names};
use crate::seen::{Seen, Stack};

/// Compared samples of such programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Colors {
    /// Samples with the functions of the running program, up to the innermost.
    pub(crate) right: u64,
    /// Samples of interpreters during start and shutdown.
    pub(crate) others: u64,
    /// Samples with a placeholder instead of a name or of script frames.
    pub(crate) marked: u64,
    /// Samples of an interpreter loop without script frames.
    pub(crate) bare: u64,
    /// Samples without Python.
    pub(crate) native: u64,
    /// Samples, of all kinds, whose user frames don't reach the root.
    pub(crate) cut: u64,
    /// Wrong observations, with their number and the first stack.
    pub(crate) wrong: BTreeMap<String, (u64, Stack)>,
}

impl Colors {
    /// Compares stacks by the color that belongs to the file of each interpreter.
    pub(crate) fn of(stacks: &[Stack], colors: &[(String, &str)]) -> Colors {
        let mut found = Colors::default();
        for stack in stacks {
            found.add(stack, colors);
        }
        found
    }

    /// Returns the number of all samples.
    pub(crate) fn samples(&self) -> u64 {
        self.right + self.others + self.marked + self.bare + self.native
    }

    fn add(&mut self, stack: &Stack, colors: &[(String, &str)]) {
        let names = names(stack);
        let is_of = |seen: &Seen, wanted: &str| matches!(seen, Seen::Native { file, .. } if file == wanted);
        let color = colors.iter().find(|(file, _)| stack.frames.iter().any(|seen| is_of(seen, file)));
        let colored = |name: &str| name.starts_with("inner_") || name.starts_with("outer_");
        let own = |name: &str| color.is_some_and(|(_, color)| name.ends_with(&format!("_{color}")));
        self.cut += if stack.frames.is_empty() || stack.truncated.is_none() { 0 } else { stack.count };
        if names.iter().any(|name| colored(name) && !own(name)) || color.is_none() && !names.is_empty() {
            let what = format!("{} in {}", names.join(" "), color.map_or("no interpreter", |(file, _)| file));
            self.wrong.entry(what).or_insert_with(|| (0, stack.clone())).0 += stack.count;
        } else if names.iter().any(|name| is_mark(name)) {
            self.marked += stack.count;
        } else if names.iter().any(|name| name.starts_with("inner_")) {
            self.right += stack.count;
        } else if !names.is_empty() {
            self.others += stack.count;
        } else if stack.frames.iter().any(is_bare_loop) {
            self.bare += stack.count;
        } else {
            self.native += stack.count;
        }
    }
}

impl fmt::Display for Colors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Colors { right, others, marked, bare, native, cut, wrong } = self;
        write!(
            f,
            "{right} right, {others} others, {marked} marked, {bare} bare, {native} native; {cut} of all cut"
        )?;
        for (what, (count, stack)) in wrong.iter().take(5) {
            let frames: Vec<_> = stack.frames.iter().map(Seen::to_string).collect();
            write!(f, "\n    wrong {count:>5} x {what}\n          {}", frames.join(";"))?;
        }
        Ok(())
    }
}
