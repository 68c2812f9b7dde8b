//! Cost of encoding a profile for OpenTelemetry, compared with structs that prost generates.
//!
//! The profile: 10,000 stacks of 40 frames, 20,000 locations, 8,000 functions, 100,000 samples.
//! Each encoder gets the same finished profile and writes the same content; the best of many runs
//! counts.
//!
//! ```text
//! cargo bench -p benches --bench otlp_encode
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use benches::usage::on_cpu;
use ebpf_profiler_core::process::{Module, ModuleId};
use ebpf_profiler_core::profile::{FrameView, FunctionId, Process, Profile, ProfileBuilder, Sample, Thread};
use ebpf_profiler_core::symbol::{Symbol, Symbolizer};
use ebpf_profiler_core::trace::{Found, Frame, Stop, Trace};
use ebpf_profiler_otlp::{Encoder, Resource};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::profiles::v1development as wire;
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use prost::Message;

const STACKS: usize = 10_000;
const DEPTH: usize = 40;
const LOCATIONS: u64 = 20_000;
const FUNCTIONS: u64 = 8_000;
const MODULES: u32 = 200;
const TICKS: usize = 100_000;
const THREADS: u32 = 64;
const START: u64 = 1_790_000_000_000_000_000;

fn main() {
    let profile = profile();
    let mut encoder = fresh();
    let ours = encoder.encode(&profile).remove(0);
    let theirs = Prost::new(&profile, false).request().encode_to_vec();
    // The numbering differs, and a larger number may take one byte more.
    assert!(ours.len().abs_diff(theirs.len()) < ours.len() / 200, "both say the same");

    let before = ALLOCATIONS.load(Relaxed);
    encoder.encode(&profile);
    let allocations = ALLOCATIONS.load(Relaxed) - before;
    let samples = profile.samples().len();
    println!("{samples} samples with {} ticks, {} bytes", profile.count(), ours.len());
    println!("{allocations} allocations by a kept encoder\n");
    assert!(allocations * 10 < samples, "nothing is allocated for a sample");
    compare(&profile, &mut encoder);
    println!();
    for (name, len, time) in [
        compressed("gzip 1", &|| gzip(&ours, 1)),
        compressed("gzip 6", &|| gzip(&ours, 6)),
        compressed("zstd 1", &|| zstd(&ours, 1)),
        compressed("zstd 3", &|| zstd(&ours, 3)),
    ] {
        println!("{name:32} {:8.3} ms {len:9} bytes", milliseconds(time));
    }
}

/// Returns an encoder of single messages with the same fields as prost's.
fn fresh() -> Encoder {
    Encoder::new(Resource::new()).limit(usize::MAX).linker_names(true)
}

/// The encoders, run in turns.
fn compare(profile: &Profile, encoder: &mut Encoder) {
    let request = Prost::new(profile, false).request();
    let mut ways: [(&str, &mut dyn FnMut()); 5] = [
        ("prost, build, encode and drop", &mut || drop(bytes(Prost::new(profile, false)))),
        ("the same, by numbers of functions", &mut || drop(bytes(Prost::new(profile, true)))),
        ("prost, encode only", &mut || drop(black_box(request.encode_to_vec()))),
        ("ours, new encoder", &mut || {
            black_box(fresh().encode(profile));
        }),
        ("ours, kept encoder", &mut || drop(black_box(encoder.encode(profile)))),
    ];
    let mut best = [Duration::MAX; 5];
    for _ in 0..ROUNDS {
        for (best, (_, run)) in best.iter_mut().zip(&mut ways) {
            *best = (*best).min(timed(run));
        }
    }
    for ((name, _), time) in ways.iter().zip(best) {
        let share = time.as_secs_f64() / best[0].as_secs_f64();
        println!("{name:34} {:8.3} ms {share:6.2}", milliseconds(time));
    }
}

fn bytes(prost: Prost<'_>) -> Vec<u8> {
    black_box(prost.request().encode_to_vec())
}

/// Returns the shortest CPU time of many runs, which excludes other load.
const ROUNDS: usize = 40;

fn timed(run: &mut dyn FnMut()) -> Duration {
    let start = on_cpu();
    run();
    on_cpu() - start
}

