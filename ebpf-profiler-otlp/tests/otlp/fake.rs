//! Profiles of random content, the same for the same seed.

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ebpf_profiler_core::elf::ReadAt;
use ebpf_profiler_core::language::Script;
use ebpf_profiler_core::process::{Module, ModuleId, Opener};
use ebpf_profiler_core::profile::{
    LabelValue, Labels, Process, Profile, ProfileBuilder, SampleLabel, Thread, ThreadId,
};
use ebpf_profiler_core::symbol::{Symbol, Symbolizer};
use ebpf_profiler_core::trace::{Found, Frame, ScriptId, Stop, Trace};

/// Start of all fake profiles in nanoseconds since 1970.
pub(crate) const START: u64 = 1_790_000_000_000_000_000;
/// Duration of all fake profiles.
pub(crate) const DURATION: u64 = 5_000_000_000;

/// Size of a fake profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) processes: u32,
    pub(crate) threads: u32,
    pub(crate) modules: u32,
    pub(crate) addresses: u64,
    pub(crate) traces: u32,
    pub(crate) depth: u64,
    pub(crate) ticks: u32,
}

pub(crate) const SMALL: Shape =
    Shape { processes: 5, threads: 12, modules: 6, addresses: 40, traces: 60, depth: 12, ticks: 400 };

/// A random number generator (xorshift64*).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Returns a random profile.
pub(crate) fn profile(seed: u64, shape: Shape) -> Profile {
    let mut random = Random::new(seed);
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let threads = threads(&mut random, shape, &mut builder);
    let traces: Vec<Trace<'_>> = (0..shape.traces).map(|_| trace(&mut random, shape)).collect();
    for _ in 0..shape.ticks {
        let thread = threads[random.below(threads.len() as u64) as usize];
        let trace = &traces[random.below(traces.len() as u64) as usize];
        builder.add(thread, trace, START + random.below(DURATION));
    }
    finish(builder)
}

/// Finishes a profile with the fake modules and names.
pub(crate) fn finish(mut builder: ProfileBuilder) -> Profile {
    builder.add_scripts(script);
    let start = UNIX_EPOCH + Duration::from_nanos(START);
    builder.finish(start, Duration::from_nanos(DURATION), module, &mut FakeNames)
}

fn threads(random: &mut Random, shape: Shape, builder: &mut ProfileBuilder) -> Vec<ThreadId> {
    let processes: Vec<_> = (0..shape.processes).map(|number| builder.process(process(number))).collect();
    let thread = |number: u32| {
        let process = processes[random.below(processes.len() as u64) as usize];
        let name = if number.is_multiple_of(7) { String::new() } else { format!("worker-{}", number % 3) };
        // A thread of an ordinary process without id is several.
        let mut thread = Thread::new(process, 1 + number, name);
        // Every fourth thread has up to 8 labels.
        let labels = if number % 4 == 1 { i64::from(number % 9) } else { 0 };
        thread.labels = (0..labels).fold(Labels::default(), |set, index| {
            let value =
                if index % 2 == 0 { LabelValue::from(-index) } else { format!("value {index}").into() };
            set.with(SampleLabel::new(format!("key.{index}"), value))
        });
        // Some of these have a span, as two of the labels.
        if number % 8 == 1 && labels <= 6 {
            let ids = [
                (Labels::TRACE_ID, format!("{:032x}", 1 + number % 16)),
                (Labels::SPAN_ID, format!("{:016x}", 1 + number)),
            ];
            thread.labels = thread.labels.and(&Labels::from(ids));
        }
        builder.thread(thread)
    };
    (0..shape.threads).map(thread).collect()
}

/// Returns a process; number 0 is the kernel's, every third one is in a container.
pub(crate) fn process(number: u32) -> Process {
    let executable = if number == 0 { String::new() } else { format!("/usr/bin/program-{number}") };
    let container = if number % 3 == 2 { format!("{number:064x}") } else { String::new() };
    let mut process = Process::new(number * 100);
    process.created = u64::from(number) * 1_000_000;
    process.executable = executable.into();
    process.container = container.into();
    if number % 6 == 2 {
        process.pod = "2b7f3d9c-8a1e-4c55-9f0d-6e1a2b3c4d5e".into();
        process.attributes = vec![("k8s.pod.name".into(), "shop-1".into())];
    }
    process
}

