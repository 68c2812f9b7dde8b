//! Filters against two programs that do the same work: the wanted one is sampled, all of it, and
//! the other is counted.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Filter, Health, OffCpu, Trigger, Uprobe};
use ebpf_profiler_core::profile::{Kind, Profile};

use live_suite::compile;

/// Calls of a program, its child and its second thread for each line that it reads.
const CALLS: u64 = 15_000;

#[test]
#[ignore = "needs root"]
fn only_the_command_is_sampled_and_the_other_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (profile, health) =
        profile_pair("command", |builder, _| builder.filter(Filter::new().command("wan*d-[a-f]")));
    assert_eq!((profile.total(), health.filtered, health.lost), (CALLS, CALLS, 0), "{health:?}");
    assert_eq!(names(&profile), ["helper-1", "wanted-a"]);
}

#[test]
#[ignore = "needs root"]
fn only_the_thread_is_sampled_and_others_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let filter = Filter::new().thread("helper-*").command("wanted-?");
    let (profile, health) = profile_pair("thread", |builder, _| builder.filter(filter));
    assert_eq!((profile.total(), health.filtered, health.lost), (CALLS / 3, 2 * CALLS - CALLS / 3, 0));
    assert_eq!(names(&profile), ["helper-1"]);
}

#[test]
#[ignore = "needs root"]
fn children_of_the_process_are_sampled() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (profile, health) = profile_pair("pid", |builder, [wanted, _]| builder.pid(wanted.id()));
    assert_eq!((profile.total(), health.filtered, health.lost), (CALLS, CALLS, 0), "{health:?}");
}

#[test]
#[ignore = "needs root"]
fn only_the_subtree_of_the_cgroup_is_sampled() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let group = Group::new("calls");
    let (profile, health) = profile_pair("cgroup", |builder, [wanted, _]| {
        group.add(wanted);
        builder.filter(Filter::new().cgroup(group.outer()))
    });
    assert_eq!((profile.total(), health.filtered, health.lost), (CALLS, CALLS, 0), "{health:?}");
    assert_eq!(names(&profile), ["helper-1", "wanted-a"]);
}

#[test]
#[ignore = "needs root"]
fn ticks_of_the_command_agree_with_its_cpu_time() {
    const HERTZ: u32 = 997;
    test_needs::root!();
    test_needs::programs!("gcc");
    let mut pair = Pair::start("ticks");
    let builder = Profiler::builder().frequency(HERTZ).filter(Filter::new().command("wanted-a").user_code());
    let profiler = start(builder.on(Trigger::cpu()));
    let used = pair.work(400)[0];
    let (profile, health) = profiler.finish().unwrap();
    assert_eq!(names(&profile).iter().filter(|name| name.as_str() == "other").count(), 0);
    let is_user = |kind| kind != Kind::Kernel;
    assert!(profile.samples().all(|sample| sample.trace().calls().all(|call| is_user(call.kind()))));
    let (ticks, truth) = (profile.total() as f64, used as f64 / 1e9 * f64::from(HERTZ));
    println!("{ticks} ticks, {truth:.0} by getrusage; {} dropped", health.filtered);
    // Less the time in the kernel, which is dropped; the clock's phase is random.
    assert!(ticks <= 1.15 * truth && ticks >= 0.6 * truth, "{ticks}, {truth}");
    assert!(health.filtered > 0);
}

#[test]
#[ignore = "needs root"]
fn only_the_cpu_is_sampled() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (profile, health) = profile_pair("cpu", |builder, _| builder.filter(Filter::new().cpu(0)));
    assert!(profile.samples().all(|sample| sample.cpus().all(|cpu| cpu == Some(0))));
    assert_eq!((profile.total() + health.filtered, health.lost), (2 * CALLS, 0));
    let (profile, health) = profile_pair("cpu", |builder, _| builder.filter(Filter::new().cpu(4_000)));
    assert_eq!((profile.total(), health.filtered), (0, 2 * CALLS));
}

/// No clock runs on the others: its ticks would be counted as filtered.
#[test]
#[ignore = "needs root"]
fn other_cpus_are_not_interrupted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let mut pair = Pair::start("clocks");
    let builder = Profiler::builder().frequency(997).on(Trigger::cpu());
    let profiler = start(builder.filter(Filter::new().cpu(4_000)));
    let used: u64 = pair.work(400).into_iter().sum();
    let before = profiler.health();
    assert!(used > 50_000_000, "{used} ns of work");
    assert_eq!((before.pipeline.samples, before.filtered), (0, 0), "{before:?}");
    // A filter that is changed opens the clocks, and closes them again.
    profiler.set_filter(&Filter::new()).unwrap();
    pair.work(400);
    let both = profiler.set_filter(&Filter::new().cpu(4_000)).unwrap();
    assert!(both.total() > 50, "{} samples", both.total());
    let filtered = profiler.health().filtered;
    pair.work(400);
    let (last, health) = profiler.finish().unwrap();
    assert_eq!((last.total(), health.filtered), (0, filtered), "{health:?}");
}

