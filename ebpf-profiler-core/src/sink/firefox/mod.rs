//! Profiles of the [Firefox Profiler](https://profiler.firefox.com), by its [processed profile format], version 70.
//!
//! ```text
//!   { "meta": { "interval": 10, "startTime": 1700000000000, "preprocessedProfileVersion": 70, … },
//!     "libs": [],
//!     "threads": [
//!       { "name": "cat", "processName": "cat", "pid": "1000", "tid": 5000, …,
//!         "samples": { "length": 2, "time": [0.25,10.25], "stack": [1,0], "weight": null, "weightType": "samples",
//!                      "threadCPUDelta": [10000000,10000000] } }],
//!     "shared": { "stackTable": { "length": 2, "frame": [0,1], "prefixOffset": [0,1] }, "frameTable": …, "stringArray": … } }
//! ```
//!
//! Every event is a sample with its time. Each thread has a thread of the file for each kind of
//! events. Those of all kinds but the first have the kind in their name: `main (off-cpu)`.
//!
//! | kind | `weightType` | weight |
//! | --- | --- | --- |
//! | CPU time | `samples` | ticks that the event stands for, with `threadCPUDelta` as time |
//! | nanoseconds | `tracing-ms` | milliseconds |
//! | bytes | `bytes` | bytes |
//! | count | `samples` | the value |
//!
//! Losses are in "More info". Functions have names, not addresses. Labels are left out. Names are
//! cut after 1,024 characters.
//!
//! [processed profile format]: https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md

mod tables;
mod thread;

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::json::write_string;
use crate::profile::{Kind, Profile};
use tables::Tables;
use thread::Threads;

/// Writes the profile for the Firefox Profiler. Threads are written one by one; memory holds the
/// distinct stacks, and the events of one process.
///
/// # Errors
///
/// Fails if `out` does.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::firefox, testing};
///
/// let mut text = Vec::new();
/// firefox::write(&testing::profile("cat;main;read 2\ncat;main 1"), &mut text)?;
/// let text = String::from_utf8(text)?;
/// assert!(text.contains(r#""time":[0,0,10],"stack":[1,0,1],"weight":null,"weightType":"samples""#), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"meta\":{")?;
    write_meta(profile, out)?;
    out.write_all(b"},\n\"libs\":[],\"pages\":[],\"threads\":[")?;
    let mut tables = Tables::default();
    let mut threads = Threads::new(profile);
    for profile in profile.by_kind() {
        threads.write_kind(&profile, &mut tables, out)?;
    }
    out.write_all(b"],\n\"shared\":{")?;
    tables.write(out)?;
    out.write_all(b"}}\n")
}

fn write_meta(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let start = Millis(profile.start().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128);
    let end = Millis(profile.duration().as_nanos() as i128);
    let period = if profile.period().is_zero() { Duration::from_millis(1) } else { profile.period() };
    let interval = Millis(period.as_nanos() as i128);
    out.write_all(b"\"product\":")?;
    write_string(out, &super::title(profile))?;
    write!(
        out,
        ",\"importedFrom\":\"ebpf-profiler {}\",\"interval\":{interval},\"startTime\":{start},\
         \"profilingStartTime\":0,\"profilingEndTime\":{end},\"processType\":0,\"stackwalk\":1,\"debug\":false,\
         \"version\":{GECKO_VERSION},\"preprocessedProfileVersion\":{VERSION},\"symbolicated\":true,\
         \"platform\":\"Linux\",\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\"categories\":[",
        env!("CARGO_PKG_VERSION")
    )?;
    for (index, (_, name, color)) in CATEGORIES.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{{\"name\":\"{name}\",\"color\":\"{color}\",\"subcategories\":[\"Other\"]}}")?;
    }
    out.write_all(b"],\"extra\":[{\"label\":\"Profile\",\"entries\":[")?;
    write_entry(out, "Summary", "string", |out| write_string(out, &profile.summary().to_string()))?;
    for (reason, count) in profile.losses() {
        out.write_all(b",")?;
        write_entry(out, &format!("Lost: {reason}"), "integer", |out| write!(out, "{count}"))?;
    }
    out.write_all(b"]}]")
}

fn write_entry(
    out: &mut dyn Write,
    label: &str,
    format: &str,
    value: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"{\"label\":")?;
    write_string(out, label)?;
    write!(out, ",\"format\":\"{format}\",\"value\":")?;
    value(out)?;
    out.write_all(b"}")
}

/// Nanoseconds as a number of milliseconds, without rounding.
#[derive(Clone, Copy)]
struct Millis(i128);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / 1_000_000, self.0.unsigned_abs() % 1_000_000);
        match rest {
            0 => write!(f, "{sign}{whole}"),
            _ => f.write_str(format!("{sign}{whole}.{rest:06}").trim_end_matches('0')),
        }
    }
}

/// Returns the index of the category of a kind of code.
fn category(kind: Kind) -> usize {
    CATEGORIES.iter().position(|(of, ..)| *of == kind).unwrap_or(0)
}

/// Kinds of code with their names and colors. The first one is grey, which the format demands.
const CATEGORIES: [(Kind, &str, &str); 8] = [
    (Kind::Origin, "Other", "grey"),
    (Kind::Kernel, "Kernel", "blue"),
    (Kind::Rust, "Rust", "red"),
    (Kind::Cpp, "C++", "yellow"),
    (Kind::Native, "Native", "orange"),
    (Kind::Script, "Script", "purple"),
    (Kind::RunTime, "Made at run time", "green"),
    (Kind::Missing, "Missing frames", "darkgrey"),
];

/// Version of the processed profile format.
const VERSION: u32 = 70;

/// Version of the format of Firefox's own profiler, of which nothing is used here.
const GECKO_VERSION: u32 = 36;