fn trace(random: &mut Random, shape: Shape) -> Trace<'static> {
    let depth = random.below(shape.depth + 1);
    let frames: Vec<Frame> = (0..depth).map(|_| frame(random, shape)).collect();
    let stop = match random.below(8) {
        0 => Stop::ALL[random.below(Stop::ALL.len() as u64) as usize],
        _ => Stop::Root,
    };
    let deep = stop == Stop::TooDeep && depth > 1;
    let omitted = if deep { 1 + random.below(3) as u32 } else { 0 };
    let gap = if deep { 1 + random.below(depth - 1) as u32 } else { 0 };
    Trace::new(frames, stop).with_gap(omitted, gap)
}

fn frame(random: &mut Random, shape: Shape) -> Frame {
    let found = if random.one_in(9) { Found::Guessed } else { Found::Exactly };
    let address = random.below(shape.addresses);
    match random.below(12) {
        0 => Frame::Kernel { address: 0xffff_ffff_8100_0000 + address },
        1 => Frame::Anonymous { address: 0x7f00_0000_0000 + address, found },
        2 => Frame::Script {
            function: ScriptId(random.below(8) as u32),
            line: (address % 5) as u32,
            found: Found::Exactly,
        },
        _ => {
            let module = ModuleId(random.below(shape.modules.into()) as u32);
            Frame::Native { module, address: 0x1000 + address, found }
        }
    }
}

/// Returns a module; 0 and 1 are unknown and therefore equal, 2 has no file, 3 is a Go program.
pub(crate) fn module(id: ModuleId) -> Option<Module> {
    let number = id.0;
    if number < 2 {
        return None;
    }
    let mut module = Module::new(format!("/usr/lib/lib{number}.so"));
    (module.start, module.end, module.offset) = (0x1000, 0x1_0000_0000, 0x1000);
    if number.is_multiple_of(2) {
        module.build_id = (number as u8..).take(20).collect();
    }
    module.opener = (number != 2).then(|| opener(number));
    Some(module)
}

/// Returns a script function; 0 is unknown, 1 and 2 are equal as those of two processes can be, and
/// so on; the last one has an uncommon language.
fn script(id: ScriptId) -> Option<Script> {
    let number = id.0.checked_sub(1)? / 2;
    let language = ["cpython", "jvm", "v8js", "luajit"][number as usize % 4];
    let name = format!("script_{number}");
    let file = format!("scripts/{number}");
    Some(Script::new(language, name).with_file(file, number * 10))
}

fn opener(number: u32) -> Arc<dyn Opener> {
    let bytes = if number == 3 { go_program() } else { vec![number as u8; 9_000] };
    Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadAt>))
}

/// The Go build id of module 3.
pub(crate) const GO_BUILD_ID: &str = "first/second";

/// Returns an ELF file with only the note of Go's linker.
fn go_program() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let size = 16 + GO_BUILD_ID.len() as u64;
    file.extend([4u32, 4].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([120, 0, 0, size, size, 4].iter().flat_map(|word: &u64| word.to_le_bytes()));
    file.extend([4, GO_BUILD_ID.len() as u32, 4].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(b"Go\0\0");
    file.extend(GO_BUILD_ID.as_bytes());
    file
}

/// A symbolizer with names for most addresses, some with inlined functions; several addresses share
/// names.
#[derive(Debug)]
pub(crate) struct FakeNames;

impl FakeNames {
    fn symbols(address: u64) -> Vec<Symbol> {
        let depth = address % 4;
        (0..depth).map(|level| symbol(address / 3 + level)).collect()
    }

    fn all(addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (index, &address) in addresses.iter().enumerate() {
            let symbols = FakeNames::symbols(address);
            if !symbols.is_empty() {
                name(index, &symbols);
            }
        }
    }
}

fn symbol(number: u64) -> Symbol {
    let endings = ["c", "rs", "go", "cc"];
    let known = !number.is_multiple_of(5);
    let or_zero = |value: u64| if known { value as u32 } else { 0 };
    let mut symbol = Symbol::new(format!("function_{number}"));
    symbol.system_name = if number.is_multiple_of(2) { format!("_Z{number}f").into() } else { "".into() };
    symbol.file =
        if known { format!("src/{number}.{}", endings[number as usize % 4]).into() } else { "".into() };
    symbol.line = or_zero(number % 1_000 + 1);
    symbol.column = or_zero(number % 80);
    symbol.start_line = or_zero(number % 1_000);
    symbol
}

impl Symbolizer for FakeNames {
    fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        FakeNames::all(addresses, name);
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        FakeNames::all(addresses, name);
    }
}