/// Such waits are dropped before the interrupt in which the others are sampled.
#[test]
#[ignore = "needs root"]
fn only_waits_of_the_wanted_are_sampled() {
    /// Each waits once for the next line, at least.
    const TURNS: u64 = 50;
    test_needs::root!();
    test_needs::programs!("gcc");
    let group = Group::new("waits");
    let filters: [(&str, Filter); 4] = [
        ("command", Filter::new().command("wan*d-a")),
        ("thread", Filter::new().thread("wanted-a")),
        ("cgroup", Filter::new().cgroup(group.outer())),
        ("all", Filter::new().cgroup(group.outer()).command("wanted-?").kernel_code()),
    ];
    for (name, filter) in filters {
        let mut pair = Pair::start(name);
        group.add(&pair.programs[0].0);
        let profiler = start(Profiler::builder().on(OffCpu::longer_than(Duration::ZERO)).filter(filter));
        for _ in 0..TURNS {
            pair.work(1);
        }
        let (profile, health) = profiler.finish().unwrap();
        let found = names(&profile);
        assert!(found.iter().all(|found| ["wanted-a", "helper-1"].contains(&found.as_str())), "{found:?}");
        let waits = profile.samples().filter(|sample| &*sample.thread().name == "wanted-a");
        let waits: u64 = waits.map(|sample| sample.count()).sum();
        assert!(waits >= TURNS && health.filtered >= TURNS, "{name}: {waits}, {}", health.filtered);
    }
    let profiler =
        start(Profiler::builder().on(OffCpu::longer_than(Duration::ZERO)).filter(Filter::new().user_code()));
    Pair::start("user").work(1);
    assert_eq!(profiler.finish().unwrap().0.count(), 0, "no thread waits in user code");
}

#[test]
#[ignore = "needs root"]
fn filter_is_changed_while_it_runs() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let mut pair = Pair::start("change");
    let wanted = Filter::new().command("wanted-a");
    let profiler = start(pair.builder().filter(wanted));
    pair.work(0);
    let first = profiler.set_filter(&Filter::new().command("other")).unwrap();
    pair.work(0);
    let second = profiler.set_filter(&Filter::new()).unwrap();
    pair.work(0);
    let third = profiler.finish().unwrap().0;
    assert_eq!([&first, &second, &third].map(Profile::total), [CALLS, CALLS, 2 * CALLS]);
    assert_eq!(names(&first), ["helper-1", "wanted-a"]);
    assert_eq!(names(&second), ["helper-1", "other"]);
}

/// Two programs that differ in their name.
struct Pair {
    path: PathBuf,
    programs: [(Child, BufReader<ChildStdout>); 2],
}

impl Pair {
    fn start(test: &str) -> Pair {
        let folder = format!("events/filters/{test}");
        let path = compile::program(&folder, "events/programs/filters.c", &["-O1", "-g", "-pthread"]);
        let start = |name| {
            let mut command = Command::new(&path);
            let mut child = command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            assert_eq!(line(&mut lines), "ready");
            (child, lines)
        };
        let programs = ["wanted-a", "other"].map(start);
        Pair { path, programs }
    }

    /// Returns a builder that samples each call.
    fn builder(&self) -> Builder {
        Profiler::builder().on(Uprobe::entry(&self.path, "called"))
    }

    /// Lets both programs and their children work once, for `spin` ms and their calls. Returns
    /// their CPU time in nanoseconds.
    fn work(&mut self, spin: u32) -> [u64; 2] {
        let children = self.programs.iter_mut().map(|(child, _)| child);
        children.for_each(|child| writeln!(child.stdin.as_mut().unwrap(), "{spin}").unwrap());
        self.programs.each_mut().map(|(_, lines)| line(lines).parse().unwrap())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for (child, _) in &mut self.programs {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// A control group in another one, which are removed in this order.
struct Group([PathBuf; 2]);

impl Group {
    fn new(test: &str) -> Group {
        let Some(root) = cgroup_root() else {
            panic!("there is no hierarchy of control groups of version 2");
        };
        let outer = root.join(format!("ebpf-profiler-{test}-{}", std::process::id()));
        let group = Group([outer.join("inner"), outer]);
        fs::create_dir_all(&group.0[0]).unwrap();
        group
    }

    fn outer(&self) -> &Path {
        &self.0[1]
    }

    /// Moves a process into the inner group.
    fn add(&self, process: &Child) {
        fs::write(self.0[0].join("cgroup.procs"), process.id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The program has ended.
        self.0.iter().for_each(|folder| fs::remove_dir(folder).unwrap_or_default());
    }
}

/// Profiles one turn of a pair.
fn profile_pair(test: &str, with: impl FnOnce(Builder, [&Child; 2]) -> Builder) -> (Profile, Health) {
    let mut pair = Pair::start(test);
    let builder = with(pair.builder(), pair.programs.each_ref().map(|(child, _)| child));
    let profiler = start(builder);
    pair.work(0);
    profiler.finish().unwrap_or_else(|error| panic!("{error}"))
}

fn start(builder: Builder) -> Profiler {
    let builder = builder.ring_size(64 << 20).deadline(Duration::from_secs(120));
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the names of the sampled threads, each once.
fn names(profile: &Profile) -> Vec<String> {
    let mut names: Vec<String> = profile.samples().map(|sample| sample.thread().name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn line(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Returns the mount point of control groups of version 2.
fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|mount| mount.get(2) == Some(&"cgroup2")).map(|mount| PathBuf::from(mount[1]))
}
