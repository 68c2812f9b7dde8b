//! pprof encoding of profiles.
//!
//! ```text
//! sample      labels process.pid, process.executable.name, container.id, k8s.pod.uid, thread.id, thread.name, attributes of the process, and labels of the sample
//!             values of CPU time samples/count = ticks, cpu/nanoseconds = ticks * period;
//!             of each other kind its value, such as off_cpu/nanoseconds; samples/count = events if there is no CPU time
//! location    mapping, address in the file, functions innermost first
//! mapping     file, addresses, GNU build id
//! ```
//!
//! Under a budget a sample stands for several ticks, and counts as that many. Timestamps are lost:
//! pprof has sums only.

mod fields;
mod tables;

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use ebpf_profiler_core::profile::{Profile, Sample, SampleKind};
use ebpf_profiler_core::sink::Format;
use flate2::Compression;
use hashbrown::HashMap;

use crate::gzip::gzip;
use crate::semantic;
use crate::wire::{Wire, bytes_len, number_len, varint_len};
use fields::{label, profile, sample, value_type};
use tables::Tables;

/// Encodes a profile as a `profile.proto` compressed with gzip, for `go tool pprof`.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::pprof;
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::ProfileBuilder, symbol::NoSymbols};
/// # let empty = ProfileBuilder::new(Duration::from_millis(50));
/// # let profile = empty.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
///
/// std::fs::write("/dev/null", pprof(&profile))?; // and then: go tool pprof -http=: machine.pb.gz
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pprof(profile: &Profile) -> Bytes {
    gzip(&encode(profile), None, Compression::fast())
}

/// Registers the formats of files that this crate writes: `.pb.gz` and `.pb`, for pprof.
///
/// From then on `Profile::write` and `sink::File` write files with these endings.
///
/// # Examples
///
/// ```
/// # let profile = ebpf_profiler_core::testing::profile("cat;main;read 3");
/// # let folder = std::env::temp_dir();
/// ebpf_profiler_otlp::register_formats();
/// let path = folder.join(format!("machine-{}.pb.gz", std::process::id()));
/// profile.write(&path)?; // and then: go tool pprof -top machine.pb.gz
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_formats() {
    Format::new("pb.gz", "pprof", write_compressed).with_all_kinds().register();
    Format::new("pb", "pprof, not compressed", write).with_all_kinds().register();
}

fn write_compressed(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(&pprof(profile))
}

fn write(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(&encode(profile))
}

fn encode(from: &Profile) -> Vec<u8> {
    let mut tables = Tables::new(from);
    let mut out = Vec::new();
    put_type(profile::SAMPLE_TYPE, semantic::SAMPLES, &mut tables, &mut out);
    for kind in from.kinds() {
        let name = semantic::type_name(kind);
        let kind = if kind.is_cpu() { semantic::CPU } else { (&*name, kind.unit().name()) };
        put_type(profile::SAMPLE_TYPE, kind, &mut tables, &mut out);
    }
    put_samples(from, &mut tables, &mut out);
    put_times(from, &mut out);
    if has_cpu(from) {
        put_type(profile::PERIOD_TYPE, semantic::CPU, &mut tables, &mut out);
        out.number(profile::PERIOD, nanos(from.period()));
    }
    put_comments(from, &mut tables, &mut out);
    tables.put(&mut out);
    out
}

fn put_type(field: u8, (kind, unit): (&str, &str), tables: &mut Tables<'_>, out: &mut Vec<u8>) {
    let (kind, unit) = (tables.string(kind).into(), tables.string(unit).into());
    out.message(field, number_len(kind) + number_len(unit));
    out.number(value_type::TYPE, kind);
    out.number(value_type::UNIT, unit);
}

fn put_times(from: &Profile, out: &mut Vec<u8>) {
    let start = from.start().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.number(profile::TIME, nanos(start));
    out.number(profile::DURATION, nanos(from.duration()));
}

