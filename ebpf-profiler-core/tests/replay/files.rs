//! Names come from the recorded file only, not from another one at its path.

use std::fs;
use std::path::PathBuf;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::sample::{Batch, FileId, Life, LifeEvent};
use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::symbol::{Symbol, Symbolizer};

use crate::world::{AnyFile, CODE, batches, map, program, raw, record, record_with, replay, system, text};

/// A test's file; deleted on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, contents: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("replay-{}-{name}", std::process::id()));
        fs::write(&path, contents).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A symbolizer that names every address after the last byte of its file.
struct LastByte;

impl Symbolizer for LastByte {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        let elf = Elf::open(module.opener.as_ref().unwrap().open().unwrap()).unwrap();
        let last = elf.bytes(elf.size() - 1, 1).unwrap()[0];
        let symbol = Symbol::new(format!("{last:#x}"));
        (0..addresses.len()).for_each(|number| name(number, std::slice::from_ref(&symbol)));
    }

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}
}

/// Returns the name of the first sample's root and the length of its module's build id, with `now`
/// at the path.
fn named(file: &Scratch, was: &[u8], now: Option<&[u8]>) -> (String, usize) {
    let path = file.0.to_str().unwrap();
    let (recording, _) = record(system(path).file(path, was), batches(path));
    match now {
        Some(now) => fs::write(&file.0, now).unwrap(),
        None => fs::remove_file(&file.0).unwrap(),
    }
    let replay = Replay::read(std::io::Cursor::new(recording)).unwrap().symbolizer(LastByte);
    let profile = replay.profile().unwrap();
    let module = &profile.modules()[0];
    assert_eq!(&*module.path, path);
    let leaf = profile.samples().next().unwrap().trace().calls().next().unwrap().to_string();
    (leaf, module.build_id.len())
}

#[test]
fn names_come_from_the_recorded_file() {
    let file = Scratch::new("same", b"");
    assert_eq!(named(&file, &program(1), Some(&program(1))), ("0x90".to_owned(), 20));
}

#[test]
fn missing_or_other_file_gives_no_names() {
    let file = Scratch::new("other", b"");
    let longer = [program(1), vec![0x90]].concat();
    for now in [None, Some(&*program(2)), Some(&*longer), Some(b"no ELF file")] {
        // The placeholder has no contents but zeros, and the build id of the recorded file.
        assert_eq!(named(&file, &program(1), now), ("0x0".to_owned(), 20));
    }
}

#[test]
fn compares_contents_without_build_id() {
    let bare: Vec<u8> = [program(1)[..120].to_vec(), vec![0; 56], vec![0x90; 4096 - 176]].concat();
    let mut changed = bare.clone();
    changed[2000] = 0x91;
    let file = Scratch::new("bare", b"");
    assert_eq!(named(&file, &bare, Some(&bare)), ("0x90".to_owned(), 0));
    assert_eq!(named(&file, &bare, Some(&changed)), ("0x0".to_owned(), 0));
}

#[test]
fn knows_file_opened_for_another_process() {
    const PATH: &str = "/made/up/program";
    // The file is opened for process 7 before the first tick; process 7 never has one. Process 9 maps
    // it too, and process 10 comes later, with the build id of its file from the kernel.
    let system = system(PATH).process(9, PATH, vec![map(PATH, 42)]).memory(9, CODE, &[0x90; 4096]);
    let mut mapping = map(PATH, 42);
    mapping.file = FileId::BuildId([1; 20].into());
    let mut batch = Batch::default();
    batch.push_tick(&raw(100, 9).bytes());
    batch.push_life(LifeEvent { time: 200, pid: 10, life: Life::Executed });
    batch.push_life(LifeEvent { time: 210, pid: 10, life: Life::Mapped(mapping) });
    batch.push_tick(&raw(220, 10).bytes());
    let (recording, texts) = record_with(vec![Box::new(AnyFile)], system, vec![batch]);
    assert!(texts[0].lines().all(|line| line.contains("program+0x8 ")), "{texts:?}");
    assert_eq!(text(&replay(&recording).profile().unwrap()), texts[0]);
}

#[test]
fn claimed_build_id_gives_no_names_to_another_file() {
    const CLAIM: &str = "/home/someone/claims";
    const PROGRAM: &str = "/usr/bin/program";
    // Files of a user and of root have the same build id. The user's is mapped first, by two processes.
    let system = system(CLAIM).foreign_file(CLAIM, &program(1), 5).file(PROGRAM, &program(1));
    let mut batch = Batch::default();
    for (pid, path) in [(10, CLAIM), (11, CLAIM), (12, PROGRAM)] {
        let mut mapping = map(path, 0);
        mapping.file = FileId::BuildId([1; 20].into());
        let time = u64::from(pid) * 100;
        batch.push_life(LifeEvent { time, pid, life: Life::Executed });
        batch.push_life(LifeEvent { time: time + 10, pid, life: Life::Mapped(mapping) });
        batch.push_tick(&raw(time + 20, pid).bytes());
    }
    let (recording, texts) = record(system.memory(12, CODE, &[0x90; 4096]), vec![batch]);
    let profile = replay(&recording).profile().unwrap();
    let paths: Vec<&str> = profile.modules().iter().map(|module| &*module.path).collect();
    assert_eq!(paths, [CLAIM, PROGRAM]);
    assert_eq!(text(&profile), texts[0]);
}
