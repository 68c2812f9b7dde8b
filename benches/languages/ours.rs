//! This profiler, with its languages and without.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use benches::bpf::{Ticking, sampler};
use benches::chain::{Seen, holds};
use benches::options::option;
use benches::program::Running;
use benches::usage::{all_on_cpu, on_cpu};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{FrameView, Profile};
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::Frame;

use crate::{Outcome, Turn};

/// Samples a thread for one round.
pub(crate) fn turn(
    script: &Running,
    depth: u32,
    hertz: u32,
    window: Duration,
    has_names: bool,
) -> Outcome<Turn> {
    // Loads what the languages need, and names what is called.
    let settle = Duration::from_secs_f64(option("settle", 0.3));
    let builder = Profiler::builder().frequency(1).pid(script.pid());
    let builder = builder.unwind(ebpf_profiler_unwind::tables()).symbolizer(NoSymbols);
    let languages = if has_names { ebpf_profiler_hll::all() } else { Vec::new() };
    let profiler = builder.languages(languages).start()?;
    sleep(settle);
    let ticking = Ticking::start(sampler()?, &[script.busiest_thread()?], hertz)?;
    sleep(settle);
    profiler.take_profile()?;
    let raw = || profiler.health().pipeline.raw;
    let (before, raw_before) = (user_time()?, raw());
    let (runs, nanoseconds) = ticking.runs_and_time(window)?;
    let user = user_time()? - before;
    let profile = profiler.take_profile()?;
    Ok(Turn {
        runs,
        nanoseconds,
        user,
        samples: profile.count(),
        held: held(&profile, depth),
        raw: raw() - raw_before,
    })
}

/// Returns the CPU time of the profiler's threads, which are all but this one.
fn user_time() -> io::Result<Duration> {
    Ok(all_on_cpu().saturating_sub(on_cpu()))
}

/// Counts samples with the known calls.
fn held(profile: &Profile, depth: u32) -> u64 {
    let is_held = |sample: &ebpf_profiler_core::profile::Sample<'_>| {
        let stack: Vec<Seen> = sample.trace().frames().map(|frame| seen(&frame)).collect();
        holds(&stack, depth)
    };
    profile.samples().filter(is_held).map(|sample| sample.count()).sum()
}

fn seen(frame: &FrameView<'_>) -> Seen {
    match frame.frame() {
        Frame::Native { .. } => Seen::Native,
        Frame::Script { .. } => {
            Seen::Script(frame.script().map_or(String::new(), |script| script.name.to_string()))
        }
        _ => Seen::Other,
    }
}
