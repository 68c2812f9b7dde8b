//! The fuzz targets, with any compiler: inputs made from the seeds by chance, the same ones each time.
//!
//! ```sh
//! cargo test -p ebpf-profiler-unwind --test fuzz                              # a second
//! FUZZ_ROUNDS=1000000 cargo test --release -p ebpf-profiler-unwind --test fuzz  # a while
//! FUZZ_SEED=7 ...                                                             # others
//! ```
//!
//! There is no coverage to go by, so an input is kept to go on from when what comes out of it was never seen before:
//! other kinds of rules, another number of rows, more invalid data.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how far it went"
)]

mod targets;

use std::collections::HashSet;
use std::path::Path;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The largest input; longer ones only take longer.
const MAX_SIZE: usize = 4096;

/// Maximum number of inputs that are kept for further changes.
const MAX_KEPT: usize = 4096;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Runs a target on its seeds and on changed copies of them.
fn run(name: &str, target: fn(&[u8]) -> u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut inputs: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!inputs.is_empty(), "no seeds in {}", folder.display());
    let mut seen: HashSet<u64> = inputs.iter().map(|input| target(input)).collect();
    let mut random = Random(number("FUZZ_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let rounds = number("FUZZ_ROUNDS", 500);
    for _ in 0..rounds {
        let input = changed(&inputs, &mut random);
        if seen.insert(target(&input)) && inputs.len() < MAX_KEPT {
            inputs.push(input);
        }
    }
    println!("{name}: {rounds} inputs, {} kept of {} outcomes", inputs.len(), seen.len());
}

/// One of the inputs, changed in one to eight places.
fn changed(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    // The newest are the strangest.
    let pick = |random: &mut Random| {
        let (one, other) = (random.below(inputs.len()), random.below(inputs.len()));
        &inputs[one.max(other)]
    };
    let mut input = pick(random).clone();
    for _ in 0..1 << random.below(4) {
        let at = random.below(input.len() + 1);
        let size = 1 + random.below(16);
        match random.below(8) {
            0 | 1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 if at < input.len() => input[at] = STRANGE[random.below(STRANGE.len())],
            3 => overwrite(&mut input, at, &random.next().to_le_bytes()[..1 + random.below(8)]),
            4 => overwrite(&mut input, at, &wide(random).to_le_bytes()[..4 << random.below(2)]),
            5 => drop(input.drain(at..input.len().min(at + size))),
            6 => {
                let from = random.below(input.len() + 1);
                let piece = input[from..input.len().min(from + size)].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let other = pick(random);
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
        input.truncate(MAX_SIZE);
    }
    input
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    let end = input.len().min(at + bytes.len());
    input[at..end].copy_from_slice(&bytes[..end - at]);
}

const STRANGE: [u8; 12] = [0, 1, 2, 4, 8, 0x10, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x40];

/// A number near one of those that programs stumble over.
fn wide(random: &mut Random) -> u64 {
    let near = [0, 1 << 16, 1 << 31, 1 << 32, 1 << 63, targets::elf::CODE, targets::elf::DATA];
    near[random.below(near.len())].wrapping_add(random.below(64) as u64).wrapping_sub(32)
}

#[test]
fn eh_frame() {
    run("eh_frame", targets::eh_frame);
}

#[test]
fn search_table() {
    run("search_table", targets::search_table);
}

#[test]
fn debug_frame() {
    run("debug_frame", targets::debug_frame);
}

#[test]
fn gopclntab() {
    run("gopclntab", targets::gopclntab);
}

#[test]
fn derive() {
    run("derive", targets::derive);
}

#[test]
fn region() {
    run("region", targets::region);
}

#[test]
fn elf() {
    run("elf", targets::file);
}

#[test]
fn image() {
    run("image", targets::image);
}

#[test]
fn core_dump() {
    run("core_dump", targets::core_dump);
}

#[test]
fn case() {
    run("case", targets::case);
}
