//! Random profiles: no format loses or invents a sample.

use std::fmt::Write as _;

use ebpf_profiler_core::profile::{Limits, Profile, Tree};
use ebpf_profiler_core::sink::{Format, Svg, Table};
use ebpf_profiler_core::testing;

use crate::written;

/// Pseudo-random numbers, equal in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn stack(&mut self) -> String {
        let mut stack = self.of(&["cat", "my program", "kworker/0:1", "größe"]).to_owned();
        if self.below(8) == 0 {
            stack += ";[truncated: stack not readable]";
        }
        let depth = self.below(12);
        let gap = self.below(30);
        for level in 0..depth {
            let name = self.of(&["main", "f", "a::b", "std::g(int, char)", "operator<< <x>", "7 8", "ü"]);
            let ending = self.of(&["", "", "", "_[k]", "_[j]"]);
            let _ = write!(stack, ";{name}{ending}");
            if ending.is_empty() && self.below(3) == 0 {
                stack += ";helper_[i]";
            }
            if level == gap {
                stack += ";[… 12 frames left out]";
            }
        }
        stack
    }

    fn profile(&mut self) -> Profile {
        let stacks = 1 + self.below(30);
        let lines: Vec<String> =
            (0..stacks).map(|_| format!("{} {}", self.stack(), 1 + self.below(50))).collect();
        testing::profile(&lines.join("\n"))
    }
}

pub(crate) fn on_random_profiles(check: impl Fn(&Profile)) {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    (0..100).for_each(|_| check(&numbers.profile()));
}

#[test]
fn folded_text_says_the_same_as_the_profile() {
    on_random_profiles(|profile| {
        let text = written(profile, Format::FOLDED);
        let counts =
            text.lines().map(|line| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()));
        assert_eq!(counts.map(|count| count.expect("a count")).sum::<u64>(), profile.count());
        let again = testing::profile(&text);
        assert_eq!(written(&again, Format::FOLDED), text);
        assert_eq!(contents(&again), contents(profile), "{text}");
    });
}

/// Returns every sample as text, sorted.
fn contents(profile: &Profile) -> Vec<String> {
    let mut samples: Vec<String> = Vec::new();
    for sample in profile.samples() {
        let mut text = format!("{} {:?}", sample.thread().name, sample.trace().stop());
        for call in sample.trace().calls() {
            let _ = write!(text, "\n{call} {:?} {}", call.kind(), call.is_inlined());
        }
        samples.push(format!("{text}\n{}", sample.count()));
    }
    samples.sort();
    samples
}

#[test]
fn every_layout_holds_all_samples() {
    on_random_profiles(|profile| {
        let tree = Tree::new(profile);
        assert_eq!(tree.total(), profile.count());
        let limits =
            [(0, 9_999, 99), (2, 9_999, 99), (10, 20, 4), (1, 7, 99), (1_000, 9, 9), (1, 1, 1), (0, 0, 0)];
        for (samples, frames, levels) in limits {
            let frames = tree.layout(Limits { samples, frames, levels }).frames;
            assert_eq!(frames.iter().map(|placed| placed.own).sum::<u64>(), profile.count());
            assert!(frames.iter().all(|placed| placed.start + placed.total <= profile.count()));
        }
    });
}

/// Frames of one level don't overlap, and each lies in one of the level below.
#[test]
fn frames_stand_on_their_callers() {
    on_random_profiles(|profile| {
        let tree = Tree::new(profile);
        let mut stem: Vec<(u64, u64)> = Vec::new();
        for placed in tree.layout(Limits { samples: 3, frames: 40, levels: 9 }).frames {
            stem.truncate(placed.level);
            assert_eq!(stem.len(), placed.level);
            if let Some((start, end)) = stem.last_mut() {
                assert!(*start <= placed.start && placed.start + placed.total <= *end);
                *start = placed.start + placed.total;
            }
            stem.push((placed.start, placed.start + placed.total));
        }
    });
}

#[test]
fn the_page_holds_all_samples() {
    on_random_profiles(|profile| {
        let page = written(profile, Format::HTML);
        let frames =
            page.split("\"frames\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("frames");
        let numbers: Vec<u64> =
            frames.split(',').map(|digits| u64::from_str_radix(digits, 36).unwrap_or(0)).collect();
        assert_eq!(numbers.len() % 3, 0);
        assert_eq!(numbers.chunks(3).map(|frame| frame[2]).sum::<u64>(), profile.count());
    });
}

/// At this width each frame has its text.
#[test]
fn the_svg_holds_all_samples() {
    on_random_profiles(|profile| {
        let mut svg = Vec::new();
        Svg::new(profile).width(1_000_000).write(&mut svg).expect("memory takes everything");
        let svg = String::from_utf8(svg).expect("it is text");
        assert_eq!(svg.matches(&format!("<title>all: {} sample", profile.count())).count(), 1);
        let tree = Tree::new(profile);
        assert_eq!(svg.matches("<title>").count(), tree.layout(Limits::default()).frames.len());
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    });
}

/// The table omits placeholders that aren't functions; the sum is lower by these.
#[test]
fn the_table_holds_what_functions_did_themselves() {
    on_random_profiles(|profile| {
        let table = Table::new(profile).rows(usize::MAX).width(400).to_string();
        let own =
            table.lines().skip(1).filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let in_functions = profile.samples().filter(|sample| {
            let leaf = sample.trace().calls().last();
            leaf.is_some_and(|call| call.module().is_some() || call.symbol().is_some())
        });
        assert_eq!(own.sum::<u64>(), in_functions.map(|sample| sample.count()).sum::<u64>(), "{table}");
    });
}
