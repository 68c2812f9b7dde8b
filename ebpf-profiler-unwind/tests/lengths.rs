//! Instruction lengths are those of objdump.
//!
//! ```sh
//! cargo test -p ebpf-profiler-unwind --test lengths --release -- --ignored --nocapture    # some libraries
//! UNWIND_FILES=/usr/lib/libx265.so:/opt/x cargo test ... -- --ignored --nocapture           # other files
//! ```

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::internal::x86_64::decode;

/// Libraries with much hand-written assembly; those that are installed are used.
const LIBRARIES: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libcrypto.so.3",
    "libstdc++.so.6",
    "libgmp.so.10",
    "libx264.so.164",
    "libx265.so.199",
    "libopenblas.so.0",
];

/// A line of objdump: an address, and the text of the instruction.
fn parse(line: &str) -> Option<(u64, &str)> {
    let (address, text) = line.split_once(":\t")?;
    Some((u64::from_str_radix(address.trim(), 16).ok()?, text.trim()))
}

/// Returns `true` for a line that is no whole instruction: bytes that are none, or prefixes before such bytes.
fn is_data(text: &str) -> bool {
    let prefixes =
        ["rex", "data16", "addr32", "lock", "rep", "repz", "repnz", "cs", "ds", "es", "fs", "gs", "ss"];
    let first = text.split([' ', '.']).next().unwrap_or_default();
    text.is_empty() || text.contains("(bad)") || prefixes.contains(&first) && !text.contains([',', '(', '%'])
}

/// Compares all instructions of a file's `.text`: their number, and lines that tell of the differences.
fn compare(path: &Path) -> (usize, Vec<String>) {
    let elf = Elf::open(File::open(path).expect("it exists")).expect("it is an ELF file");
    let mut command = Command::new("objdump");
    let command = command.args(["-d", "-w", "--no-show-raw-insn", "-j", ".text"]).arg(path);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("objdump runs");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (mut count, mut wrong) = (0, Vec::new());
    let mut before: Option<(u64, String)> = None;
    for line in lines.map_while(Result::ok) {
        let Some((next, text)) = parse(&line) else {
            // A symbol may begin within what was decoded before it.
            before = before.filter(|_| line.is_empty() || line.ends_with(">:"));
            continue;
        };
        let Some((address, text)) = before.replace((next, text.to_owned())) else { continue };
        let mut bytes = [0; 15];
        if is_data(&text) || next < address || next - address > 15 || elf.read(address, &mut bytes).is_err() {
            continue;
        }
        // objdump counts a wait to the floating-point instruction behind it, and reads 16-bit jumps as AMD's CPUs do.
        if bytes[0] == 0x9b || text.starts_with("jmpw") || text.starts_with('.') {
            continue;
        }
        count += 1;
        let len = decode(&bytes).map(|instruction| instruction.len);
        if len != Some(next - address) {
            wrong.push(format!("{address:x}: {text}: {len:?} instead of {}", next - address));
        }
    }
    child.wait().expect("it was started");
    (count, wrong)
}

/// The files named in `UNWIND_FILES`, else libraries of the system.
fn files() -> Vec<PathBuf> {
    match std::env::var_os("UNWIND_FILES") {
        Some(files) => std::env::split_paths(&files).collect(),
        None => {
            let folder = Path::new("/usr/lib/x86_64-linux-gnu");
            LIBRARIES.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect()
        }
    }
}

#[test]
#[ignore = "takes half a minute with optimizations"]
fn of_all_instructions_of_libraries() {
    test_needs::programs!("objdump");
    if Arch::HOST != Arch::X86_64 && std::env::var_os("UNWIND_FILES").is_none() {
        return test_needs::skip("its files are for x86_64");
    }
    let (mut total, mut failed) = (0, 0);
    for path in files() {
        let (count, wrong) = compare(&path);
        println!("{}: {count} instructions, {} with another length", path.display(), wrong.len());
        wrong.iter().take(8).for_each(|line| println!("  {line}"));
        (total, failed) = (total + count, failed + wrong.len());
    }
    assert!(total > 10_000, "{total} instructions");
    assert_eq!(failed, 0, "of {total}");
}
