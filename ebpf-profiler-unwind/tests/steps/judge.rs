//! Compares the walker's frames with the shadow stack.

use std::collections::BTreeMap;

use ebpf_profiler_unwind::{Registers, Stop, Walk};

use super::ptrace;
use super::shadow::Shadow;
use super::target::Target;

/// The source of the rule by which a frame's caller is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Unwind data.
    Table,
    /// Derived rules.
    Derived,
    /// None.
    Guess,
}

/// Numbers of stacks by result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Results {
    pub(crate) exact: u64,
    /// Ended too early, with a reason.
    pub(crate) truncated: u64,
    pub(crate) wrong: u64,
}

/// Stacks that were not exact because of one place.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) count: u64,
    pub(crate) text: String,
}

/// Results of a program.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    /// Stacks that are known only in part.
    pub(crate) partial: u64,
    pub(crate) switches: u64,
    results: BTreeMap<Class, Results>,
    examples: BTreeMap<String, Example>,
}

impl Tally {
    pub(crate) fn of(&self, class: Class) -> Results {
        self.results.get(&class).copied().unwrap_or_default()
    }

    /// Returns the places at which most stacks are not exact.
    pub(crate) fn worst(&self) -> Vec<(&String, &Example)> {
        let mut worst: Vec<_> = self.examples.iter().collect();
        worst.sort_by_key(|(_, example)| std::cmp::Reverse(example.count));
        worst
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) tally: Tally,
}

/// Maximum number of frames that are compared.
const MAX_FRAMES: usize = 256;

impl Judge {
    /// Compares the stack at one instruction.
    pub(crate) fn compare(&mut self, target: &mut Target, registers: &ptrace::Registers, shadow: &Shadow) {
        target.refresh();
        let calls = shadow.calls();
        let callers = calls.entries.iter().rev().map(|entry| (entry.pc, entry.is_interrupted));
        let expected: Vec<(u64, bool)> =
            [(registers.rip, true)].into_iter().chain(callers).take(MAX_FRAMES).collect();
        let is_whole = calls.is_whole && expected.len() < MAX_FRAMES;
        let mut walk = Walk::new(target.modules(), &of(registers), |address| target.word(address));
        let frames =
            walk.by_ref().filter_map(|frame| frame.native().map(|native| (native.pc(), native.exact)));
        let found: Vec<(u64, bool)> =
            frames.take(if is_whole { MAX_FRAMES } else { expected.len() }).collect();
        let stop = walk.stop();
        self.tally.partial += u64::from(!is_whole);
        let equal = expected.iter().zip(&found).take_while(|(expected, found)| expected == found).count();
        let is_exact =
            equal == expected.len() && (!is_whole || found.len() == equal && stop == Some(Stop::Root));
        // The rule of this frame led to the first wrong one.
        let culprit = if is_exact { 0 } else { equal.saturating_sub(1) };
        let (class, place) = place(target, expected[culprit]);
        let results = self.tally.results.entry(class).or_default();
        if is_exact {
            results.exact += 1;
            return;
        }
        let is_truncated = found.len() == equal && equal < expected.len();
        if is_truncated {
            results.truncated += 1;
        } else {
            results.wrong += 1;
        }
        let example = || {
            let hex = |frames: &[(u64, bool)]| {
                let frames = frames.iter().skip(culprit).take(3).map(|(pc, _)| format!("{pc:x}"));
                frames.collect::<Vec<_>>().join(" ")
            };
            let what = if is_truncated { "truncated" } else { "wrong" };
            let text = format!("{what}, {stop:?}, frames {} instead of {}", hex(&found), hex(&expected));
            Example { count: 0, text }
        };
        self.tally.examples.entry(format!("{class:?} {place}")).or_insert_with(example).count += 1;
    }
}

/// Returns the class of a frame's rule, and the frame's place in its file.
fn place(target: &Target, (pc, is_exact): (u64, bool)) -> (Class, String) {
    let address = if is_exact { pc } else { pc.wrapping_sub(1) };
    let Some(mapped) = target.mapping(address) else { return (Class::Guess, "unmapped".to_owned()) };
    let Some(image) = &mapped.image else { return (Class::Guess, "anonymous memory".to_owned()) };
    let address = mapped.file_address(address);
    let rule = image.table.rule(address);
    let class = match &rule {
        Some(rule) if rule.is_derived() => Class::Derived,
        Some(_) => Class::Table,
        None => Class::Guess,
    };
    let rule = rule.map_or_else(String::new, |rule| format!(" ({rule})"));
    (class, format!("{} {address:x}{rule}", image.name))
}

/// Converts registers to DWARF's numbering.
fn of(registers: &ptrace::Registers) -> Registers {
    let r = registers;
    let general = [
        r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15,
    ];
    let mut all = Registers { pc: r.rip, known: 0xffff, thread: r.fs_base, ..Registers::default() };
    all.values[..16].copy_from_slice(&general);
    all
}
