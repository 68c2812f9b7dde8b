//! Damaged and malicious files: names may be missing, but nothing panics, and all work is bounded.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::symbol::{SymbolOptions, SymbolStats, Symbolizer, Symbols};

use crate::program::Program;

/// Upper bound per file, in a build without optimization on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(20);

fn module(bytes: Arc<[u8]>) -> Module {
    let mut module = Module::new("/nowhere/program");
    module.opener = Some(Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadAt>)));
    module
}

fn options() -> SymbolOptions {
    let mut options = SymbolOptions::default();
    options.debug_files = false;
    options
}

/// Symbolizes addresses inside and outside of a file.
fn ask(module: &Module, addresses: &[u64]) -> SymbolStats {
    let mut symbols = Symbols::new(options());
    let start = Instant::now();
    symbols.native(module, addresses, &mut |_, functions| assert!(functions.len() <= 257));
    symbols.starts(module, addresses, &mut |number, start| assert!(start <= addresses[number]));
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    symbols.stats()
}

fn addresses(program: &Program) -> Vec<u64> {
    let mut addresses: Vec<u64> = program.addresses(".text").into_iter().step_by(7).collect();
    addresses.extend([u64::MAX - 1, u64::MAX]);
    addresses.insert(0, 0);
    addresses
}

/// Pseudo-random numbers, equal in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Returns offset and length of the parts of a file that are parsed here.
fn parsed_parts(elf: &Elf) -> Vec<(u64, u64)> {
    let is_parsed = |name: &str| {
        let others = [".symtab", ".strtab", ".plt", ".rela.plt", ".dynsym", ".eh_frame_hdr", ".eh_frame"];
        name.starts_with(".debug_") || others.contains(&name)
    };
    let sections = elf.sections().iter().filter(|section| is_parsed(&section.name) && section.size > 0);
    let headers =
        [(0, 64), (elf.size() - 64 * elf.sections().len() as u64, 64 * elf.sections().len() as u64)];
    sections.map(|section| (section.offset, section.size)).chain(headers).collect()
}

fn mutate(program: &Program, rounds: u64) {
    let elf = program.elf();
    let parts = parsed_parts(&elf);
    let original = std::fs::read(&program.path).expect("a program");
    let addresses = addresses(program);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut lines = 0;
    for _ in 0..rounds {
        let mut bytes = original.clone();
        for _ in 0..1 + random.below(8) {
            let (offset, size) = parts[random.below(parts.len() as u64) as usize];
            let at = (offset + random.below(size)) as usize;
            bytes[at] = match random.below(4) {
                0 => 0xff,
                1 => 0,
                2 => bytes[at] ^ (1 << random.below(8)),
                _ => random.below(256) as u8,
            };
        }
        lines += ask(&module(bytes.into()), &addresses).lines;
    }
    assert!(lines > 0, "every mutation destroyed all lines, so nothing behind the headers was tried");
}

#[test]
fn changed_bytes() {
    test_needs::programs!("g++", "gcc");
    mutate(&Program::compile("changed-c", "plain.c", &["-g", "-O2"]), 400);
    mutate(&Program::compile("changed-cpp", "objects.cpp", &["-g", "-O2"]), 60);
    mutate(&Program::compile("changed-older", "plain.c", &["-gdwarf-4", "-O2"]), 200);
}

#[test]
fn changed_bytes_of_compressed_sections() {
    test_needs::programs!("gcc");
    let program = Program::compile("changed-compressed", "plain.c", &["-g", "-O2", "-gz=zlib"]);
    mutate(&program, 200);
}

#[test]
fn cut_files() {
    test_needs::programs!("gcc");
    let program = Program::compile("cut", "plain.c", &["-g", "-O2"]);
    let original = std::fs::read(&program.path).expect("a program");
    let addresses = addresses(&program);
    for size in (0..original.len()).step_by(97) {
        ask(&module(original[..size].into()), &addresses);
    }
}

/// A file that is truncated after some reads, but reports its old size.
struct Shrinking {
    bytes: Arc<[u8]>,
    reads: AtomicU64,
}

impl ReadAt for Shrinking {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.reads.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.reads.store(0, Ordering::Relaxed);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Cursor::new(&self.bytes).read_at(offset, buffer)
    }
}

#[test]
fn files_cut_while_they_are_read() {
    test_needs::programs!("g++");
    let program = Program::compile("shrinking", "objects.cpp", &["-g", "-O2"]);
    let bytes: Arc<[u8]> = std::fs::read(&program.path).expect("a program").into();
    let addresses = addresses(&program);
    let mut whole = 0;
    for reads in 0..150 {
        let mut module = Module::new("/nowhere/program");
        let bytes = bytes.clone();
        module.opener = Some(Arc::new(move || {
            Ok(Box::new(Shrinking { bytes: bytes.clone(), reads: AtomicU64::new(reads) }) as Box<dyn ReadAt>)
        }));
        whole += u64::from(ask(&module, &addresses).lines > 0);
    }
    assert!(whole > 0);
}

/// A file followed by a terabyte of zeros.
struct Hollow(Arc<[u8]>);

impl ReadAt for Hollow {
    fn size(&self) -> io::Result<u64> {
        Ok(1 << 41)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let held = self.0.get(offset.min(self.0.len() as u64) as usize..).unwrap_or_default();
        let held = &held[..held.len().min(buffer.len())];
        buffer.fill(0);
        buffer[..held.len()].copy_from_slice(held);
        Ok(())
    }
}

#[test]
fn sections_of_a_terabyte() {
    test_needs::programs!("gcc");
    let program = Program::compile("hollow", "plain.c", &["-g", "-O2"]);
    let original = std::fs::read(&program.path).expect("a program");
    let headers = u64::from_le_bytes(original[40..48].try_into().expect("eight bytes")) as usize;
    let elf = program.elf();
    for (number, section) in elf.sections().iter().enumerate().skip(1) {
        let is_read = section.name.starts_with(".debug_")
            || [".symtab", ".strtab", ".plt", ".rela.plt", ".dynsym"].contains(&&*section.name);
        if !is_read {
            continue;
        }
        let mut bytes = original.clone();
        let size = headers + number * 64 + 32;
        bytes[size..size + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
        let bytes: Arc<[u8]> = bytes.into();
        let mut module = Module::new("/nowhere/program");
        module.opener = Some(Arc::new(move || Ok(Box::new(Hollow(bytes.clone())) as Box<dyn ReadAt>)));
        let start = Instant::now();
        ask(&module, &addresses(&program));
        println!("{} {:?}", section.name, start.elapsed());
    }
}

#[test]
fn entries_nested_as_deep_as_the_file_is_long() {
    test_needs::programs!("gcc");
    let program = Program::compile("nested", "nested.s", &["-nostdlib", "-static"]);
    let stats = ask(&program.module(), &program.addresses(".text"));
    assert!(stats.inlined > 0, "{stats:?}");
}

#[test]
fn lists_that_are_referred_to_from_everywhere() {
    test_needs::programs!("gcc");
    let program = Program::compile("lists", "lists.s", &["-nostdlib", "-static"]);
    let stats = ask(&program.module(), &program.addresses(".text"));
    assert!(stats.malformed > 0, "the work wasn't bounded: {stats:?}");
}
