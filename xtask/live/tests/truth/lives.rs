//! Processes that live shortly: their first tick counts too.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use live_suite::selection::is_matrix;

use crate::compile::{Build, Built};
use crate::folded::Stack;
use crate::process::Running;
use crate::profiler::{self, Order, Outcome};
use crate::roots::Roots;

/// Results of the processes of one nursery.
#[derive(Debug, Default)]
struct Fate {
    /// Samples that their processor time is worth.
    expected: f64,
    delivered: u64,
    whole: u64,
    lives: usize,
    /// Lives with at least one sample.
    seen: usize,
    /// The most frequent stacks that are not whole.
    broken: Vec<Stack>,
}

/// Processes in a row; the matrix has more.
fn lives() -> usize {
    if is_matrix() { 300 } else { 100 }
}

#[test]
#[ignore = "profiles: needs root"]
fn lives_of_30_ms() {
    test_needs::root!();
    test_needs::programs!("gcc", "gdb");
    let fate = fate("lives_30", lives(), 30, 997);
    fate.require(0.99);
    assert_eq!(fate.seen, fate.lives, "a process was not seen at all");
}

/// A life has room for one tick and a sixth of another: without the first nearly nothing would be
/// left.
#[test]
#[ignore = "profiles: needs root"]
fn the_first_tick_of_a_life_is_delivered() {
    test_needs::root!();
    test_needs::programs!("gcc", "gdb");
    fate("lives_12", 300, 12, 97).require(0.99);
}

/// Children that never execute anything are processes too: they have their parent's mappings from
/// the first tick.
#[test]
#[ignore = "profiles: needs root"]
fn forked_children() {
    test_needs::root!();
    test_needs::programs!("gcc", "gdb");
    let built = Build::new("children.c").build("forked");
    let order = Order {
        pids: Vec::new(),
        seconds: 15.0,
        frequency: 997,
        output: built.directory.join("profile.folded"),
    };
    let working = profiler::start(&order);
    working.wait_until_it_samples(); // it is the lives that are tested, not its start
    let lives = lives();
    let running = Running::start(&built.program, &["12".to_owned(), lives.to_string(), "30".to_owned()]);
    let said = running.finish();
    let cost = said.split_whitespace().nth(2).and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0);
    let stacks = stacks_of_lives(working.finish_now());
    let fate = Fate::new(stacks, &Roots::default(), lives, cost * f64::from(order.frequency));
    eprintln!("forked: {fate}");
    fate.require(0.99);
    assert!(fate.whole * 1000 >= fate.delivered * 999, "{} of {} are whole", fate.whole, fate.delivered);
}

fn fate(name: &str, lives: usize, milliseconds: u32, frequency: u32) -> Fate {
    let (built, arguments) = nursery(name, lives, milliseconds);
    let seconds = lives as f64 * (f64::from(milliseconds) + 5.0) / 1000.0 * 4.0 + 10.0;
    let order =
        Order { pids: Vec::new(), seconds, frequency, output: built.directory.join("profile.folded") };
    let working = profiler::start(&order);
    working.wait_until_it_samples(); // it is the lives that are tested, not its start
    let running = Running::start(&built.program, &arguments);
    let mut roots = Roots::default();
    roots.scan();
    roots.add(&built.directory.join("life"));
    let said = running.finish();
    let outcome = working.finish_now();
    let costs = said
        .lines()
        .filter(|line| line.starts_with('n'))
        .filter_map(|line| line.split(' ').nth(1)?.parse::<f64>().ok());
    let cost: f64 = costs.sum();
    let fate = Fate::new(stacks_of_lives(outcome), &roots, lives, cost * f64::from(frequency));
    eprintln!("{name}: {fate}");
    fate
}

/// The nursery and its arguments, with the program that it starts.
pub(crate) fn nursery(name: &str, count: usize, milliseconds: u32) -> (Built, Vec<String>) {
    let life = Build::new("life.c").build(&format!("{name}_life"));
    let built = Build::new("nursery.c").build(name);
    let cradle = built.directory.join("cradle");
    fs::create_dir_all(&cradle).expect("the target directory can be written");
    let paths = [&life.program, &cradle].map(|path| path.to_string_lossy().into_owned());
    let [program, cradle] = paths;
    (built, vec!["60".to_owned(), count.to_string(), program, cradle, milliseconds.to_string()])
}