fn compressed(name: &'static str, compress: &dyn Fn() -> usize) -> (&'static str, usize, Duration) {
    let mut len = 0;
    let time = (0..5).map(|_| timed(&mut || len = compress())).min();
    (name, len, time.unwrap_or_default())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Number of samples.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn zstd(bytes: &[u8], level: i32) -> usize {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    zstd_safe::compress(&mut out, bytes, level).unwrap_or_default()
}

fn gzip(bytes: &[u8], level: u32) -> usize {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_or(0, |compressed| compressed.len())
}

/// Fast generator of uniform numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

fn profile() -> Profile {
    let mut random = Random(88_172_645_463_325_252);
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let threads: Vec<_> = (0..THREADS)
        .map(|tid| {
            let mut process = Process::new(tid / 8);
            process.executable = format!("/usr/bin/program-{}", tid / 8).into();
            let process = builder.process(process);
            builder.thread(Thread::new(process, tid, format!("worker-{tid}")))
        })
        .collect();
    let traces: Vec<_> = (0..STACKS).map(|_| trace(&mut random)).collect();
    for tick in 0..TICKS as u64 {
        // Each stack belongs to few threads, as in real programs.
        let stack = random.below(STACKS as u64);
        let thread = (stack + random.below(4)) % u64::from(THREADS);
        builder.add(threads[thread as usize], &traces[stack as usize], START + tick * 50_000);
    }
    let start = UNIX_EPOCH + Duration::from_nanos(START);
    builder.finish(start, Duration::from_secs(5), module, &mut Names)
}

fn trace(random: &mut Random) -> Trace<'static> {
    let frame = |_| {
        let address = random.below(LOCATIONS);
        let module = ModuleId((address * u64::from(MODULES) / LOCATIONS) as u32);
        Frame::Native { module, address: 0x1000 + address * 16, found: Found::Exactly }
    };
    Trace::new((0..DEPTH).map(frame).collect::<Vec<_>>(), Stop::Root)
}

fn module(id: ModuleId) -> Option<Module> {
    let mut module = Module::new(format!("/usr/lib/x86_64-linux-gnu/lib{}.so", id.0));
    module.build_id = (0..20).map(|byte| byte + id.0 as u8).collect();
    (module.start, module.end, module.offset) = (0x1000, 0x100_0000, 0x1000);
    Some(module)
}

struct Names;

impl Symbolizer for Names {
    fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (index, address) in addresses.iter().enumerate() {
            let number = (address - 0x1000) / 16 * FUNCTIONS / LOCATIONS;
            let symbol = Symbol::new(format!("namespace::of_some_length::function_{number}"))
                .with_file(format!("source/of/some/depth/file_{}.cc", number / 5))
                .with_line((address % 1_000) as u32);
            name(index, &[symbol]);
        }
    }

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}
}

/// Encodes the same message from generated structs, interned with hash maps of the standard
/// library.
struct Prost<'p> {
    profile: &'p Profile,
    tables: wire::ProfilesDictionary,
    strings: HashMap<&'p str, i32>,
    functions: HashMap<[i32; 4], i32>,
    /// By function number, if used.
    numbers: Option<Vec<i32>>,
    attributes: HashMap<(i32, String), i32>,
    mappings: Vec<i32>,
    locations: Vec<i32>,
    stacks: Vec<i32>,
    threads: Vec<[i32; 2]>,
    native: i32,
}

