//! Containers of samples, in control groups of the test's own.
//!
//! Needs root: `cargo test -p live-suite --test containers -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Enrichment};
use ebpf_profiler_core::profile::{Process, Profile};
use ebpf_profiler_core::symbol::NoSymbols;

const POD: &str = "2b7f3d9c-8a1e-4c55-9f0d-6e1a2b3c4d5e";

/// Time that a container lives.
const LIFE: Duration = Duration::from_millis(50);

/// A control group that is removed with its parents of this test.
struct Group(Vec<PathBuf>);

impl Group {
    fn new(root: &Path, path: &str) -> Group {
        let mut folders = vec![root.to_owned()];
        for part in path.split('/') {
            folders.push(folders.last().unwrap().join(part));
            let _ = fs::create_dir(folders.last().unwrap());
        }
        Group(folders.split_off(1))
    }

    /// Starts a program that is in the group before it begins.
    fn run(&self, program: &mut Command) -> Child {
        let tasks = self.0.last().unwrap().join("cgroup.procs");
        // SAFETY: a write to a file; the path was allocated before.
        unsafe { program.pre_exec(move || fs::write(&tasks, "0")) };
        program.spawn().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // Its processes are gone once the kernel has noticed.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Returns the root of version 2, and that of one hierarchy of version 1, which are there.
fn roots() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root = |kind: &str, option: &str| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut roots = fields.filter(|it| it[2] == kind && it[3].split(',').any(|it| it == option));
        roots.next().map(|fields| PathBuf::from(fields[1]))
    };
    root("cgroup2", "rw").into_iter().chain(root("cgroup", "pids")).collect()
}

fn busy() -> Command {
    let mut program = Command::new("sh");
    program.args(["-c", "while :; do :; done"]);
    program
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn start(builder: Builder) -> Profiler {
    let builder = builder.frame_pointers_only().frequency(997).symbolizer(NoSymbols);
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the processes of a program, each with its number of samples.
fn processes<'p>(profile: &'p Profile, name: &str) -> Vec<(&'p Process, u64)> {
    let samples = profile.samples().filter(|sample| &*sample.thread().name == name);
    samples.map(|sample| (sample.process(), sample.count())).collect()
}

#[test]
#[ignore = "needs root"]
fn container_of_50_ms_has_its_id_on_all_samples() {
    test_needs::root!();
    const CONTAINERS: usize = 40;
    for root in roots() {
        let profiler = start(Profiler::builder());
        let mut ids = Vec::new();
        for number in 0..CONTAINERS {
            let id = format!("{:064x}", 0xc0de_0000 + number);
            let unit = POD.replace('-', "_");
            let path = format!("kubepods.slice/kubepods-pod{unit}.slice/cri-containerd-{id}.scope");
            let group = Group::new(&root, &path);
            let child = group.run(&mut busy());
            std::thread::sleep(LIFE);
            ids.push((child.id(), id, path));
            end(child);
        }
        let (profile, health) = profiler.finish().unwrap();
        let (mut samples, mut sampled) = (0, 0);
        for (pid, id, path) in &ids {
            let of_it: Vec<_> =
                processes(&profile, "sh").into_iter().filter(|(process, _)| process.pid == *pid).collect();
            for (process, count) in &of_it {
                assert_eq!((&*process.container, &*process.pod), (id.as_str(), POD), "{process:?}");
                assert_eq!(process.cgroup.trim_start_matches('/'), path);
                samples += count;
            }
            sampled += usize::from(!of_it.is_empty());
        }
        println!("{}: {samples} samples of {sampled} containers, {} lost", root.display(), health.lost);
        assert!(sampled > CONTAINERS / 2, "{sampled}");
    }
}

/// An ordinary process of the host is in no container.
#[test]
#[ignore = "needs root"]
fn process_has_parent_user_and_what_was_requested() {
    test_needs::root!();
    let host = busy().env("SERVICE", "shop").env("SECRET", "hidden").spawn().unwrap();
    let mut other = Command::new("unshare");
    other.args(["--pid", "--fork", "--kill-child", "sh", "-c", "while :; do :; done"]);
    let other = other.env_remove("SERVICE").spawn().unwrap();
    let profiler = start(Profiler::builder().environment(["SERVICE"]));
    std::thread::sleep(Duration::from_millis(600));
    let (profile, _) = profiler.finish().unwrap();
    let found = processes(&profile, "sh");
    let (process, _) = found.iter().find(|(process, _)| process.pid == host.id()).unwrap();
    assert_eq!(
        (process.parent, process.user, process.namespace_pid),
        (std::process::id(), Some(0), host.id())
    );
    assert_eq!(process.environment, [("SERVICE".into(), "shop".into())]);
    assert_eq!((&*process.container, &*process.pod, &*process.command_line), ("", "", ""));
    assert!(process.created > 0 && process.cgroup.starts_with('/'));
    let inner = found.iter().find(|(process, _)| process.parent == other.id());
    let (inner, _) = inner.unwrap();
    assert_eq!((inner.namespace_pid, inner.environment.len()), (1, 0));
    assert_ne!(inner.pid, 1);
    end(host);
    end(other);
}

/// The hook never returns for one process; profiles go on, and the others have its answers.
#[test]
#[ignore = "needs root"]
fn hook_that_blocks_delays_neither_profiles_nor_the_end() {
    test_needs::root!();
    let (named, blocking) = (busy().spawn().unwrap(), busy().spawn().unwrap());
    let (first, second) = (named.id(), blocking.id());
    let (_open, shut) = channel::<()>();
    let hook = move |process: &Process| {
        if process.pid == second {
            let _ = shut.recv();
        }
        Enrichment::new().attribute("service.name", "shop").label("tenant", "blue")
    };
    let profiler = start(Profiler::builder().pids([first]).enrich(hook));
    std::thread::sleep(Duration::from_millis(500));
    let alone = profiler.set_pids([first, second]).unwrap().profile;
    std::thread::sleep(Duration::from_millis(500));
    let both = profiler.take_profile().unwrap();
    let health = profiler.stop().unwrap();
    assert!(health.deadline.threads.is_empty(), "{health:?}");
    let service = |profile: &Profile, pid: u32| {
        let mut samples = profile.samples().filter(|sample| sample.process().pid == pid);
        samples.next().map(|it| (it.process().attributes.len(), it.labels().get("tenant").is_some()))
    };
    assert_eq!(service(&alone, first), Some((1, true)));
    assert_eq!((service(&both, first), service(&both, second)), (Some((1, true)), Some((0, false))));
    let stats = health.enrichment.unwrap();
    assert!(stats.calls >= 1 && stats.late >= 1, "{stats:?}");
    end(named);
    end(blocking);
}
