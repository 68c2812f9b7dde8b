//! Benchmarks of pyperformance, and a pool of processes, under the profiler.
//!
//! ```text
//! $ cargo xtask pythons packages
//! $ cargo bench -p benches --bench pyperformance -- --pythons pyenv-3.13,debian-3.14 --jobs richards,pool
//! ```
//!
//! Each job runs twice, under a profiler with the language and under one without, which is
//! otherwise built and set up the same. Shares are of all samples of the first, from the job's
//! first instruction on, including the start of the interpreter and imports. The cost is from the
//! kernel's statistics of the sampling program, of samples from one second after the start on. The
//! cost of samples of other processes is measured separately and subtracted.
//!
//! After the table follow, per interpreter, the reasons for incomplete stacks and for frames
//! without names; `--examples 1` adds a stack for each.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

mod job;

mod shares;

use std::error::Error;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use benches::bpf::{Statistics, runs, sampler};
use benches::interpreter::{Interpreter, interpreters};
use benches::options::{option, want_root};
use benches::report::{print, row};
use ebpf_profiler_core::Profiler;
use job::{Job, POOL};
use shares::{Frames, Shares};

/// Default interpreters, by parts of their names.
const PYTHONS: &str = "pyenv-3.9,pyenv-3.11,pyenv-3.13,debian-3.14";

/// Default jobs: calls, loops, generators, coroutines, C with and without callbacks, libraries,
/// threads and processes.
const JOBS: &str = "richards,deltablue,raytrace,nbody,generators,coroutines,async_generators,async_tree,deepcopy,\
    logging,json_dumps,pickle,regex_compile,regex_effbot,sqlite_synth,xml_etree,pyflate,crypto_pyaes,html5lib,\
    docutils,concurrent_imap,python_startup";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("pyperformance");
    let bench =
        Bench { hertz: option("hertz", 997), window: Duration::from_secs_f64(option("seconds", 3.0)) };
    let jobs = option("jobs", format!("{JOBS},{POOL}"));
    let _statistics = Statistics::enable()?;
    let foreign = bench.foreign()?;
    println!(
        "{} Hz, {:.0} s a run, {foreign:.0} ns on a tick of other processes\n",
        bench.hertz,
        bench.window.as_secs_f64() + WARM.as_secs_f64()
    );
    for interpreter in interpreters(&job::fixtures(), &option("pythons", PYTHONS.to_owned()))? {
        let mut table = vec![row([
            interpreter.name.as_str(),
            "samples",
            "whole %",
            "with script %",
            "script frames",
            "unnamed",
            "native frames",
            "unnamed",
            "ns with",
            "ns without",
            "ratio",
        ])];
        let mut all = Shares::default();
        for job in jobs.split(',') {
            table.push(bench.job(&interpreter, job, foreign, &mut all)?);
        }
        print(&table);
        explain(&all, option("examples", 0));
    }
    Ok(())
}

/// Warm-up of a job before its samples are timed.
const WARM: Duration = Duration::from_secs(1);

struct Bench {
    hertz: u32,
    window: Duration,
}

/// One run of a job.
struct Turn {
    shares: Shares,
    nanoseconds: f64,
}

impl Bench {
    /// Runs both profilers and returns a row of the table.
    fn job(
        &self,
        interpreter: &Interpreter,
        job: &str,
        foreign: f64,
        all: &mut Shares,
    ) -> Outcome<Vec<String>> {
        let Some(with) = self.turn(interpreter, job, true, foreign)? else {
            return Ok(row([job, "doesn't run here"]));
        };
        let without = self.turn(interpreter, job, false, foreign)?.map_or(f64::NAN, |turn| turn.nanoseconds);
        let shares = with.shares;
        all.add_all(&shares);
        let share = |part: u64, of: u64| format!("{:.2}", 100.0 * part as f64 / of.max(1) as f64);
        let unnamed =
            |frames: Frames| format!("{} ({} %)", frames.unnamed, share(frames.unnamed, frames.all));
        Ok(vec![
            job.to_owned(),
            shares.samples.to_string(),
            share(shares.whole, shares.samples),
            share(shares.scripted, shares.samples),
            format!("{:.1}", shares.scripts.all as f64 / shares.samples.max(1) as f64),
            unnamed(shares.scripts),
            format!("{:.1}", shares.native.all as f64 / shares.samples.max(1) as f64),
            unnamed(shares.native),
            format!("{:.0}", with.nanoseconds),
            format!("{without:.0}"),
            format!("{:.2}", with.nanoseconds / without),
        ])
    }

    /// Profiles a job from its first instruction on. Returns `None` if the job ends by itself, as
    /// one that does not support this version does.
    fn turn(&self, interpreter: &Interpreter, job: &str, knows: bool, foreign: f64) -> Outcome<Option<Turn>> {
        let mut job = Job::prepare(interpreter, job)?;
        let languages = if knows { ebpf_profiler_hll::all() } else { Vec::new() };
        let profiler = Profiler::builder()
            .frequency(self.hertz)
            .pid(job.pid())
            .unwind(ebpf_profiler_unwind::tables())
            .languages(languages)
            .start()?;
        let sampler = sampler()?;
        job.begin()?;
        sleep(WARM);
        let mut shares = Shares::default();
        shares.add(&profiler.take_profile()?);
        let before = runs(sampler)?;
        sleep(self.window);
        let after = runs(sampler)?;
        let runs_here = job.is_running()?;
        let (profile, health) = profiler.finish()?;
        if option("health", 0) > 0 {
            println!("{health:#?}");
        }
        shares.add(&profile);
        let samples = profile.count() as f64;
        let others = (after.0 - before.0) as f64 - samples;
        let ran = (after.1 - before.1).as_nanos() as f64;
        let nanoseconds = (ran - others.max(0.0) * foreign) / samples.max(1.0);
        Ok(runs_here.then_some(Turn { shares, nanoseconds }))
    }

    /// Returns the nanoseconds per sample of a process that is filtered out.
    fn foreign(&self) -> Outcome<f64> {
        let mut asleep = Command::new("sleep").arg("1000").spawn()?;
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn()?;
        let profiler =
            Profiler::builder().frequency(self.hertz).pid(asleep.id()).frame_pointers_only().start()?;
        let before = runs(sampler()?)?;
        sleep(WARM);
        let after = runs(sampler()?)?;
        drop(profiler);
        for child in [&mut asleep, &mut busy] {
            child.kill()?;
            child.wait()?;
        }
        Ok((after.1 - before.1).as_nanos() as f64 / (after.0 - before.0).max(1) as f64)
    }
}

/// Prints the problems, the most frequent first.
fn explain(shares: &Shares, examples: u32) {
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    println!(
        "all: {} samples, {:.3} % whole; {} of {} script frames unnamed ({:.4} %), {} of {} native ones ({:.4} %)",
        shares.samples,
        share(shares.whole, shares.samples),
        shares.scripts.unnamed,
        shares.scripts.all,
        share(shares.scripts.unnamed, shares.scripts.all),
        shares.native.unnamed,
        shares.native.all,
        share(shares.native.unnamed, shares.native.all),
    );
    let mut causes: Vec<_> = shares.causes.iter().collect();
    causes.sort_by_key(|(_, cause)| std::cmp::Reverse(cause.count));
    for (why, cause) in causes {
        println!("  {:>7}  {why}", cause.count);
        if examples > 0 {
            println!("           {}", cause.example);
        }
    }
    println!();
}
