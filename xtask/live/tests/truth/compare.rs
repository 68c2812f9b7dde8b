//! A profile against what gdb saw.
//!
//! A sample is exact if its user frames are, from the root to the leaf, one of the expected stacks.
//! It is whole if its first user frame is the first frame of one. Frames of the kernel on top of it
//! don't count. A program that starts is on its way to the expected stacks: its samples have the start
//! of one through `main`, and then only functions that are in none, such as the loader's.

use std::fmt;

use crate::folded::{Frame, Stack};
use live_suite::comparison::name::{SIGNAL, Unnamed, plain, same, unnamed};

/// A frame that an independent unwinder found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The plain name; `None` without a symbol.
    pub(crate) name: Option<String>,
    /// The file's name without its directory; empty where there is none.
    pub(crate) file: String,
    /// The virtual address in the file; `None` if only the name is known.
    pub(crate) address: Option<u64>,
    /// `true` if it was inlined into the frame before it, by debug data.
    pub(crate) inlined: bool,
}

/// Allowed deviations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Whole stacks, root first.
    pub(crate) stacks: Vec<Vec<Expected>>,
    /// Ways to the clock and back: each part of at least so many frames from the root will do.
    pub(crate) clocks: Vec<(usize, Vec<Expected>)>,
    /// The root side of an expected stack is fine too: the program calls and returns all the time.
    pub(crate) prefixes: bool,
    /// These functions, those without a name in these files, and what is above them are not
    /// compared: run-time libraries at work.
    pub(crate) beyond: Vec<String>,
    /// The program starts, or loads, while it is profiled: stacks on its way are counted apart.
    pub(crate) has_way: bool,
    /// Stacks without user frames are fine if one of these kernel functions is in them.
    pub(crate) kernel_alone: Vec<String>,
}

/// Results of the samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) whole: u64,
    pub(crate) exact: u64,
    /// Samples on the way to an expected stack.
    pub(crate) on_the_way: u64,
    /// Those that are not exact, most frequent first.
    pub(crate) unequal: Vec<Stack>,
}

impl Rules {
    /// Compares every stack.
    pub(crate) fn compare(&self, stacks: &[Stack]) -> Comparison {
        let mut comparison = Comparison::default();
        for stack in stacks {
            comparison.samples += stack.count;
            if self.is_exact(stack) {
                comparison.exact += stack.count;
                comparison.whole += stack.count;
            } else {
                comparison.whole += if self.is_whole(stack) { stack.count } else { 0 };
                comparison.on_the_way += if self.is_on_the_way(stack) { stack.count } else { 0 };
                comparison.unequal.push(stack.clone());
            }
        }
        comparison.unequal.sort_by_key(|stack| std::cmp::Reverse(stack.count));
        comparison
    }

    /// Takes out the inlined functions: without debug data nobody knows of them.
    pub(crate) fn forget_inlined(&mut self) {
        for (least, clock) in &mut self.clocks {
            *least -= clock.iter().take(*least).filter(|frame| frame.inlined).count();
            clock.retain(|frame| !frame.inlined);
        }
        for stack in &mut self.stacks {
            stack.retain(|frame| !frame.inlined);
        }
    }

    /// Takes out a frame without a name between `main` and what calls it.
    pub(crate) fn forget_guess_below_main(&mut self) {
        let forget = |stack: &mut Vec<Expected>| {
            let main = stack.iter().position(|frame| frame.name.as_deref() == Some("main"));
            let guess = main.filter(|&main| main > 0 && stack[main - 1].name.is_none());
            guess.is_some_and(|main| stack.remove(main - 1).name.is_none())
        };
        for stack in &mut self.stacks {
            forget(stack);
        }
        for (least, clock) in &mut self.clocks {
            *least -= usize::from(forget(clock));
        }
    }

    fn is_exact(&self, stack: &Stack) -> bool {
        let user = stack.user();
        if user.is_empty() {
            return stack.frames.iter().any(|frame| self.kernel_alone.contains(&frame.name));
        }
        self.stacks.iter().any(|expected| self.same(&user, expected))
            || self.clocks.iter().any(|(least, clock)| user.len() >= *least && is_start_of(&user, clock))
    }

    fn is_whole(&self, stack: &Stack) -> bool {
        let user = stack.user();
        let Some(root) = user.first() else { return false };
        self.stacks.iter().filter_map(|expected| expected.first()).any(|first| same_frame(root, first, false))
    }

