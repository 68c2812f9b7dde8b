//! Files that profiled programs name: pipes, links, and file systems that a program serves.
//!
//! fanotify tells who opens them.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::processes::{Profile, SECONDS, compile, profile, profile_separately, ready};
use crate::scratch::{NOBODY, Process, Scratch, give_to_nobody};

/// A program that prints the ids of the processes that open files.
struct Watched {
    process: Process,
    pids: Arc<Mutex<HashSet<u32>>>,
}

impl Watched {
    fn new(mut process: Process) -> Watched {
        ready(&mut process);
        let pids = Arc::<Mutex<HashSet<u32>>>::default();
        let (lines, into) = (BufReader::new(process.0.stdout.take().unwrap()).lines(), pids.clone());
        std::thread::spawn(move || {
            for pid in lines.map_while(Result::ok).filter_map(|line| line.parse().ok()) {
                into.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
            }
        });
        Watched { process, pids }
    }

    fn files(scratch: &Scratch, files: &[&str]) -> Watched {
        Watched::new(Process::start(Command::new(compile(scratch, "watch")).args(files)))
    }

    /// Ends the watch. Requires that `other` is among the openers, and no process of the profiler is.
    fn require_not_opened_by(self, profilers: &BTreeSet<u32>, other: u32) {
        std::thread::sleep(Duration::from_millis(200));
        drop(self.process);
        let pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(pids.contains(&other), "the watch saw {pids:?}, not {other}");
        assert!(
            pids.iter().all(|pid| !profilers.contains(pid)),
            "of {profilers:?}, {pids:?} opened the file"
        );
    }
}

/// Opens a file and closes it. Returns the process that did.
fn touch(path: &str) -> u32 {
    let mut command = Command::new("sh");
    let mut child = command.args(["-c", "exec 3<>\"$0\"", path]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

/// Starts a shell script of nobody, as root of a user namespace with mounts of its own.
fn in_namespace(script: &str, arguments: &[&str]) -> Process {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]).args(arguments);
    Process::start(command.uid(NOBODY).gid(NOBODY))
}

#[test]
#[ignore = "needs root"]
fn a_file_of_the_host_is_not_opened_by_the_name_of_one_in_a_namespace() {
    test_needs::root!();
    require_host_is_not_opened(profile);
}

#[test]
#[ignore = "needs root"]
fn a_broker_opens_no_file_of_the_host_by_the_name_of_one_in_a_namespace() {
    test_needs::root!();
    require_host_is_not_opened(profile_separately);
}

