//! Threads of a file: the events of one kind in one thread.

use std::io::{self, Write};
use std::time::UNIX_EPOCH;

use hashbrown::{HashMap, HashSet};

use super::Millis;
use super::tables::Tables;
use crate::profile::{Profile, Sample, SampleKind, Unit};
use crate::sink::function;
use crate::sink::json::{write_array, write_string};

/// Writes threads, process by process.
pub(super) struct Threads {
    /// Start of the profile in nanoseconds since 1970.
    start: u64,
    /// Names of process ids: one that was used again has a number behind it.
    pids: Vec<String>,
    /// Processes whose main thread is written.
    with_main: HashSet<u32>,
    is_first: bool,
    kind: usize,
}

/// A thread with its events.
struct Thread<'p> {
    sample: Sample<'p>,
    events: Vec<Event>,
}

#[derive(Clone, Copy)]
struct Event {
    /// Nanoseconds since 1970.
    time: u64,
    stack: u32,
    value: u64,
}

impl Threads {
    pub(super) fn new(profile: &Profile) -> Threads {
        let start = profile.start().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut used: HashMap<u32, u32> = HashMap::new();
        let pids = profile.processes().iter().map(|process| {
            let uses = used.entry(process.pid).or_default();
            *uses += 1;
            if *uses == 1 { process.pid.to_string() } else { format!("{}.{}", process.pid, *uses - 1) }
        });
        Threads {
            start: u64::try_from(start.as_nanos()).unwrap_or(u64::MAX),
            pids: pids.collect(),
            with_main: HashSet::new(),
            is_first: true,
            kind: 0,
        }
    }

    /// Writes the threads of a profile with one kind.
    pub(super) fn write_kind(
        &mut self,
        profile: &Profile,
        tables: &mut Tables,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut threads: Vec<Thread<'_>> = Vec::new();
        let mut by_thread: HashMap<(u32, &str), usize> = HashMap::new();
        let mut process = None;
        for sample in profile.samples() {
            if process != Some(sample.thread().process) {
                self.write_threads(&mut threads, out)?;
                by_thread.clear();
                process = Some(sample.thread().process);
            }
            // A thread with several sets of labels is several of the profile.
            let key = (sample.thread().tid, &*sample.thread().name);
            let index = *by_thread.entry(key).or_insert(threads.len());
            if index == threads.len() {
                threads.push(Thread { sample, events: Vec::new() });
            }
            let stack = tables.stack(&sample);
            threads[index].add(&sample, stack);
        }
        self.write_threads(&mut threads, out)?;
        self.kind += 1;
        Ok(())
    }

    fn write_threads(&mut self, threads: &mut Vec<Thread<'_>>, out: &mut dyn Write) -> io::Result<()> {
        threads.drain(..).try_for_each(|mut thread| {
            thread.events.sort_by_key(|event| event.time);
            self.write_thread(&thread, out)
        })
    }

    fn write_thread(&mut self, thread: &Thread<'_>, out: &mut dyn Write) -> io::Result<()> {
        let Thread { sample, events } = thread;
        let (process, of) = (sample.process(), sample.thread());
        let kind = sample.kind();
        let is_main = of.tid == process.pid && self.with_main.insert(of.process.0);
        out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        out.write_all(b"{\"name\":")?;
        let name = function::text(&of.name);
        let tid = of.tid;
        match self.kind {
            0 => write_string(out, &name)?,
            _ => write_string(out, &format!("{name} ({})", function::text(kind.name())))?,
        }
        out.write_all(b",\"processName\":")?;
        write_string(out, &process_name(sample))?;
        write!(
            out,
            ",\"isMainThread\":{is_main},\"pid\":\"{}\",\"tid\":{},\"processType\":\"default\",\"registerTime\":0,\
             \"unregisterTime\":null,\"processStartupTime\":0,\"processShutdownTime\":null,\"pausedRanges\":[],\
             \"markers\":{{\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],\
             \"category\":[]}},\"samples\":",
            self.pids[of.process.0 as usize],
            if self.kind == 0 { tid.to_string() } else { format!("\"{tid}.{}\"", self.kind) },
        )?;
        self.write_events(kind, events, out)?;
        out.write_all(b"}")
    }

    fn write_events(&self, kind: &SampleKind, events: &[Event], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\"length\":{},\"time\":", events.len())?;
        let since = |time: u64| Millis(i128::from(time) - i128::from(self.start));
        write_array(out, events.iter().map(|event| since(event.time)))?;
        out.write_all(b",\"stack\":")?;
        write_array(out, events.iter().map(|event| event.stack))?;
        out.write_all(b",\"weight\":")?;
        match kind.unit() {
            Unit::Nanoseconds => {
                write_array(out, events.iter().map(|event| Millis(event.value.into())))?;
            }
            Unit::Count if events.iter().all(|event| event.value == 1) => out.write_all(b"null")?,
            _ => write_array(out, events.iter().map(|event| event.value))?,
        }
        let weight_type = match kind.unit() {
            Unit::Nanoseconds => "tracing-ms",
            Unit::Bytes => "bytes",
            Unit::Count => "samples",
        };
        write!(out, ",\"weightType\":\"{weight_type}\"")?;
        if kind.is_cpu() {
            let time = |event: &Event| u128::from(event.value).saturating_mul(kind.period().as_nanos());
            out.write_all(b",\"threadCPUDelta\":")?;
            write_array(out, events.iter().map(time))?;
        }
        out.write_all(b"}")
    }
}

impl Thread<'_> {
    fn add(&mut self, sample: &Sample<'_>, stack: u32) {
        let values = sample.values().iter().copied().chain(std::iter::repeat(1));
        let events = sample.timestamps().iter().zip(values);
        self.events.extend(events.map(|(&time, value)| Event { time, stack, value }));
    }
}

/// Returns the name of the executable, else of the thread.
fn process_name(sample: &Sample<'_>) -> String {
    let executable = sample.process().executable.rsplit('/').next().unwrap_or_default();
    function::text(if executable.is_empty() { &sample.thread().name } else { executable })
}
