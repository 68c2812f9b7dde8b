//! The program that causes events.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use benches::bpf::time_of_all;
use benches::options::option;
use benches::program::build;

use crate::Outcome;

/// The event that a program causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Switch,
    Malloc,
}

/// `programs/events.c`, with work between its events.
pub(crate) struct Workload {
    pub(crate) event: Event,
    program: PathBuf,
    work: u64,
}

/// One run.
pub(crate) struct Round {
    events: f64,
    elapsed: Duration,
    /// Time of all eBPF programs of the system.
    programs: Duration,
}

impl Workload {
    /// Builds the program, and sets its work so that events have their [distance](Event::distance).
    pub(crate) fn new(event: Event) -> Outcome<Workload> {
        const SOME: u64 = 5000;
        const WINDOW: Duration = Duration::from_millis(500);
        let built = option("program", PathBuf::new());
        let program = match built.as_os_str().is_empty() {
            true => build("events", false, env!("CARGO_TARGET_TMPDIR"))?,
            false => built,
        };
        let mut workload = Workload { event, program, work: 0 };
        let alone = workload.run(WINDOW)?.each();
        workload.work = SOME;
        let turn = (workload.run(WINDOW)?.each() - alone) / SOME as f64;
        workload.work = ((event.distance() - alone) / turn).max(0.0) as u64;
        Ok(workload)
    }

    /// Runs it for `window`.
    pub(crate) fn run(&self, window: Duration) -> Outcome<Round> {
        let seconds = window.as_secs_f64().to_string();
        let before = time_of_all()?;
        let output = Command::new(&self.program)
            .args([self.event.word(), &self.work.to_string(), &seconds])
            .output()?;
        let programs = time_of_all()?.saturating_sub(before);
        let text = String::from_utf8(output.stdout)?;
        let (events, elapsed) = text.trim().split_once(' ').ok_or("the program printed no number")?;
        let elapsed = Duration::from_secs_f64(elapsed.parse()?);
        Ok(Round { events: events.parse()?, elapsed, programs })
    }
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Event::Switch => "switch",
            Event::Malloc => "malloc",
        }
    }

    /// Returns the nanoseconds between two events.
    fn distance(self) -> f64 {
        match self {
            Event::Switch => 10_000.0,
            Event::Malloc => 1_000.0,
        }
    }
}

impl Round {
    /// Returns the nanoseconds for each event.
    pub(crate) fn each(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.events
    }

    /// Returns the nanoseconds in eBPF programs for each event.
    pub(crate) fn in_programs(&self) -> f64 {
        self.programs.as_nanos() as f64 / self.events
    }
}