impl<'p> Prost<'p> {
    fn new(profile: &'p Profile, by_number: bool) -> Prost<'p> {
        let tables = wire::ProfilesDictionary {
            mapping_table: vec![Default::default()],
            location_table: vec![Default::default()],
            function_table: vec![Default::default()],
            link_table: vec![Default::default()],
            string_table: vec![String::new()],
            attribute_table: vec![Default::default()],
            stack_table: vec![Default::default()],
        };
        Prost {
            profile,
            tables,
            strings: HashMap::from([("", 0)]),
            functions: HashMap::new(),
            numbers: by_number.then(|| vec![0; profile.functions().len()]),
            attributes: HashMap::new(),
            mappings: vec![0; profile.modules().len()],
            locations: vec![0; profile.frames().len()],
            stacks: vec![0; profile.traces().len()],
            threads: vec![[0; 2]; profile.threads().len()],
            native: 0,
        }
    }

    fn request(mut self) -> ExportProfilesServiceRequest {
        let sample_type = Some(self.value_type("samples", "count"));
        let period_type = Some(self.value_type("cpu", "nanoseconds"));
        let mut samples: Vec<Sample<'p>> = self.profile.samples().collect();
        samples.sort_by_key(|sample| sample.thread().process);
        let mut resource_profiles = Vec::new();
        for group in samples.chunk_by(|a, b| a.thread().process == b.thread().process) {
            let profile = wire::Profile {
                sample_type,
                samples: group.iter().map(|sample| self.sample(sample)).collect(),
                time_unix_nano: START,
                duration_nano: 5_000_000_000,
                period_type,
                period: 50_000_000,
                ..Default::default()
            };
            resource_profiles.push(resource(group[0].process(), profile));
        }
        ExportProfilesServiceRequest { resource_profiles, dictionary: Some(self.tables) }
    }

    fn value_type(&mut self, kind: &'static str, unit: &'static str) -> wire::ValueType {
        wire::ValueType { type_strindex: self.string(kind), unit_strindex: self.string(unit) }
    }

    fn sample(&mut self, sample: &Sample<'p>) -> wire::Sample {
        wire::Sample {
            stack_index: self.stack(sample),
            attribute_indices: self.thread(sample).to_vec(),
            timestamps_unix_nano: sample.timestamps().to_vec(),
            ..Default::default()
        }
    }

    fn thread(&mut self, sample: &Sample<'p>) -> [i32; 2] {
        let index = sample.thread_id().0 as usize;
        if self.threads[index] == [0; 2] {
            let thread = sample.thread();
            let id = self.attribute("thread.id", Value::IntValue(thread.tid.into()));
            let name = self.attribute("thread.name", Value::StringValue(thread.name.to_string()));
            self.threads[index] = [id, name];
        }
        self.threads[index]
    }

    fn stack(&mut self, sample: &Sample<'p>) -> i32 {
        let trace = sample.trace();
        let index = trace.id().0 as usize;
        if self.stacks[index] == 0 {
            let location_indices = trace.frames().map(|frame| self.location(frame)).collect();
            self.stacks[index] = self.tables.stack_table.len() as i32;
            self.tables.stack_table.push(wire::Stack { location_indices });
        }
        self.stacks[index]
    }

    fn location(&mut self, frame: FrameView<'p>) -> i32 {
        let index = frame.id().0 as usize;
        if self.locations[index] == 0 {
            let location = self.new_location(frame);
            self.locations[index] = self.tables.location_table.len() as i32;
            self.tables.location_table.push(location);
        }
        self.locations[index]
    }

    fn new_location(&mut self, frame: FrameView<'p>) -> wire::Location {
        let Frame::Native { module, address, .. } = frame.frame() else { return Default::default() };
        let symbols = frame.symbols().iter().zip(frame.functions());
        let lines = symbols.map(|(symbol, &id)| self.line(symbol, id)).collect();
        let mapping_index = self.mapping(module.0 as usize);
        if self.native == 0 {
            self.native = self.attribute("profile.frame.type", Value::StringValue("native".into()));
        }
        wire::Location { mapping_index, address, lines, attribute_indices: vec![self.native] }
    }

    fn line(&mut self, symbol: &'p Symbol, id: FunctionId) -> wire::Line {
        let known = self.numbers.as_ref().map_or(0, |numbers| numbers[id.0 as usize]);
        let function_index = if known != 0 { known } else { self.function(symbol) };
        if let Some(numbers) = &mut self.numbers {
            numbers[id.0 as usize] = function_index;
        }
        wire::Line { function_index, line: symbol.line.into(), column: symbol.column.into() }
    }

    fn function(&mut self, symbol: &'p Symbol) -> i32 {
        let names = [&symbol.function, &symbol.system_name, &symbol.file].map(|name| self.string(name));
        let start_line = symbol.start_line as i32;
        let next = self.tables.function_table.len() as i32;
        let index = *self.functions.entry([names[0], names[1], names[2], start_line]).or_insert(next);
        if index == next {
            self.tables.function_table.push(wire::Function {
                name_strindex: names[0],
                system_name_strindex: names[1],
                filename_strindex: names[2],
                start_line: start_line.into(),
            });
        }
        index
    }

    fn mapping(&mut self, index: usize) -> i32 {
        if self.mappings[index] == 0 {
            let module = &self.profile.modules()[index];
            let id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            // Only the length matters.
            let hash = format!("{index:032x}");
            let gnu = self.attribute("process.executable.build_id.gnu", Value::StringValue(id));
            let htlhash = self.attribute("process.executable.build_id.htlhash", Value::StringValue(hash));
            let mapping = wire::Mapping {
                memory_start: module.start,
                memory_limit: module.end,
                file_offset: module.offset,
                filename_strindex: self.string(&module.path),
                attribute_indices: vec![gnu, htlhash],
            };
            self.mappings[index] = self.tables.mapping_table.len() as i32;
            self.tables.mapping_table.push(mapping);
        }
        self.mappings[index]
    }

    fn attribute(&mut self, key: &'static str, value: Value) -> i32 {
        let key_strindex = self.string(key);
        let next = self.tables.attribute_table.len() as i32;
        let index = *self.attributes.entry((key_strindex, format!("{value:?}"))).or_insert(next);
        if index == next {
            let value = Some(AnyValue { value: Some(value) });
            self.tables.attribute_table.push(wire::KeyValueAndUnit { key_strindex, value, unit_strindex: 0 });
        }
        index
    }

    fn string(&mut self, text: &'p str) -> i32 {
        let next = self.strings.len() as i32;
        let index = *self.strings.entry(text).or_insert(next);
        if index == next {
            self.tables.string_table.push(text.to_owned());
        }
        index
    }
}

fn resource(process: &Process, profile: wire::Profile) -> wire::ResourceProfiles {
    let text = |key: &str, text: &str| key_value(key, Value::StringValue(text.to_owned()));
    let name = process.executable.rsplit('/').next().unwrap_or_default();
    let attributes = vec![
        key_value("process.pid", Value::IntValue(process.pid.into())),
        text("process.executable.path", &process.executable),
        text("process.executable.name", name),
    ];
    let scope = InstrumentationScope {
        name: "ebpf-profiler".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let schema_url = "https://opentelemetry.io/schemas/1.44.0".to_owned();
    wire::ResourceProfiles {
        resource: Some(WireResource { attributes, ..Default::default() }),
        scope_profiles: vec![wire::ScopeProfiles {
            scope: Some(scope),
            profiles: vec![profile],
            schema_url: schema_url.clone(),
        }],
        schema_url,
    }
}

fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}
