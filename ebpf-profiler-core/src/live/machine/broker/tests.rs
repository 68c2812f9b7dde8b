//! Requests of all sorts to a broker.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::fs::{CWD, Mode};
use rustix::thread::CapabilitySet;

use super::message::{MAX_ANSWER, MAX_REQUEST, decode_answer, decode_request, encode_request};
use super::{Broker, serve, socket};
use crate::live::LiveSystem;
use crate::live::machine::access::{Access, Opened, ProcFile, Request};
use crate::live::machine::capability;
use crate::live::machine::mapped_file::Mapping;
use crate::process::System;
use crate::sample::FileId;

const NOBODY: u32 = 65534;

/// Starts a broker that is this test program, running [`serves_as_the_broker_of_other_tests`] alone.
fn broker() -> Broker {
    let test = concat!(module_path!(), "::serves_as_the_broker_of_other_tests");
    let (_, test) = test.split_once("::").unwrap();
    Broker::spawn_with(&["--ignored", "--exact", "--test-threads=1", test]).unwrap()
}

#[test]
#[ignore = "it is the broker of other tests"]
fn serves_as_the_broker_of_other_tests() {
    Broker::serve_if_asked();
}

/// A process of nobody.
struct Other(Child);

impl Other {
    fn start() -> Other {
        Other::run("echo; read line; :")
    }

    /// Runs a script that prints a line when it is ready.
    fn run(script: &str) -> Other {
        let mut command = Command::new("sh");
        command.args(["-c", script]).uid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = Other(command.spawn().unwrap());
        other.wait();
        other
    }