/// Appends the losses as comments, which `pprof -comments` shows.
fn put_comments(from: &Profile, tables: &mut Tables<'_>, out: &mut Vec<u8>) {
    let lost: Vec<u32> =
        from.losses().map(|(reason, count)| tables.string(&format!("lost: {count} {reason}"))).collect();
    out.packed(profile::COMMENT, &lost);
}

/// Appends samples. Traces with equal locations and thread become one sample.
fn put_samples<'p>(from: &'p Profile, tables: &mut Tables<'p>, out: &mut Vec<u8>) {
    let mut numbers: HashMap<(Box<[u32]>, u32), usize> = HashMap::new();
    let mut samples: Vec<(Vec<u8>, Vec<u64>)> = Vec::new();
    let (mut stack, period, kinds) = (Vec::new(), nanos(from.period()), from.kinds());
    let counts_cpu_only = has_cpu(from);
    for sample in from.samples() {
        tables.stack(sample.trace(), &mut stack);
        let number = *numbers.entry((stack.as_slice().into(), sample.thread_id().0)).or_insert(samples.len());
        if number == samples.len() {
            samples.push((identity(&sample, &stack, tables), vec![0; 1 + kinds.len()]));
        }
        let (count, value) = match sample.kind().is_cpu() {
            true => (sample.value(), sample.value().saturating_mul(period)),
            false if counts_cpu_only => (0, sample.value()),
            false => (sample.count(), sample.value()),
        };
        let kind = kinds.iter().position(|kind| std::ptr::eq(kind, sample.kind())).unwrap_or(0);
        for (index, more) in [(0, count), (1 + kind, value)] {
            let sum = &mut samples[number].1[index];
            *sum = sum.saturating_add(more).min(i64::MAX as u64);
        }
    }
    for (identity, values) in samples {
        put_sample(&identity, &values, out);
    }
}

fn has_cpu(profile: &Profile) -> bool {
    profile.kinds().iter().any(SampleKind::is_cpu)
}

/// Encodes a sample without its values.
fn identity(sample: &Sample<'_>, stack: &[u32], tables: &mut Tables<'_>) -> Vec<u8> {
    let (process, thread) = (sample.process(), sample.thread());
    let mut out = Vec::new();
    out.packed(sample::LOCATION, stack);
    // Numeric labels are shown as quantities with a unit.
    let number = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
    for (key, text) in [
        (semantic::PROCESS_PID, &*number(semantic::process_id(process))),
        (semantic::PROCESS_EXECUTABLE_NAME, process.executable.rsplit('/').next().unwrap_or_default()),
        (semantic::CONTAINER_ID, &process.container),
        (semantic::POD_UID, &process.pod),
        (semantic::THREAD_ID, &number(semantic::thread_id(process, thread))),
        (semantic::THREAD_NAME, &thread.name),
    ] {
        if !text.is_empty() {
            put_label(key, text, tables, &mut out);
        }
    }
    for (key, value) in &process.attributes {
        put_label(key, value, tables, &mut out);
    }
    for label in sample.labels() {
        put_label(label.key(), &label.value().to_string(), tables, &mut out);
    }
    out
}

fn put_label(key: &str, text: &str, tables: &mut Tables<'_>, out: &mut Vec<u8>) {
    let (key, text) = (tables.string(key).into(), tables.string(text).into());
    out.message(sample::LABEL, number_len(key) + number_len(text));
    out.number(label::KEY, key);
    out.number(label::TEXT, text);
}

fn put_sample(identity: &[u8], values: &[u64], out: &mut Vec<u8>) {
    let len = values.iter().map(|&value| varint_len(value)).sum();
    out.message(profile::SAMPLE, identity.len() + bytes_len(len));
    out.extend_from_slice(identity);
    out.message(sample::VALUE, len);
    values.iter().for_each(|&value| out.varint(value));
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(i64::MAX as u64)
}