    fn is_on_the_way(&self, stack: &Stack) -> bool {
        let user = stack.user();
        let way = |expected: &Vec<Expected>| {
            let frames = user.iter().zip(&expected[..expected.len().saturating_sub(1)]);
            frames.take_while(|(one, other)| same_frame(one, other, false)).count()
        };
        let (way, rest) = user.split_at(self.stacks.iter().map(way).max().unwrap_or(0));
        let is_foreign = |frame: &&Frame| {
            let mut expected = self.stacks.iter().flatten();
            match unnamed(&frame.name) {
                Some(Unnamed::At(file, _)) => expected.all(|expected| file != expected.file),
                Some(Unnamed::Nowhere) => false,
                None => {
                    expected.filter_map(|it| it.name.as_deref()).all(|name| !same_name(&frame.name, name))
                }
            }
        };
        self.has_way
            && way.iter().any(|frame| frame.name == "main")
            && !rest.is_empty()
            && rest.iter().all(is_foreign)
    }

    fn same(&self, user: &[&Frame], expected: &[Expected]) -> bool {
        let user_ends = user.iter().position(|frame| self.is_beyond(&frame.name));
        let expected_ends =
            expected.iter().position(|frame| frame.name.as_deref().is_some_and(|name| self.is_beyond(name)));
        match (user_ends, expected_ends) {
            (Some(one), Some(other)) => one == other && is_start_of(&user[..one], &expected[..other]),
            _ => (self.prefixes || user.len() == expected.len()) && is_start_of(user, expected),
        }
    }

    /// Returns `true` if a frame and all above it are not compared.
    fn is_beyond(&self, name: &str) -> bool {
        let named = |beyond: &String| match unnamed(name) {
            Some(Unnamed::At(file, _)) => file.starts_with(beyond.as_str()),
            Some(Unnamed::Nowhere) => false,
            None => plain(beyond) == plain(name.trim_end_matches("@plt")),
        };
        self.beyond.iter().any(named)
    }
}

fn is_start_of(user: &[&Frame], expected: &[Expected]) -> bool {
    let is_leaf = |at: usize| at + 1 == user.len();
    user.len() <= expected.len()
        && user.iter().zip(expected).enumerate().all(|(at, (one, other))| same_frame(one, other, is_leaf(at)))
}

/// Returns `true` if a frame of the profile is the expected one.
///
/// A frame without a name is known by its address, which is only certain for callers: the leaf
/// moves.
fn same_frame(seen: &Frame, expected: &Expected, is_leaf: bool) -> bool {
    match unnamed(&seen.name) {
        Some(Unnamed::At(file, address)) => {
            file == expected.file && (is_leaf || expected.address.is_none_or(|expected| expected == address))
        }
        Some(Unnamed::Nowhere) => expected.file.is_empty() || seen.name == UNKNOWN,
        None => expected.name.as_deref().is_some_and(|name| {
            // A tick may hit the linkage table on the way to what is called.
            let entry = seen.name.strip_suffix("@plt").filter(|_| is_leaf);
            same_name(&seen.name, name) || entry.is_some_and(|called| same_name(called, name))
        }),
    }
}

fn same_name(seen: &str, expected: &str) -> bool {
    let (seen, expected) = (plain(seen), plain(expected));
    let aliases: &[&str] = match expected.as_str() {
        SIGNAL => &["restore_rt"],
        "clone3" | "clone" => &["clone", "clone3"],
        _ => &[],
    };
    same(&seen, &expected) || aliases.contains(&seen.as_str()) || expected.strip_suffix("@plt") == Some(&seen)
}

/// Text of tools that keep neither name nor address of a frame.
const UNKNOWN: &str = "[unknown]";

impl Comparison {
    /// Takes in the samples of another run.
    pub(crate) fn add(&mut self, other: Comparison) {
        self.samples += other.samples;
        self.whole += other.whole;
        self.exact += other.exact;
        self.on_the_way += other.on_the_way;
        self.unequal.extend(other.unequal);
        self.unequal.sort_by_key(|stack| std::cmp::Reverse(stack.count));
    }

