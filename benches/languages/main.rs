//! Cost of frames of all languages: of a sample at several depths, in the kernel and in user space.
//! On request beside the profiler of OpenTelemetry, in turns within one run.
//!
//! ```text
//! $ cargo bench -p benches --bench languages -- --forms php,perl --peer /usr/local/bin/ebpf-profiler
//! form  frames  ns  peer's ns  ratio  ns a frame  peer's ns a frame  ratio  ...
//! ```
//!
//! A program of `programs` calls itself to a depth and burns the CPU there. The profiler's clock is
//! nearly stopped, and a clock on the thread that burns runs its program, as in `kernel_side`; then
//! the same clock runs the program of the other side. Without `--peer` that is this profiler
//! without languages, which unwinds the native frames only. A further frame costs the difference of
//! two depths, divided by that of the depths.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

mod form;

mod ours;

mod peer;

mod received;

use std::error::Error;
use std::time::Duration;

use benches::bpf::Statistics;
use benches::options::{option, want_root};
use benches::program::Running;
use benches::report::{median, print, row};
use form::{FORMS, Form};
use peer::Peer;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("languages");
    let bench = Bench {
        hertz: option("hertz", 997),
        window: Duration::from_secs_f64(option("seconds", 1.0)),
        interpreter: option("interpreter", String::new()),
        rounds: option("rounds", 5),
    };
    let depths = numbers(&option("depths", "20,100".to_owned()))?;
    let _statistics = Statistics::enable()?;
    let peer = Peer::start(bench.hertz)?;
    let wanted = option("forms", String::new());
    let is_wanted =
        |form: &&Form| wanted.is_empty() || wanted.split(',').any(|part| form.name.starts_with(part));
    println!(
        "{} Hz, {} rounds; second of each pair: {}\n",
        bench.hertz,
        bench.rounds,
        match &peer {
            Some(_) => "the peer",
            None => "without languages",
        }
    );
    let mut table = vec![row([
        "form",
        "frames",
        "ns",
        "ns",
        "ratio",
        "ns a frame",
        "ns a frame",
        "ratio",
        "user ns",
        "user ns",
        "chains held",
        "chains held",
        "raw",
    ])];
    for form in FORMS.iter().filter(is_wanted) {
        // Not each interpreter has each compiler.
        if let Err(error) = bench.form(form, &depths, peer.as_ref(), &mut table) {
            println!("{}: {error}", form.name);
        }
    }
    print(&table);
    Ok(())
}

fn numbers(text: &str) -> Outcome<Vec<u32>> {
    Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

struct Bench {
    hertz: u32,
    window: Duration,
    /// Command instead of the form's interpreter.
    interpreter: String,
    rounds: u32,
}

/// Result of one round.
struct Turn {
    /// Runs of the sampling program.
    runs: u64,
    /// Time of a sample in the kernel.
    nanoseconds: f64,
    /// CPU time of the profiler's process.
    user: Duration,
    samples: u64,
    /// Samples with all calls.
    held: u64,
    /// Samples that user space unwinds.
    raw: u64,
}

/// Medians of one side at one depth.
#[derive(Clone, Copy)]
struct Side {
    runs: u64,
    kernel: f64,
    /// CPU time of the process for a run.
    user: f64,
    samples: u64,
    held: u64,
    raw: u64,
}

impl Bench {
    /// Adds a row for each depth.
    fn form(
        &self,
        form: &Form,
        depths: &[u32],
        peer: Option<&Peer>,
        table: &mut Vec<Vec<String>>,
    ) -> Outcome {
        let mut shorter: Option<(u32, [Side; 2])> = None;
        for &depth in depths {
            let script = form.start(&self.interpreter, depth)?;
            let sides = self.depth(&script, depth, peer)?;
            let further = shorter.map(|(less, before)| {
                let frames = f64::from(depth) - f64::from(less);
                [0, 1].map(|side| (sides[side].kernel - before[side].kernel) / frames)
            });
            shorter = Some((depth, sides));
            let [ours, theirs] = sides;
            let mut cells = row([form.name, &depth.to_string()]);
            cells.extend(pair([ours.kernel, theirs.kernel]));
            cells.extend(further.map_or(vec![String::new(); 3], pair));
            cells.extend([ours, theirs].map(|side| format!("{:.0}", side.user)));
            cells.extend([ours, theirs].map(|side| {
                let share = 100.0 * side.held as f64 / side.samples.max(1) as f64;
                format!("{share:.2} % of {} ({})", side.samples, side.runs)
            }));
            cells.push(ours.raw.to_string());
            table.push(cells);
        }
        Ok(())
    }

    /// Samples a program by both sides in turns.
    fn depth(&self, script: &Running, depth: u32, peer: Option<&Peer>) -> Outcome<[Side; 2]> {
        let (mut ours, mut theirs, mut windows) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            ours.push(ours::turn(script, depth, self.hertz, self.window, true)?);
            match peer {
                Some(peer) => {
                    let (turn, window) = peer.turn(script, self.hertz, self.window)?;
                    theirs.push(turn);
                    windows.push(window);
                }
                None => theirs.push(ours::turn(script, depth, self.hertz, self.window, false)?),
            }
        }
        let mut sides = [Side::of(&ours), Side::of(&theirs)];
        if let Some(peer) = peer {
            (sides[1].samples, sides[1].held) = peer.held(&windows, depth)?;
        }
        Ok(sides)
    }
}

impl Side {
    fn of(turns: &[Turn]) -> Side {
        let user = |turn: &Turn| turn.user.as_nanos() as f64 / turn.runs.max(1) as f64;
        Side {
            runs: turns.iter().map(|turn| turn.runs).sum(),
            kernel: median(&turns.iter().map(|turn| turn.nanoseconds).collect::<Vec<_>>()),
            user: median(&turns.iter().map(user).collect::<Vec<_>>()),
            samples: turns.iter().map(|turn| turn.samples).sum(),
            held: turns.iter().map(|turn| turn.held).sum(),
            raw: turns.iter().map(|turn| turn.raw).sum(),
        }
    }
}

/// Formats two figures and their ratio.
fn pair([ours, theirs]: [f64; 2]) -> Vec<String> {
    vec![format!("{ours:.0}"), format!("{theirs:.0}"), format!("{:.2}", ours / theirs)]
}