    fn wait(&mut self) {
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it in a thread without privileges. Since Linux 6.13, `CAP_PERFMON` opens `maps`, too.
fn unprivileged<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(|| {
        capability::restrict(CapabilitySet::empty()).unwrap();
        run()
    })
    .join()
    .unwrap()
}

fn mapping(pid: u32, file: FileId, path: &str) -> Request {
    let is_proven = OnceLock::new();
    let (range, path) = ((0x1000, 0x2000), path.into());
    Request::MappedFile(Arc::new(Mapping { pid, range, file, path, any_file_system: false, is_proven }))
}

/// Returns the identity of a file.
fn inode(path: &str) -> FileId {
    let file = fs::metadata(path).unwrap();
    FileId::Inode { device: (libc::major(file.dev()), libc::minor(file.dev())), inode: file.ino() }
}

/// The other end of a connection, served by a thread.
fn connection() -> OwnedFd {
    let (ours, theirs) = socket::pair().unwrap();
    std::thread::spawn(move || serve::answer_all(&theirs));
    ours
}

fn ask(connection: &OwnedFd, bytes: &[u8]) -> io::Result<Opened> {
    socket::send(connection, bytes, None).unwrap();
    let mut answer = [0; MAX_ANSWER];
    let (length, descriptor) = socket::receive(connection, &mut answer).unwrap();
    assert!(length > 0, "the connection was closed");
    decode_answer(&answer[..length], descriptor)
}

fn request(connection: &OwnedFd, request: &Request) -> io::Result<Opened> {
    ask(connection, &encode_request(request).unwrap())
}

#[test]
fn kernel_checks_access_at_the_opening_of_a_file_and_not_at_a_read() {
    test_needs::root!();
    let other = Other::start();
    let pid = other.0.id();
    let open = move |file| Access::Own.proc_file(pid, file);
    let files = [ProcFile::Maps, ProcFile::Memory, ProcFile::Pagemap].map(|file| open(file).unwrap());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let start = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
    unprivileged(move || {
        for file in [ProcFile::Maps, ProcFile::Memory, ProcFile::Pagemap, ProcFile::Environment] {
            let error = open(file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{file:?}");
        }
        let [mut list, memory, pagemap] = files;
        let (mut text, mut bytes) = (String::new(), [0; 8]);
        list.read_to_string(&mut text).unwrap();
        assert_eq!(text, maps);
        memory.read_exact_at(&mut bytes, start).unwrap();
        assert_eq!(bytes[..4], *b"\x7fELF");
        pagemap.read_exact_at(&mut bytes, start / 4096 * 8).unwrap();
        assert_eq!(bytes[7] >> 7, 1, "the page is present");
        assert!(memory.write_at(&[0], start).is_err());
    });
}

#[test]
fn system_with_a_broker_reads_what_it_may_not_open() {
    test_needs::root!();
    let (other, broker) = (Other::start(), broker());
    let pid = other.0.id();
    let expected = LiveSystem::default().mappings(pid).unwrap();
    let stats = unprivileged(move || {
        let own = LiveSystem::default();
        assert!(own.mappings(pid).is_err() && own.read(pid, expected[0].start, &mut [0; 4]).is_err());
        let names = ["PATH".to_owned()];
        let system = LiveSystem::default().with_environment(&names).with_broker(Some(&broker));
        let maps = system.mappings(pid).unwrap();
        assert_eq!(maps, expected);
        let description = system.describe(pid);
        assert!(!description.executable.is_empty() && !description.environment.is_empty(), "{description:?}");
        for map in &maps {
            let mut code = [0; 16];
            system.read(pid, map.start, &mut code).unwrap();
            if map.path.starts_with('/') {
                let mut bytes = [0; 16];
                system.opener(pid, map).open().unwrap().read_at(map.offset, &mut bytes).unwrap();
                assert_eq!(bytes, code, "{map:?}");
            }
        }
        // Kept open.
        let before = broker.stats().answered;
        for _ in 0..100 {
            system.read(pid, maps[0].start, &mut [0; 4]).unwrap();
        }
        assert!(broker.stats().answered <= before + 1);
        assert!(system.read(pid, 0x1000, &mut [0; 4]).is_err());
        assert_eq!(system.abandoned(), 0);
        broker.stats()
    });
    assert!(stats.is_running && stats.answered > 5 && stats.unanswered == 0, "{stats:?}");
}

/// The kept memory is that before the exec.
#[test]
fn memory_after_an_exec_is_that_of_the_new_program() {
    test_needs::root!();
    let (mut other, broker) = (Other::run("echo; read line; exec sh -c 'echo; read line; :'"), broker());
    let pid = other.0.id();
    let system = LiveSystem::default().with_broker(Some(&broker));
    let before = system.mappings(pid).unwrap();
    system.read(pid, before[0].start, &mut [0; 4]).unwrap();
    writeln!(other.0.stdin.as_mut().unwrap()).unwrap();
    other.wait();
    let after = system.mappings(pid).unwrap();
    assert_ne!(before[0].start, after[0].start);
    let mut code = [0; 4];
    system.read(pid, after[0].start, &mut code).unwrap();
    assert!(system.read(pid, before[0].start, &mut code).is_err());
}

#[test]
fn requests_and_answers_are_the_same_after_their_way() {
    let files = [
        FileId::Anonymous,
        FileId::Inode { device: (8, 1), inode: u64::MAX },
        FileId::InodeGeneration { device: (0, 52), inode: 7, generation: 9 },
        FileId::BuildId([7; 20].into()),
    ];
    let mut requests: Vec<Request> = files.into_iter().map(|file| mapping(4711, file, "/a/b c")).collect();
    for file in [ProcFile::Maps, ProcFile::Memory, ProcFile::Pagemap, ProcFile::Environment] {
        requests.push(Request::Proc(1, file));
    }
    requests.push(Request::Executable(u32::MAX));
    requests.push(Request::PerfMap { pid: 2, any_file_system: true });
    for request in requests {
        let decoded = decode_request(&encode_request(&request).unwrap()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{request:?}"));
    }
    let long = mapping(1, FileId::Anonymous, &"x".repeat(4097));
    assert!(encode_request(&long).is_none());
    let own = connection();
    let Opened::Text(path) = request(&own, &Request::Executable(std::process::id())).unwrap() else {
        unreachable!("no path");
    };
    assert_eq!(Path::new(&*path).file_name(), std::env::current_exe().unwrap().file_name());
    let gone = request(&own, &Request::Executable(u32::MAX)).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn only_mapped_files_and_code_are_opened() {
    let folder = std::env::temp_dir().join(format!("broker-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("secret"), "a secret that is no code").unwrap();
    rustix::fs::mkfifoat(CWD, path("pipe"), Mode::RUSR).unwrap();
    let program = std::env::current_exe().unwrap();
    fs::copy(&program, path("program")).unwrap();
    std::os::unix::fs::symlink(path("program"), path("link")).unwrap();
    let (own, pid) = (connection(), std::process::id());
    let open = |name: &str| request(&own, &mapping(pid, inode(&path(name)), &path(name))).map(drop);
    assert!(open("program").is_ok());
    let kind = |name| open(name).unwrap_err().kind();
    assert_eq!(kind("secret"), io::ErrorKind::PermissionDenied);
    assert_eq!(kind("pipe"), io::ErrorKind::InvalidInput);
    open("link").unwrap_err();
    for outside in ["/dev/null", "/dev/ptmx", "/proc/kmsg", "/etc"] {
        request(&own, &mapping(pid, inode(outside), outside)).unwrap_err();
    }
    let other = mapping(pid, FileId::BuildId([7; 20].into()), &path("program"));
    request(&own, &other).unwrap_err();
    fs::remove_dir_all(folder).unwrap();
}

/// Returns numbers that look random, the same each time.
fn numbers(mut seed: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    })
}

#[test]
fn any_bytes_get_an_answer_and_cost_no_descriptor() {
    let (own, valid) = (connection(), encode_request(&mapping(1, inode("/"), "/x")).unwrap());
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, mut random) = (descriptors(), numbers(35));
    let mut next = || random.next().unwrap() as usize;
    for turn in 0..2000 {
        let mut bytes = valid.clone();
        match turn % 4 {
            0 => bytes.truncate(next() % valid.len()),
            1 => bytes = (0..next() % (2 * MAX_REQUEST)).map(|_| next() as u8).collect(),
            2 => (0..8).for_each(|_| bytes[next() % 24] = next() as u8),
            _ => bytes.extend((0..next() % 5000).map(|_| next() as u8)),
        }
        if bytes.is_empty() {
            continue;
        }
        // A descriptor that comes with it is closed.
        let file = File::open("/proc/self/maps").unwrap();
        socket::send(&own, &bytes, Some(file.as_fd())).unwrap();
        let mut answer = [0; MAX_ANSWER];
        let (length, descriptor) = socket::receive(&own, &mut answer).unwrap();
        assert!(length >= 8);
        drop(decode_answer(&answer[..length], descriptor));
    }
    // Other tests open files meanwhile.
    assert!(descriptors() < before + 200, "{before}, {}", descriptors());
    assert!(request(&own, &Request::Proc(std::process::id(), ProcFile::Maps)).is_ok());
}

#[test]
fn connections_beyond_the_limit_are_closed_and_others_served() {
    let (main, theirs) = socket::pair().unwrap();
    std::thread::spawn(move || serve::accept(&theirs));
    assert_eq!(socket::receive(&main, &mut [0; 8]).unwrap().0, 1, "it is ready");
    // Neither has a descriptor.
    socket::send(&main, &[0; 100], None).unwrap();
    let connections: Vec<OwnedFd> = (0..100)
        .map(|_| {
            let (ours, theirs) = socket::pair().unwrap();
            socket::send(&main, &[1], Some(theirs.as_fd())).unwrap();
            ours
        })
        .collect();
    let bytes = encode_request(&Request::Proc(std::process::id(), ProcFile::Maps)).unwrap();
    let answers = connections.iter().filter(|connection| {
        let is_sent = socket::send(connection, &bytes, None).is_ok();
        is_sent && matches!(socket::receive(connection, &mut [0; MAX_ANSWER]), Ok((1.., Some(_))))
    });
    assert_eq!(answers.count(), serve::MAX_CONNECTIONS);
    drop(connections);
}

#[test]
fn end_of_a_broker_is_noticed_and_own_privileges_are_left() {
    let broker = broker();
    let (pid, system) = (std::process::id(), LiveSystem::default().with_broker(Some(&broker)));
    assert!(!system.mappings(pid).unwrap().is_empty());
    broker.lock().kill().unwrap();
    broker.lock().wait().unwrap();
    assert!(!system.mappings(pid).unwrap().is_empty());
    let there = 7_u64;
    let mut word = [0; 8];
    system.read(pid, &raw const there as u64, &mut word).unwrap();
    assert_eq!(u64::from_ne_bytes(word), 7);
    assert!(!broker.stats().is_running);
    // This thread is not the only one.
    assert!(broker.drop_privileges().unwrap_err().to_string().contains("other threads"));
}

#[test]
#[ignore = "measures"]
fn cost_of_a_broker() {
    let broker = broker();
    let (own, with) = (LiveSystem::default(), LiveSystem::default().with_broker(Some(&broker)));
    let there = vec![1_u8; 64 << 20];
    let (pid, base) = (std::process::id(), there.as_ptr() as u64);
    let map = own.mappings(pid).unwrap().into_iter().find(|map| map.path.starts_with('/')).unwrap();
    let nanoseconds = |times: u32, mut call: Box<dyn FnMut() + '_>| {
        let begun = Instant::now();
        (0..times).for_each(|_| call());
        begun.elapsed().as_nanos() as f64 / f64::from(times)
    };
    let pids = own.processes();
    for _ in 0..3 {
        let mut costs = Vec::new();
        for system in [&own, &with] {
            let (mut bytes, mut turn) = ([0; 8], 0);
            let read = nanoseconds(
                300_000,
                Box::new(|| {
                    turn += 1;
                    // A name takes some 30 reads in five places.
                    let at = base + (turn / 30 * 7919 + turn % 5 * 104_729) % (63 << 20);
                    system.read(pid, at, &mut bytes).unwrap();
                }),
            );
            let open = nanoseconds(3000, Box::new(|| drop(system.opener(pid, &map).open().unwrap())));
            let scan = nanoseconds(3, Box::new(|| pids.iter().for_each(|&pid| drop(system.mappings(pid)))));
            costs.push([read, open, scan]);
        }
        for (index, what) in ["read", "open a file", "scan"].iter().enumerate() {
            let (own, with) = (costs[0][index], costs[1][index]);
            eprintln!("{what}: {own:.0} ns, {with:.0} ns with a broker: {:.2}", with / own);
        }
    }
    eprintln!("a scan reads the mappings of {} processes", pids.len());
}
