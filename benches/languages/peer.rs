//! The profiler of OpenTelemetry, if its path is given.

use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use benches::bpf::{PERF_EVENT, Ticking, program_of};
use benches::options::option;
use benches::peer::Peer as Profiler;
use benches::program::Running;
use benches::usage::of_process;

use crate::form::fixtures;
use crate::received::{Received, Window};
use crate::{Outcome, Turn};

/// The running profiler.
pub(crate) struct Peer {
    /// Id of its program. [`sampler`](benches::bpf::sampler) would find an open descriptor of it.
    sampler: u32,
    profiler: Profiler,
}

/// Name of its program for samples.
const PROGRAM: &str = "native_tracer_entry";

/// Interval of its profiles.
const INTERVAL: Duration = Duration::from_secs(1);

impl Peer {
    /// Starts the program of `--peer`; `None` without that option.
    pub(crate) fn start(hertz: u32) -> Outcome<Option<Peer>> {
        let program = option("peer", String::new());
        if program.is_empty() {
            return Ok(None);
        }
        // Its buffers have the size for this rate. Its own clocks are stopped: those of the bench run its
        // program.
        let hertz = hertz.to_string();
        let arguments = ["-samples-per-second", &hertz];
        let stopped = ["-probabilistic-threshold", "1", "-probabilistic-interval", "5m"];
        let arguments = [&arguments[..], &stopped].concat();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let profiler = Profiler::start(&program, &arguments, &fixtures(), folder)?;
        let sampler = profiler.program(PERF_EVENT, PROGRAM)?;
        Ok(Some(Peer { sampler, profiler }))
    }

    /// Samples a thread for one round. The stacks follow later: see [`Peer::held`].
    pub(crate) fn turn(&self, script: &Running, hertz: u32, window: Duration) -> Outcome<(Turn, Window)> {
        /// Discovers the process with its first sample.
        const SETTLE_TIME: Duration = Duration::from_secs(1);
        let sampler = program_of(self.sampler)?;
        let ticking = Ticking::start(sampler.as_raw_fd(), &[script.busiest_thread()?], hertz)?;
        sleep(SETTLE_TIME);
        let (user, begin) = (of_process(self.profiler.pid())?, now()?);
        let (runs, nanoseconds) = ticking.runs_and_time(window)?;
        let user = of_process(self.profiler.pid())? - user;
        let window = Window { pid: script.pid(), begin, end: now()? };
        Ok((Turn { runs, nanoseconds, user, samples: 0, held: 0, raw: 0 }, window))
    }

    /// Counts the samples of some rounds, and those with all calls, once no further ones arrive.
    pub(crate) fn held(&self, windows: &[Window], depth: u32) -> Outcome<(u64, u64)> {
        let mut before = (0, 0);
        loop {
            sleep(4 * INTERVAL);
            let now = Received::read(self.profiler.messages())?.held(windows, depth);
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }
}

/// Returns nanoseconds since 1970.
fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64)
}
