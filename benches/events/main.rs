//! Cost of an event that is sampled, and of one that is not, to the program that causes it.
//!
//! ```text
//! $ cargo bench -p benches --bench events -- --rounds 9 --seconds 1
//! event                 ns in programs  ns in all  slowed by  half of them    a second
//! ```
//!
//! A program switches between two threads some 100,000 times a second, or allocates a million
//! times, with work between. It runs in turns without a profiler and under each of the sides, so a
//! pair of rounds sees the same load of the machine.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

mod side;

mod workload;

use std::error::Error;
use std::time::Duration;

use benches::bpf::Statistics;
use benches::options::{option, want_root};
use benches::report::{median, print, quartiles, row};

use side::{SIDES, Side};
use workload::{Round, Workload};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("events");
    let window = Duration::from_secs_f64(option("seconds", 1.0));
    let rounds = option("rounds", 9);
    let sides: String = option("side", String::new());
    let is_wanted = |number: u32| sides.is_empty() || sides.split(',').any(|one| one.parse() == Ok(number));
    let _statistics = Statistics::enable()?;
    let mut table = vec![row([
        "event",
        "ns in programs",
        "ns in all",
        "slowed by",
        "half of them",
        "events a second",
        "samples",
    ])];
    let mut workload: Option<Workload> = None;
    for (number, side) in (1..).zip(SIDES) {
        if !is_wanted(number) {
            continue;
        }
        if workload.as_ref().is_none_or(|workload| workload.event != side.event) {
            workload = Some(Workload::new(side.event)?);
        }
        let Some(workload) = &workload else { continue };
        eprintln!("{}", side.name);
        match side.why_not() {
            Some(reason) => table.push(row([side.name, reason, "", "", "", "", ""])),
            None => table.push(compare(side, workload, window, rounds)?),
        }
    }
    println!("{rounds} rounds of {window:?}\n");
    print(&table);
    Ok(())
}

/// Runs the workload without and under a side, in turns, and returns a row of the table.
fn compare(side: &Side, workload: &Workload, window: Duration, rounds: u32) -> Outcome<Vec<String>> {
    let (mut pairs, mut samples) = (Vec::new(), 0);
    for _ in 0..rounds {
        let without = workload.run(window)?;
        let running = side.start()?;
        let under = workload.run(window)?;
        samples += running.stop()?;
        pairs.push((without, under));
    }
    let of = |figure: &dyn Fn(&(Round, Round)) -> f64| pairs.iter().map(figure).collect::<Vec<f64>>();
    let slowed = of(&|(without, under)| under.each() / without.each());
    let (low, high) = quartiles(&slowed);
    Ok(vec![
        side.name.to_owned(),
        format!("{:.0}", median(&of(&|(_, under)| under.in_programs()))),
        format!("{:.0}", median(&of(&|(without, under)| under.each() - without.each()))),
        format!("{:.2}", median(&slowed)),
        format!("{low:.2} to {high:.2}"),
        format!("{:.0}", median(&of(&|(without, _)| 1e9 / without.each()))),
        samples.to_string(),
    ])
}
