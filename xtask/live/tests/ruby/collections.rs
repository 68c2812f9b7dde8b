//! Garbage collection: its share of the samples against the processor time that Ruby itself
//! measured for its collector.

use std::fmt::Write as _;

use live_suite::sampled::profiler;

use crate::comparison::Comparison;
use crate::program::Ruby;
use crate::seen::{Seen, Stack, stacks};

pub(crate) const COLLECTION: &str = "[garbage collection]";

/// The function whose time is measured, and what it calls: the functions that collect, root first,
/// and the one that doesn't.
const MEASURED: &str = "Collects.measured";
const COLLECTING: &[&str] = &[
    "Collects.until;Collects.allocates;Integer#times;block in Collects.allocates",
    "Collects.until;Collects.allocates;Integer#times;block in Collects.allocates;Integer#to_s",
    "Collects.until;Collects.starts;GC.start",
];
const OTHER: &str = "Collects.counts";

/// Processor time of a program, in seconds.
const SECONDS: &str = "3";

/// Greatest deviation from the share of time that chance makes, in standard deviations.
const DEVIATIONS: f64 = 4.0;

/// Profiles the program from its start to its end. Fails if the share of collections is not that of
/// their time.
pub(crate) fn check(ruby: &Ruby) -> Result<Comparison, String> {
    let profiler = profiler([std::process::id()], crate::FREQUENCY);
    let output = ruby.command("collects.rb").arg(SECONDS).output().unwrap();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    let printed = String::from_utf8(output.stdout).unwrap();
    let (time, collecting) = printed.trim().split_once('\t').unwrap();
    let share = collecting.parse::<f64>().unwrap() / time.parse::<f64>().unwrap();
    let mut comparison = Comparison::default();
    let (mut all, mut found) = (0, 0);
    for stack in stacks(&profile).iter().filter(|stack| stack.ruby().any(|seen| name(seen) == MEASURED)) {
        all += stack.count;
        let is_collection = stack.ruby().any(|seen| name(seen) == COLLECTION);
        found += if is_collection { stack.count } else { 0 };
        comparison.add(stack, compare(stack, is_collection));
    }
    let deviation = (share * (1.0 - share) * all as f64).sqrt();
    let difference = found as f64 - share * all as f64;
    let mut text = format!("{found} of {all} samples collect, and {share:.4} of the time");
    let _ = write!(text, " ({:.1} standard deviations)", difference / deviation);
    println!("{text}");
    if difference.abs() <= DEVIATIONS * deviation { Ok(comparison) } else { Err(text) }
}

fn name(seen: &Seen) -> &str {
    match seen {
        Seen::Ruby { name, .. } | Seen::Native { name, .. } => name,
    }
}

/// Compares a stack with the functions that collect: native frames follow, and no others.
fn compare(stack: &Stack, is_collection: bool) -> Result<(), String> {
    if let Some(reason) = &stack.broken {
        return Err(format!("broken: {reason}"));
    }
    let mut names: Vec<_> = stack.ruby().map(name).collect();
    if !is_collection {
        return Ok(());
    }
    if names.pop() != Some(COLLECTION) || names.contains(&OTHER) {
        return Err("collection is not the innermost frame, or in a loop that allocates nothing".to_owned());
    }
    let measured = names.iter().position(|name| *name == MEASURED).map_or(0, |at| at + 1);
    let shown = names[measured..].join(";");
    let is_native = matches!(stack.frames.last(), Some(Seen::Native { .. }));
    match COLLECTING.contains(&shown.as_str()) && is_native {
        true => Ok(()),
        false => Err(format!("no such chain: {shown}")),
    }
}
