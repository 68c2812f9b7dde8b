//! Profiles of [speedscope](https://www.speedscope.app), a viewer of flame graphs, by its [file format].
//!
//! ```text
//!   { "$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "ebpf-profiler 0.1.0", "name": "cat",
//!     "profiles": [
//!       { "type": "sampled", "name": "cpu", "unit": "nanoseconds", "startValue": 0,
//!         "samples": [[0,1,2],[0,1]],
//!         "weights": [30000000,10000000],
//!         "endValue": 40000000 }],
//!     "shared": { "frames": [{"name":"cat"},{"name":"main"},{"name":"read","file":"libc.so.6"}] } }
//! ```
//!
//! Each kind of samples is a profile of the menu. A sample begins with process and thread, as flame
//! graphs do. CPU time is in nanoseconds. Samples are in no order of time: the view of speedscope
//! to use is "Left Heavy". Labels are left out.
//!
//! The file of a frame is its source file or, without one, its module. Its line is the first one of
//! the function. Names are cut after 1,024 characters.
//!
//! [file format]: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources

use std::io::{self, Write};

use hashbrown::HashMap;

use super::function;
use super::json::{write_array, write_string};
use crate::profile::{Call, Interner, Kind, Profile, Sample, SampleKind, Unit, origins};

/// Writes the profile for speedscope. Samples are written one by one, and kept in no other form.
///
/// # Errors
///
/// Fails if `out` does.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::speedscope, testing};
///
/// let mut text = Vec::new();
/// speedscope::write(&testing::profile("cat;main;read 3\ncat;main 1"), &mut text)?;
/// let text = String::from_utf8(text)?;
/// assert!(text.contains(r#""samples":[[0,1,2],[0,1]],"weights":[30000000,10000000],"endValue":40000000"#), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let exporter = concat!("ebpf-profiler ", env!("CARGO_PKG_VERSION"));
    write!(out, "{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"{exporter}\",\"name\":")?;
    write_string(out, &super::title(profile))?;
    out.write_all(b",\"profiles\":[")?;
    let mut frames = Frames::default();
    // A file without profiles cannot be opened; an empty profile can.
    for index in 0..profile.kinds().len().max(1) {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        write_kind(out, &profile.of_kind(index), &mut frames)?;
    }
    out.write_all(b"],\n\"shared\":{\"frames\":[")?;
    frames.write(out)?;
    out.write_all(b"]}}\n")
}

/// Writes the samples of a profile with one kind.
fn write_kind(out: &mut dyn Write, profile: &Profile, frames: &mut Frames) -> io::Result<()> {
    let kind = profile.kind();
    out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
    write_string(out, &function::text(kind.name()))?;
    write!(out, ",\"unit\":\"{}\",\"startValue\":0,\"samples\":[", unit(kind))?;
    let mut stack = Vec::new();
    for (index, sample) in profile.samples().enumerate() {
        frames.stack(&sample, &mut stack);
        out.write_all(if index > 0 { b"," } else { b"" })?;
        write_array(out, &stack)?;
    }
    out.write_all(b"],\"weights\":")?;
    let weight = |sample: &Sample<'_>| weight(kind, sample.value());
    write_array(out, profile.samples().map(|sample| weight(&sample)))?;
    let total = profile.samples().fold(0u128, |sum, sample| sum.saturating_add(weight(&sample)));
    write!(out, ",\"endValue\":{total}}}")
}

fn unit(kind: &SampleKind) -> &'static str {
    match kind.unit() {
        _ if is_time(kind) => "nanoseconds",
        Unit::Nanoseconds => "nanoseconds",
        Unit::Bytes => "bytes",
        Unit::Count => "none",
    }
}

fn weight(kind: &SampleKind, value: u64) -> u128 {
    let period = if is_time(kind) { kind.period().as_nanos() } else { 1 };
    u128::from(value).saturating_mul(period)
}

/// Returns `true` for CPU time whose samples stand for a known time.
fn is_time(kind: &SampleKind) -> bool {
    kind.is_cpu() && !kind.period().is_zero()
}

/// Distinct functions, in the order of their first use.
#[derive(Default)]
struct Frames {
    distinct: Interner<Frame>,
    /// Indices by frame and depth: a frame is formatted once.
    by_frame: HashMap<(u32, usize), u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Frame {
    name: String,
    /// Empty if it is unknown.
    file: String,
    /// 0 if it is unknown.
    line: u32,
}

impl Frames {
    /// Replaces `stack` by the frames of a sample, root first.
    fn stack(&mut self, sample: &Sample<'_>, stack: &mut Vec<u32>) {
        stack.clear();
        for name in origins(sample) {
            stack.push(self.distinct.intern(Frame { name: function::text(&name), ..Frame::default() }));
        }
        for call in sample.trace().calls() {
            stack.push(self.call(&call));
        }
    }

    fn call(&mut self, call: &Call<'_>) -> u32 {
        let key = match call {
            Call::Function { frame, depth } => Some((frame.id().0, *depth)),
            _ => None,
        };
        let known = key.and_then(|key| self.by_frame.get(&key).copied());
        known.unwrap_or_else(|| {
            let index = self.distinct.intern(Frame::of(call));
            self.by_frame.extend(key.map(|key| (key, index)));
            index
        })
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (index, frame) in self.distinct.items.iter().enumerate() {
            out.write_all(if index > 0 { b",\n{\"name\":" } else { b"\n{\"name\":" })?;
            write_string(out, &frame.name)?;
            if !frame.file.is_empty() {
                out.write_all(b",\"file\":")?;
                write_string(out, &frame.file)?;
            }
            if frame.line > 0 {
                write!(out, ",\"line\":{}", frame.line)?;
            }
            out.write_all(b"}")?;
        }
        Ok(())
    }
}

impl Frame {
    fn of(call: &Call<'_>) -> Frame {
        let source = function::source(call);
        let module = if call.kind() == Kind::Kernel { "[kernel]" } else { call.module().unwrap_or_default() };
        Frame {
            name: function::name(call),
            file: function::text(if source.is_empty() { module } else { source }),
            line: if source.is_empty() { 0 } else { call.symbol().map_or(0, |symbol| symbol.start_line) },
        }
    }
}

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";