fn require_host_is_not_opened(profile: impl Fn(&Scratch, u64) -> Profile) {
    let scratch = Scratch::new("namespace");
    let program = compile(&scratch, "ordinary");
    let folder = scratch.path("dev");
    fs::create_dir(&folder).unwrap();
    // Stands for a device: the kernel reports no opening of a device.
    let pipe = scratch.pipe("dev/pipe");
    let watched = Watched::files(&scratch, &[&pipe]);
    let script = "mount -t tmpfs none \"$2\"; cp \"$1\" \"$2/pipe\"; exec \"$2/pipe\"";
    let mut attacker = in_namespace(script, &[program.to_str().unwrap(), &folder]);
    ready(&mut attacker);
    let profile = profile(&scratch, SECONDS);
    let opener = touch(&pipe);
    drop(attacker);
    watched.require_not_opened_by(&profile.pids, opener);
    // The file of that name in the namespace has names.
    assert!(
        profile.folded.lines().any(|line| line.starts_with("pipe;") && line.contains(";first;second;third"))
    );
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn links_to_pipes_in_the_place_of_files_are_not_opened() {
    test_needs::root!();
    test_needs::programs!("objcopy");
    require_links_are_not_opened(profile);
}

#[test]
#[ignore = "needs root"]
fn a_broker_opens_no_links_to_pipes_in_the_place_of_files() {
    test_needs::root!();
    test_needs::programs!("objcopy");
    require_links_are_not_opened(profile_separately);
}

fn require_links_are_not_opened(profile: impl Fn(&Scratch, u64) -> Profile) {
    let scratch = Scratch::new("replaced");
    let program = compile(&scratch, "ordinary");
    let pipe = scratch.pipe("pipe");
    let watched = Watched::files(&scratch, &[&pipe]);
    // Its own file, the debug file that it links to, and its perf map.
    let own = scratch.path("attacker");
    fs::copy(&program, &own).unwrap();
    let link = format!("--add-gnu-debuglink={}", program.display());
    assert!(Command::new("objcopy").args(["--strip-debug", &link, &own]).status().unwrap().success());
    let mut attacker = Process::start(&mut Command::new(&own));
    ready(&mut attacker);
    let map = format!("/tmp/perf-{}.map", attacker.0.id());
    let debug = scratch.path(".debug");
    fs::create_dir_all(&debug).unwrap();
    fs::remove_file(&own).unwrap();
    for name in [&own, &map, &format!("{debug}/ordinary")] {
        std::os::unix::fs::symlink(&pipe, name).unwrap();
    }
    let profile = profile(&scratch, SECONDS);
    fs::remove_file(map).unwrap();
    let opener = touch(&pipe);
    drop(attacker);
    watched.require_not_opened_by(&profile.pids, opener);
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn a_file_that_a_program_serves_is_not_opened() {
    test_needs::root!();
    if !Path::new("/dev/fuse").exists() {
        return eprintln!("no /dev/fuse: nothing is tested");
    }
    let scratch = Scratch::new("served");
    let program = compile(&scratch, "ordinary");
    let folder = scratch.path("mount");
    fs::create_dir(&folder).unwrap();
    give_to_nobody(&folder);
    let mut server = Command::new(compile(&scratch, "fuse"));
    let watched = Watched::new(Process::start(server.arg(&folder).arg(&program)));
    let mounted = Mounted(&folder);
    let mut attacker = Process::start(&mut Command::new(format!("{folder}/file")));
    ready(&mut attacker);
    let profile = profile(&scratch, SECONDS);
    let opener = attacker.0.id();
    drop(attacker);
    assert!(profile.folded.lines().any(|line| line.starts_with("file;")), "{}", profile.folded);
    watched.require_not_opened_by(&profile.pids, opener);
    drop(mounted);
    profile.require_ordinary();
}

/// A folder that is unmounted at the end.
struct Mounted<'a>(&'a str);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", self.0]).status();
    }
}

#[test]
#[ignore = "needs root"]
fn memory_of_a_program_that_never_answers_stalls_nobody() {
    test_needs::root!();
    require_absent_memory_stalls_nobody(profile);
}

#[test]
#[ignore = "needs root"]
fn memory_that_never_comes_stalls_nobody_with_a_broker() {
    test_needs::root!();
    require_absent_memory_stalls_nobody(profile_separately);
}

fn require_absent_memory_stalls_nobody(profile: impl Fn(&Scratch, u64) -> Profile) {
    let scratch = Scratch::new("absent");
    let program = compile(&scratch, "absent");
    let attackers = [(); 3].map(|()| {
        let mut attacker = Process::start(&mut Command::new(&program));
        ready(&mut attacker);
        attacker
    });
    let profile = profile(&scratch, SECONDS);
    assert!(profile.folded.lines().any(|line| line.starts_with("absent;")), "{}", profile.folded);
    drop(attackers);
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn a_file_system_that_never_answers_stalls_nobody() {
    test_needs::root!();
    if !Path::new("/dev/fuse").exists() {
        return eprintln!("no /dev/fuse: nothing is tested");
    }
    let scratch = Scratch::new("stalled_files");
    let folder = scratch.path("mount");
    fs::create_dir(&folder).unwrap();
    let large = scratch.path("large");
    fs::write(&large, vec![0; 4 << 20]).unwrap();
    let mut server = Command::new(compile(&scratch, "fuse"));
    let mut server = Process::start(server.args([&folder, &large, "stalls"]));
    ready(&mut server);
    let mounted = Mounted(&folder);
    let program = compile(&scratch, "absent");
    let attackers = [(); 3].map(|()| {
        let mut command = Command::new(&program);
        let mut attacker = Process::start(command.arg(format!("{folder}/file")));
        ready(&mut attacker);
        attacker
    });
    let profile = profile(&scratch, SECONDS);
    assert!(profile.folded.lines().any(|line| line.starts_with("absent;")), "{}", profile.folded);
    // Its end ends all that waits for it.
    drop(server);
    drop((attackers, mounted));
    profile.require_ordinary();
}
