//! Names of compiled methods compared with the machine's own list, and with memory that lies.
//!
//! ```sh
//! cargo test -p ebpf-profiler-hll --test hotspot -- --ignored
//! ```
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blobs;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, Language as _, Memory, Reason, Runtime, Target, Unreadable};
use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_hll::hotspot::HotSpot;

/// Shape of the frames of code blobs, above their addresses.
const COMPILED: u64 = 1 << 48;

/// A program that compiles methods and then waits.
const PROGRAM: &str = r#"
import java.util.*;
import java.util.stream.*;
public class Waits {
    public static void main(String[] arguments) throws Exception {
        for (int round = 0; round < 300; round++) {
            Map<String, Integer> map = new TreeMap<>();
            for (int i = 0; i < 200; i++) map.merge("key" + i % 50, i, Integer::sum);
            if (map.values().stream().mapToInt(value -> value + 1).sum() < 0) System.exit(1);
            if (IntStream.range(0, 500).mapToObj(Integer::toString).collect(Collectors.joining()).isEmpty()) System.exit(1);
        }
        Thread.sleep(2000); // the compilers finish
        System.out.println("ready");
        Thread.sleep(300_000);
    }
}
"#;

#[test]
#[ignore = "needs a Java virtual machine"]
fn names_every_compiled_method_as_jcmd_lists_it() {
    test_needs::programs!("java", "jcmd");
    let machine = Machine::start();
    let listed = machine.listed();
    let mut attachment = machine.attach(&machine.memory()).unwrap();
    let memory = machine.memory();
    let mut named = 0;
    for (address, check) in machine.blobs(&attachment) {
        let Some(method) = listed.get(&address) else { continue };
        let function = attachment.names().function(COMPILED | address, check, &memory).unwrap();
        assert!(method.starts_with(&*function.name), "{} instead of {method}", function.name);
        assert!(function.inlines.functions().iter().all(|inlined| inlined.name.contains('.')));
        named += 1;
    }
    assert!(named > 100 && named * 10 > listed.len() * 9, "{named} of {} methods", listed.len());
}

#[test]
#[ignore = "needs a Java virtual machine"]
fn reads_within_bounds_from_memory_that_lies() {
    test_needs::programs!("java");
    let machine = Machine::start();
    let honest = machine.memory();
    let attachment = machine.attach(&honest).unwrap();
    let blobs: Vec<_> = machine.blobs(&attachment).into_iter().take(150).collect();
    let mut wrong = 0;
    for seed in 1..=12_u64 {
        let reads = Cell::new(0_u64);
        let lies = |address: u64, buffer: &mut [u8]| {
            reads.set(reads.get() + 1);
            honest(address, buffer)?;
            // A few words of each kilobyte are another value, the same each time.
            for (at, byte) in (address..).zip(buffer.iter_mut()) {
                let noise = (at >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed << 32).rotate_left(29);
                if noise.is_multiple_of(100 + seed * 7) {
                    *byte ^= (noise >> 17) as u8;
                }
            }
            Ok(())
        };
        let _ = machine.attach(&lies);
        assert!(reads.take() < 100_000, "attaching, seed {seed}");
        let mut attachment = machine.attach(&honest).unwrap();
        for &(address, check) in &blobs {
            reads.set(0);
            let named = attachment.names().function(COMPILED | address, check, &lies);
            assert!(reads.take() < 100_000, "naming, seed {seed}");
            wrong += u64::from(named.is_err());
        }
    }
    assert!(wrong > 0, "no lie was seen");
}

#[test]
#[ignore = "needs a Java virtual machine"]
fn refuses_code_that_was_replaced() {
    test_needs::programs!("java");
    let machine = Machine::start();
    let memory = machine.memory();
    let mut attachment = machine.attach(&memory).unwrap();
    let (address, check) = machine.blobs(&attachment)[20];
    let replaced = attachment.names().function(COMPILED | address, check ^ 1, &memory);
    assert_eq!(replaced.unwrap_err(), Reason::Replaced);
}

/// A running virtual machine.
struct Machine {
    child: Child,
    memory: File,
    runtime: Box<dyn Runtime>,
    base: u64,
}

impl Machine {
    fn start() -> Machine {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hotspot");
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("Waits.java");
        File::create(&source).unwrap().write_all(PROGRAM.as_bytes()).unwrap();
        let mut child = Command::new("java").arg(&source).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let library = maps.lines().find(|line| line.ends_with("/libjvm.so")).unwrap();
        let base = u64::from_str_radix(library.split('-').next().unwrap(), 16).unwrap();
        let elf = Elf::open(File::open(&library[library.find('/').unwrap()..]).unwrap()).unwrap();
        let memory = File::open(format!("/proc/{}/mem", child.id())).unwrap();
        Machine { memory, runtime: HotSpot.find(&elf).unwrap(), base, child }
    }

    fn memory(&self) -> impl Fn(u64, &mut [u8]) -> Result<(), Unreadable> {
        let memory = self.memory.try_clone().unwrap();
        move |address, buffer: &mut [u8]| memory.read_exact_at(buffer, address).map_err(|_| Unreadable)
    }

    fn attach(&self, memory: &dyn Memory) -> Result<Attachment, Reason> {
        self.runtime.attach(&Target::new(memory, LoadBias::new(self.base), Vec::new()))
    }

    /// Returns the code blobs with their checks.
    fn blobs(&self, attachment: &Attachment) -> Vec<(u64, u32)> {
        blobs::blobs(attachment.walker(), &self.memory())
    }

    /// Returns the compiled methods by address, as the virtual machine lists them.
    fn listed(&self) -> BTreeMap<u64, String> {
        let output =
            Command::new("jcmd").args([&self.child.id().to_string(), "Compiler.codelist"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // "81 3 0 java.lang.String.hashCode()I [0x…, 0x… - 0x…]"
        let line = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            let address = words.get(4)?.strip_prefix("[0x")?.strip_suffix(',')?;
            Some((u64::from_str_radix(address, 16).ok()?, readable(words.get(3)?)))
        };
        text.lines().filter_map(line).collect()
    }
}

/// Returns a method without the numbers of hidden classes, in which runs differ.
fn readable(method: &str) -> String {
    match (method.split_once("$$Lambda$"), method.split_once("/0x")) {
        (Some((class, rest)), _) => format!("{class}$$Lambda{}", rest.find('.').map_or("", |at| &rest[at..])),
        (_, Some((class, rest))) => format!("{class}{}", rest.find('.').map_or("", |at| &rest[at..])),
        _ => method.to_owned(),
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
