//! Constructed core dumps: their contents are found, and missing parts are reported.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod damage;
mod file;
mod files;
mod library;
mod memory;
mod seeds;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::trace::Stack;
use ebpf_profiler_unwind::core_dump::CoreError;
use ebpf_programs::abi::registers::{aarch64, x86_64};
use file::{AARCH64, CoreFile, X86_64};

#[test]
fn threads_of_x86_64() {
    let words: Vec<u64> = (100..127).collect();
    let dump = CoreFile::new(X86_64).thread(7, &words).thread(8, &words).open().unwrap();
    assert_eq!(dump.arch(), Arch::X86_64);
    assert_eq!(dump.threads().iter().map(|thread| thread.id).collect::<Vec<_>>(), [7, 8]);
    let thread = dump.threads()[0];
    assert_eq!(thread.signal, 11);
    assert_eq!(thread.registers.pc, 116);
    assert_eq!(thread.registers.known, 0xffff);
    assert_eq!(thread.registers.values[x86_64::SP], 119);
    assert_eq!(thread.registers.values[x86_64::FP], 104);
    // rax, rbx, r15
    let others = [0, 3, 15].map(|number| thread.registers.values[number]);
    assert_eq!(others, [110, 105, 100]);
}

#[test]
fn threads_of_arm64() {
    let words: Vec<u64> = (100..134).collect();
    let dump = CoreFile::new(AARCH64).thread(7, &words).open().unwrap();
    let registers = dump.threads()[0].registers;
    assert_eq!((registers.pc, registers.known), (132, 0xffff_ffff));
    assert_eq!(registers.values[aarch64::FP], 129);
    assert_eq!(registers.values[aarch64::LR], 130);
    assert_eq!(registers.values[aarch64::SP], 131);
}

#[test]
fn the_process() {
    let mut info = vec![0; 136];
    info[24..28].copy_from_slice(&4321u32.to_le_bytes());
    info[40..46].copy_from_slice(b"python");
    let dump = CoreFile::new(X86_64).note(3, &info).thread(7, &[0; 27]).open().unwrap();
    assert_eq!((dump.process().id, &*dump.process().name), (4321, "python"));
}

#[test]
fn what_is_no_core_dump_is_refused() {
    let error = CoreFile::new(X86_64).open().unwrap_err();
    assert_eq!(error, CoreError::NoThreads);
    let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let error = ebpf_profiler_unwind::core_dump::CoreDump::open(program).unwrap_err();
    assert_eq!(error, CoreError::NotCore);
    assert_eq!(
        CoreFile::new(3).open().unwrap_err().to_string(),
        "not a core dump: unsupported ELF file: machine 3"
    );
}

#[test]
fn notes_that_are_too_short_are_counted() {
    let dump = CoreFile::new(X86_64).thread(7, &[0; 26][..20]).thread(8, &[0; 27]).open().unwrap();
    assert_eq!(dump.threads().len(), 1);
    assert_eq!(dump.gaps().notes, 1);
}

#[test]
fn memory_is_read_across_segments() {
    let file = CoreFile::new(X86_64).thread(7, &[0; 27]);
    let file = file.segment(0x2000, 6, &[2; 16], 16).segment(0x1ff0, 6, &[1; 16], 16);
    let dump = file.open().unwrap();
    let mut memory = dump.memory();
    assert_eq!(memory.read(0x1ffc), Some(0x0202_0202_0101_0101));
    assert_eq!(memory.read(0x2008), Some(0x0202_0202_0202_0202));
    for outside in [0x1fef, 0x2009, 0, u64::MAX, u64::MAX - 7] {
        assert_eq!(memory.read(outside), None, "{outside:#x}");
    }
}