/// The stacks of processes called n0000 to n9999, and of children called c0000 to c9999.
fn stacks_of_lives(outcome: Outcome) -> Vec<Stack> {
    outcome.stacks.into_iter().filter(|stack| is_life(&stack.comm, &['n', 'c'])).collect()
}

fn resident_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

/// Returns `true` for one of these letters and four digits.
pub(crate) fn is_life(comm: &str, letters: &[char]) -> bool {
    comm.len() == 5 && comm.starts_with(letters) && comm[1..].bytes().all(|byte| byte.is_ascii_digit())
}

impl Fate {
    fn new(stacks: Vec<Stack>, roots: &Roots, lives: usize, expected: f64) -> Fate {
        let comms: std::collections::BTreeSet<_> = stacks.iter().map(|stack| stack.comm.clone()).collect();
        let mut fate = Fate { expected, lives, seen: comms.len(), ..Fate::default() };
        for stack in stacks {
            fate.delivered += stack.count;
            // Without user frames: on its way into the program, or out of it.
            if roots.is_whole(&stack).unwrap_or(true) {
                fate.whole += stack.count;
            } else {
                fate.broken.push(stack);
            }
        }
        fate.broken.sort_by_key(|stack| std::cmp::Reverse(stack.count));
        fate
    }

    /// Delivered and whole, of what was expected.
    fn share(&self) -> f64 {
        self.whole as f64 / self.expected
    }

    /// Requires a share, less what ticks scatter: where they fall is chance.
    fn require(&self, share: f64) {
        let scatter = 1.5 / self.expected.max(1.0).sqrt();
        let share = share - scatter;
        assert!(self.share() >= share, "delivered and whole is less than {:.1} %: {self}", share * 100.0);
    }
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |part: u64| part as f64 / self.expected * 100.0;
        write!(
            f,
            "{:.0} samples expected, {:.2} % delivered, {:.2} % delivered and whole; {} of {} lives seen",
            self.expected,
            percent(self.delivered),
            percent(self.whole),
            self.seen,
            self.lives
        )?;
        for stack in self.broken.iter().take(4) {
            let names: Vec<_> = stack.frames.iter().map(|frame| frame.name.as_str()).collect();
            write!(f, "\n    {:>5} x {}: {}", stack.count, stack.comm, names.join(" > "))?;
        }
        Ok(())
    }
}

#[test]
fn shares_are_of_what_was_expected() {
    let stacks = crate::folded::parse("n0001;_start;main 6\nn0002;main 1\nn0002;do_exit_[k] 1").unwrap();
    let fate = Fate::new(stacks, &Roots::default(), 3, 10.0);
    assert_eq!((fate.delivered, fate.whole, fate.seen), (8, 7, 2));
    assert!((fate.share() - 0.7).abs() < 1e-9);
    assert_eq!(fate.broken.len(), 1);
}

#[test]
fn lives_are_told_by_their_names() {
    let text = "n0001;a 1\nnode;a 1\nn001;a 1\nn00x1;a 1";
    let stacks = crate::folded::parse(text).unwrap();
    assert_eq!(stacks_of_lives(Outcome { stacks, summary: None }).len(), 1);
}

/// Further lives.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn lives_of_100_ms() {
        test_needs::root!();
        test_needs::programs!("gcc", "gdb");
        fate("lives_100", lives(), 100, 997).require(0.99);
    }

    /// Checks that the state of exited processes is freed.
    #[test]
    #[ignore = "profiles: needs root"]
    fn ten_thousand_lives_leave_nothing_behind() {
        test_needs::root!();
        test_needs::programs!("gcc", "gdb");
        let (built, arguments) = nursery("lives_10000", 10_000, 0);
        let order = Order {
            pids: Vec::new(),
            seconds: 25.0,
            frequency: 97,
            output: built.directory.join("profile.folded"),
        };
        let working = profiler::start(&order);
        let running = Running::start(&built.program, &arguments);
        let pid = working.pid();
        let start = Instant::now();
        let mut memory = BTreeMap::new();
        working.finish_watched(|| _ = memory.insert(start.elapsed().as_secs(), resident_kb(pid)));
        let said = running.finish();
        let most = |from: u64, to: u64| memory.range(from..to).filter_map(|(_, kb)| *kb).max().unwrap_or(0);
        let (early, late) = (most(2, 6), most(6, u64::MAX));
        eprintln!("{}: {early} kB resident after some seconds, {late} kB at most later", said.trim());
        assert!(said.starts_with("10000 lives"), "{said}");
        assert!(late <= early + early / 5 + 8192, "the profiler grows with every process");
    }
}
