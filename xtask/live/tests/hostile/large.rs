//! Files whose tables take long to compile.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::unwind::UnwindCompiler as _;

use crate::scratch::{HANGS, ORDINARY, Process, Scratch};

/// Bytes of code beside an ordinary program's: more than are compiled where all samples would wait.
const PADDING: u64 = 34 << 20;

/// A compiler that is slow with large files stands for a file of gigabytes: it ends when the test says so.
#[test]
#[ignore = "needs root"]
fn large_file_delays_no_other_process() {
    test_needs::root!();
    let (of_large, of_other) = (Scratch::new("large"), Scratch::new("beside-large"));
    let ordinary = Path::new(ORDINARY);
    let padding = of_large.path("padding.s");
    std::fs::write(&padding, format!(".text\n.fill {PADDING}, 1, 0x90\n.section .note.GNU-stack\n")).unwrap();
    let large = of_large.compile(ordinary, &["-O1", &padding]);
    let other = of_other.compile(ordinary, &["-O1"]);
    let gate = Arc::new(Gate::default());
    let before = gate.clone();
    let compiler = move |elf: &Elf| {
        if elf.segments().iter().any(|segment| segment.is_code() && segment.file_size >= PADDING) {
            before.pass();
        }
        ebpf_profiler_unwind::tables().compile(elf)
    };
    let profiler = Profiler::builder().frequency(199).unwind(compiler).start().unwrap();
    let large = Process::start(&mut Command::new(large));
    gate.wait_for_arrival();
    // A process and a file that the profiler sees for the first time now.
    let other = Process::start(&mut Command::new(other));
    std::thread::sleep(Duration::from_secs(2));
    let profile = profiler.take_profile().unwrap();
    let (whole, all) = whole(&profile, &other);
    eprintln!("while a table is compiled: {whole} of {all} samples of another process are whole");
    gate.open();
    assert!(all > 20 && whole * 100 >= all * 95, "{whole} of {all}");
    std::thread::sleep(Duration::from_secs(1));
    drop(profiler.take_profile().unwrap());
    let profile = profiler.run_for(Duration::from_secs(2)).unwrap();
    let (whole, all) = self::whole(&profile, &large);
    eprintln!("with the table: {whole} of {all} samples are whole");
    assert!(all > 20 && whole * 100 >= all * 95, "{whole} of {all}");
}

/// Returns the numbers of whole samples and of all samples of a process.
fn whole(profile: &Profile, process: &Process) -> (u64, u64) {
    let of_process = || profile.samples().filter(|sample| sample.process().pid == process.0.id());
    let whole = of_process().filter(|sample| sample.trace().is_whole());
    (whole.map(|sample| sample.count()).sum(), of_process().map(|sample| sample.count()).sum())
}

/// A gate that is closed at first.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until it is open.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, is_open)| !*is_open).unwrap());
    }

    /// Waits until someone waits.
    fn wait_for_arrival(&self) {
        let state = self.state.lock().unwrap();
        let (state, waited) =
            self.changed.wait_timeout_while(state, HANGS, |(is_there, _)| !*is_there).unwrap();
        drop(state);
        assert!(!waited.timed_out(), "no table of the large file is compiled");
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}
