//! The conformance test of languages.

use std::cell::Cell;

use crate::elf::{Elf, ReadAt};
use crate::language::{Language, MAX_RANGES, Memory, Runtime, Target, Unreadable};

/// Memories full of lies that a runtime is asked to attach to.
const LIES: u64 = 200;

/// Reads of memory at most for one question.
const MAX_READS: u64 = 100_000;

/// Bytes read at most for one question.
const MAX_BYTES: u64 = 64 << 20;

/// Checks that a language keeps the promises of its traits, with `file` as a file that holds its runtime.
///
/// It looks for the runtime in the file and in mutilated copies of it, attaches to processes whose memory is noise,
/// and asks those for functions: whatever the memory says, there are only so many reads, and what comes out is within
/// the bounds of the kernel side. A panic is a failure too.
///
/// # Errors
///
/// A sentence about the promise that isn't kept.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::{Language, Runtime};
/// use ebpf_profiler_core::testing;
///
/// struct Nothing;
///
/// impl Language for Nothing {
///     fn name(&self) -> &'static str {
///         "nothing"
///     }
///     fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
///         None
///     }
/// }
///
/// let file = std::fs::read("/proc/self/exe")?;
/// let error = testing::language(&Nothing, &file).unwrap_err();
/// assert_eq!(error, "nothing doesn't find its runtime in the file");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn language(language: &dyn Language, file: &[u8]) -> Result<(), String> {
    let name = language.name();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ';') {
        return Err(format!("{name:?} is no name: it stands in text that is cut at spaces and semicolons"));
    }
    let elf = open(file).ok_or_else(|| format!("the file of {name} is no ELF file"))?;
    let runtime =
        language.find(&elf).ok_or_else(|| format!("{name} doesn't find its runtime in the file"))?;
    loops(&*runtime, &elf).map_err(|error| format!("{name}: {error}"))?;
    mutilated(language, file);
    (0..LIES).try_for_each(|seed| lied_to(&*runtime, seed)).map_err(|error| format!("{name}: {error}"))
}

fn open(file: &[u8]) -> Option<Elf> {
    Elf::open(Box::new(std::io::Cursor::new(file.to_vec())) as Box<dyn ReadAt>).ok()
}

fn loops(runtime: &dyn Runtime, elf: &Elf) -> Result<(), String> {
    let loops = runtime.loops();
    if loops.len() > MAX_RANGES {
        return Err(format!("{} loops instead of at most {MAX_RANGES}", loops.len()));
    }
    let is_code = |at: u64| {
        elf.segments().iter().any(|s| s.is_code() && s.address <= at && at - s.address < s.memory_size)
    };
    let lies_in_code = |range: &&std::ops::Range<u64>| {
        range.start < range.end && is_code(range.start) && is_code(range.end - 1)
    };
    match loops.iter().find(|range| !lies_in_code(range)) {
        Some(range) => Err(format!("loop {range:#x?} isn't code of the file")),
        None => Ok(()),
    }
}

/// Looks for the runtime where pieces of the file are missing or another: whatever it finds, it comes back.
fn mutilated(language: &dyn Language, file: &[u8]) {
    let mut noise = Noise(7);
    for round in 1..=24 {
        let mut copy = file.to_vec();
        match round % 3 {
            0 => copy.truncate(file.len() / 24 * round),
            // Headers and tables lie at both ends.
            1 => (0..64).for_each(|_| {
                let at = noise.next() as usize % copy.len().clamp(1, 8192);
                copy[at] = noise.next() as u8;
            }),
            _ => (0..4096).for_each(|_| {
                let at = noise.next() as usize % copy.len();
                copy[at] = noise.next() as u8;
            }),
        }
        if let Some(elf) = open(&copy) {
            let _ = language.find(&elf);
        }
    }
}

/// Attaches to a process whose memory is noise, and asks for functions of it.
fn lied_to(runtime: &dyn Runtime, seed: u64) -> Result<(), String> {
    let memory = Lies { seed, reads: Cell::new(0), bytes: Cell::new(0) };
    let attached = runtime.attach(&Target::new(&memory, 0x5000_0000_0000, Vec::new()));
    memory.check("attaching")?;
    let Ok(mut attachment) = attached else { return Ok(()) };
    for address in [0, 8, 1 << 20, 0x7fff_0000_1238, 0x7fff_0000_1234, u64::MAX - 7, u64::MAX] {
        // With the check that a frame would carry, naming gets beyond its comparison; every fourth time with another one.
        let read: &dyn Memory = &memory;
        let check = attachment.walker().check(address, |at| read.u64(at)).unwrap_or(0);
        let check = if seed.is_multiple_of(4) { !check & 0xff_ffff } else { check };
        let function = attachment.names().function(address, check, &memory);
        memory.check("naming a function")?;
        if let Ok(function) = function
            && function.name.len() + function.file.len() > 64 << 10
        {
            return Err("a name is longer than 64 KiB".to_owned());
        }
    }
    Ok(())
}

/// Memory that answers every question with noise, the same each time; of some pages nothing.
struct Lies {
    seed: u64,
    reads: Cell<u64>,
    bytes: Cell<u64>,
}

impl Lies {
    /// Fails if too much was read since the last call.
    fn check(&self, doing: &str) -> Result<(), String> {
        let (reads, bytes) = (self.reads.take(), self.bytes.take());
        if reads > MAX_READS || bytes > MAX_BYTES {
            return Err(format!("{doing} takes {reads} reads of {bytes} bytes where memory lies"));
        }
        Ok(())
    }
}

impl Memory for Lies {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        if Noise(self.seed ^ address >> 12).next().is_multiple_of(8) || address > 1 << 63 {
            return Err(Unreadable);
        }
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            // Words, of which some are small and some lead somewhere.
            let word = Noise(self.seed.wrapping_mul(31) ^ at >> 3).next();
            let word = match word % 4 {
                0 => word >> 56,
                1 => word >> 44,
                2 => 0x5000_0000_0000 | word >> 36 & !7,
                _ => word,
            };
            *byte = word.to_le_bytes()[at as usize % 8];
        }
        Ok(())
    }
}

/// Numbers without sense.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
