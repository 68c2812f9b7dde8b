//! Stacks of this crate, eu-stack and gdb, side by side.

use ebpf_profiler_core::trace::Stop;
use examples::{CoreFile, Stack};

use crate::others::{self, Line};
use live_suite::workload::dump::Dump;

/// The stack of one thread, by all three.
pub(crate) struct Thread {
    /// Native frames, without those of script functions.
    pub(crate) ours: Vec<Line>,
    /// Number of native frames that are called by the innermost script function of a runtime whose
    /// frames lie on this stack, if there is one.
    pub(crate) before_scripts: Option<usize>,
    pub(crate) stop: Stop,
    pub(crate) eu_stack: Vec<Line>,
    pub(crate) gdb: Vec<Line>,
}

/// A known reason for which a stack differs from both others.
pub(crate) struct Difference {
    /// Explanation, as one clause.
    pub(crate) why: &'static str,
    /// Returns `true` for the stacks that it explains.
    pub(crate) is: fn(&Thread) -> bool,
}

impl Thread {
    fn new(stack: &Stack, eu_stack: &others::Stacks, gdb: &others::Stacks) -> Thread {
        let of = |stacks: &others::Stacks| stacks.get(&stack.thread.id).cloned().unwrap_or_default();
        // The other tools show no script functions.
        let line = |call: &examples::Call| {
            let name = call.functions.last().map_or(String::new(), |function| function.name.clone());
            Some(Line { pc: call.frame.native()?.pc(), name })
        };
        Thread {
            ours: stack.calls.iter().filter_map(line).collect(),
            before_scripts: stack.calls.iter().position(|call| call.frame.native().is_none()),
            stop: stack.stop,
            eu_stack: of(eu_stack),
            gdb: of(gdb),
        }
    }

    /// Returns `true` if our stack is whole and `theirs` has more frames.
    pub(crate) fn ends_before(&self, theirs: &[Line]) -> bool {
        self.stop == Stop::Root && theirs.len() > self.ours.len() && same(&self.ours, theirs)
    }

    /// Returns `true` if our stack is whole and has script functions, and all of its native frames
    /// are in `theirs`, in the same order.
    pub(crate) fn has_scripts_within(&self, theirs: &[Line]) -> bool {
        let mut rest = theirs.iter();
        let mut is_next = |line: &Line| rest.any(|other| other.pc == line.pc);
        self.stop == Stop::Root && self.before_scripts.is_some() && self.ours.iter().all(&mut is_next)
    }

    /// Returns `true` if our stack is whole and has script functions, and the native frames that
    /// they called begin `theirs`.
    pub(crate) fn has_scripts_behind(&self, theirs: &[Line]) -> bool {
        let called = self.before_scripts.and_then(|count| self.ours.get(..count));
        let is_same =
            |called: &[Line]| called.len() <= theirs.len() && (called.is_empty() || same(called, theirs));
        self.stop == Stop::Root && called.is_some_and(is_same)
    }

    /// Returns `true` if our stack has more frames than `theirs`.
    pub(crate) fn goes_on_behind(&self, theirs: &[Line]) -> bool {
        theirs.len() < self.ours.len() && same(&self.ours, theirs)
    }
}

/// Returns `true` if all common frames are equal, and there is at least one.
fn same(ours: &[Line], theirs: &[Line]) -> bool {
    !theirs.is_empty() && ours.iter().zip(theirs).all(|(a, b)| a.pc == b.pc)
}

fn equal(ours: &[Line], theirs: &[Line]) -> bool {
    ours.len() == theirs.len() && same(ours, theirs)
}

/// Compares all threads of a dump, of which there have to be at least `least`.
pub(crate) fn compare(dump: &Dump, least: usize, differences: &[Difference]) {
    let mut core = CoreFile::open(&dump.core, &[]).unwrap();
    let (eu_stack, gdb) = (others::eu_stack(dump), others::gdb(dump));
    let stacks = core.stacks();
    assert_eq!(stacks.len(), eu_stack.len(), "threads");
    assert!(stacks.len() >= least, "only {} threads", stacks.len());
    let (mut wrong, mut equal_to, mut explained) = (Vec::new(), [0; 2], 0);
    for stack in &stacks {
        let thread = Thread::new(stack, &eu_stack, &gdb);
        let equals = [equal(&thread.ours, &thread.eu_stack), equal(&thread.ours, &thread.gdb)];
        let why =
            differences.iter().find(|difference| (difference.is)(&thread)).map(|difference| difference.why);
        let comparison = match (equals, why) {
            ([true, true], _) => "equal to both",
            ([true, _], _) => "equal to eu-stack",
            ([_, true], _) => "equal to gdb",
            (_, Some(why)) => why,
            _ => "DIFFERENT, unexplained",
        };
        print(stack, &thread, comparison);
        equal_to.iter_mut().zip(equals).for_each(|(count, equals)| *count += usize::from(equals));
        match (equals.contains(&true), why) {
            (true, _) => {}
            (_, Some(_)) => explained += 1,
            _ => wrong.push(stack.thread.id),
        }
    }
    println!(
        "{}: {} threads, {} equal to eu-stack, {} to gdb, {explained} explained, {} wrong\n",
        dump.program.display(),
        stacks.len(),
        equal_to[0],
        equal_to[1],
        wrong.len()
    );
    assert!(wrong.is_empty(), "threads {wrong:?}");
}

fn print(stack: &Stack, thread: &Thread, comparison: &str) {
    println!("thread {}: {comparison}; ours: {}", stack.thread.id, thread.stop);
    println!("    {:<54} {:<54} gdb", "ours", "eu-stack");
    let columns = [&thread.ours, &thread.eu_stack, &thread.gdb];
    let lines = columns.iter().map(|column| column.len()).max().unwrap_or(0);
    for number in 0..lines {
        let cells = columns.map(|column| cell(column.get(number)));
        let all = columns.map(|column| column.get(number).map(|line| line.pc));
        let mark = if all[0] == all[1] && all[0] == all[2] { ' ' } else { '|' };
        println!("  {mark} {:<54} {:<54} {}", cells[0], cells[1], cells[2]);
    }
}

fn cell(line: Option<&Line>) -> String {
    let text = line.map_or_else(String::new, |line| format!("{:012x} {}", line.pc, line.name));
    text.chars().take(53).collect()
}