    /// Returns `true` if at least 999 of 1,000 samples behind the start of the program are exact, and there are some.
    pub(crate) fn is_good(&self) -> bool {
        let behind = self.samples - self.on_the_way;
        behind > 0 && self.exact * 1000 >= behind * 999 && self.on_the_way * 200 <= self.samples
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: u64| part as f64 * 100.0 / self.samples.max(1) as f64;
        write!(
            f,
            "{:>6} samples  whole {:>6.2} %  exact {:>6.2} %  on the way {:>6.2} %",
            self.samples,
            percent(self.whole),
            percent(self.exact),
            percent(self.on_the_way)
        )?;
        for stack in self.unequal.iter().take(4) {
            let names: Vec<_> = stack.frames.iter().map(|frame| frame.name.as_str()).collect();
            write!(f, "\n    {:>5} x {}: {}", stack.count, stack.comm, shortened(&names))?;
        }
        Ok(())
    }
}

/// A line that a person can read, whatever the depth.
fn shortened(names: &[&str]) -> String {
    match names {
        [front @ .., _, _, _, _, _] if front.len() > 7 => format!(
            "{} > ({} more) > {}",
            front[..6].join(" > "),
            front.len() - 6,
            names[front.len()..].join(" > ")
        ),
        _ => names.join(" > "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folded::parse;

    fn expected(text: &str) -> Vec<Expected> {
        let frame = |(at, name): (usize, &str)| Expected {
            name: (name != "?").then(|| name.to_owned()),
            file: "chain".to_owned(),
            address: Some(0x1000 + at as u64),
            inlined: false,
        };
        text.split(' ').enumerate().map(frame).collect()
    }

    fn rules(stacks: &[&str]) -> Rules {
        Rules { stacks: stacks.iter().map(|text| expected(text)).collect(), ..Rules::default() }
    }

    fn compared(rules: &Rules, text: &str) -> (u64, u64, u64) {
        let comparison = rules.compare(&parse(text).unwrap());
        (comparison.samples, comparison.whole, comparison.exact)
    }

    #[test]
    fn the_expected_stack_is_exact() {
        let rules = rules(&["_start main l1 leaf"]);
        assert_eq!(compared(&rules, "c;_start;main;l1;leaf 7"), (7, 7, 7));
        assert_eq!(compared(&rules, "c;_start;main;l1;leaf;irq_entry_[k] 7"), (7, 7, 7));
    }

    #[test]
    fn a_leaf_may_be_on_its_way_through_the_linkage_table() {
        let rules = rules(&["_start main l1 leaf"]);
        assert_eq!(compared(&rules, "c;_start;main;l1;leaf@plt 7"), (7, 7, 7));
        assert_eq!(compared(&rules, "c;_start;main;l1;other@plt 7"), (7, 7, 0));
        assert_eq!(compared(&rules, "c;_start;main;l1@plt;leaf 7"), (7, 7, 0));
    }

    #[test]
    fn every_other_stack_is_not() {
        let rules = rules(&["_start main l1 leaf"]);
        for (line, whole) in [
            ("c;_start;main;leaf 1", 1),          // a frame is missing
            ("c;_start;main;l1;l1;leaf 1", 1),    // one too many
            ("c;_start;main;l2;leaf 1", 1),       // another one
            ("c;_start;main;l1 1", 1),            // without leaf
            ("c;_start;main;l1;leaf;extra 1", 1), // beyond the leaf
            ("c;main;l1;leaf 1", 0),              // without root
            ("c;leaf 1", 0),
            ("c;schedule_[k] 1", 0), // nothing of the user's
            ("c 1", 0),
        ] {
            assert_eq!(compared(&rules, line), (1, whole, 0), "{line}");
        }
    }

    #[test]
    fn a_program_that_starts_is_on_its_way() {
        let mut rules = rules(&["_start main l1 leaf"]);
        assert_eq!(
            rules.compare(&parse("c;_start;main;strtod 1").unwrap()).on_the_way,
            0,
            "only where asked"
        );
        rules.has_way = true;
        for (line, on_the_way) in [
            ("c;_start;main;strtod 1", 1),
            ("c;_start;main;l1;dlopen;libc.so.6+0x10 1", 1),
            ("c;_start;strtod 1", 0),           // not in main
            ("c;_start;main;leaf 1", 0),        // a frame is missing
            ("c;_start;main;strtod;l1 1", 0),   // back in what is expected
            ("c;_start;main;chain+0x99 1", 0),  // somewhere in the program
            ("c;_start;main;[anonymous] 1", 0), // somewhere
            ("c;_start;main;l1;leaf;strtod 1", 0),
            ("c;_start;main;l1 1", 0),
            ("c;_start;main;l1;leaf 1", 0),
        ] {
            assert_eq!(rules.compare(&parse(line).unwrap()).on_the_way, on_the_way, "{line}");
        }
        let comparison = Comparison { samples: 1000, exact: 995, on_the_way: 5, ..Comparison::default() };
        assert!(comparison.is_good());
        assert!(!Comparison { exact: 993, ..comparison.clone() }.is_good());
        assert!(!Comparison { exact: 994, on_the_way: 6, ..comparison }.is_good(), "too long a way");
    }

    #[test]
    fn frames_without_names_are_known_by_address() {
        let rules = rules(&["_start main l1 leaf"]);
        assert_eq!(compared(&rules, "c;_start;main;chain+0x1002;chain+0x1999 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;chain+0x1000;main;l1;leaf 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main;chain+0x1003;leaf 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main;other+0x1002;leaf 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main;[anonymous];leaf 1"), (1, 1, 0));
    }

    #[test]
    fn a_name_where_gdb_knows_none_is_wrong() {
        let rules = rules(&["_start ? leaf"]);
        assert_eq!(compared(&rules, "c;_start;chain+0x1001;leaf 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;somewhere_near;leaf 1"), (1, 1, 0));
    }

    #[test]
    fn prefixes_count_only_where_asked() {
        let mut rules = rules(&["_start main l1 leaf"]);
        rules.prefixes = true;
        assert_eq!(compared(&rules, "c;_start;main 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;l1 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main;l1;leaf;leaf 1"), (1, 1, 0));
    }

    #[test]
    fn the_way_to_the_clock_is_the_chain_and_a_little_more() {
        let mut rules = rules(&["_start main leaf"]);
        rules.clocks = vec![(3, expected("_start main leaf now clock_gettime"))];
        assert_eq!(compared(&rules, "c;_start;main;leaf;now;clock_gettime 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main;leaf;now 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main;now 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main 1"), (1, 1, 0));
    }

    #[test]
    fn inlined_functions_can_be_forgotten() {
        let mut rules = rules(&["_start main inner leaf"]);
        rules.stacks[0][2].inlined = true;
        rules.clocks = vec![(3, rules.stacks[0].clone())];
        assert_eq!(compared(&rules, "c;_start;main;leaf 1"), (1, 1, 0));
        rules.forget_inlined();
        assert_eq!(compared(&rules, "c;_start;main;leaf 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main 1"), (1, 1, 1), "two frames are left of the three");
        assert_eq!(compared(&rules, "c;_start 1"), (1, 1, 0));
    }

    #[test]
    fn what_lies_beyond_is_not_judged() {
        let mut rules = rules(&["_start main l1 cxa_throw"]);
        rules.beyond = vec!["__cxa_throw".to_owned()];
        assert_eq!(compared(&rules, "c;_start;main;l1;__cxa_throw;_Unwind_RaiseException;x 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main;__cxa_throw;_Unwind_RaiseException;x 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main;l1;_Unwind_RaiseException;x 1"), (1, 1, 0));
        assert_eq!(compared(&rules, "c;_start;main;l1;libstdc++.so.6+0x12;x 1"), (1, 1, 0));
        rules.beyond.push("libstdc++.so".to_owned());
        assert_eq!(compared(&rules, "c;_start;main;l1;libstdc++.so.6+0x12;x 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;_start;main;libstdc++.so.6+0x12;x 1"), (1, 1, 0));
    }

    #[test]
    fn kernel_stacks_alone_count_only_where_named() {
        let mut rules = rules(&["_start main"]);
        rules.kernel_alone = vec!["do_exit".to_owned()];
        assert_eq!(compared(&rules, "c;entry_[k];do_exit_[k];exit_mmap_[k] 1"), (1, 1, 1));
        assert_eq!(compared(&rules, "c;entry_[k];schedule_[k] 1"), (1, 0, 0));
    }

    #[test]
    fn the_limit_is_999_of_1000() {
        let rules = rules(&["_start main"]);
        let comparison = |text: &str| rules.compare(&parse(text).unwrap()).is_good();
        assert!(comparison("c;_start;main 999\nc;main 1"));
        assert!(!comparison("c;_start;main 998\nc;main 2"));
        assert!(!comparison(""));
    }
}
