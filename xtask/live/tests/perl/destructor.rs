//! The stack around a destructor in C, which Perl calls within an `eval` on a stack without subs
//! and without a loop.

use std::time::Duration;

use crate::PER_MILLE;
use crate::interpreter::Interpreter;
use live_suite::comparison::Comparison;
use live_suite::reference::chain::Running;
use live_suite::sampled::profile;
use live_suite::sampled::{Seen, Stack, stacks};

/// Profiling time.
const DURATION: Duration = Duration::from_secs(2);

/// The subs that free the object.
const SUBS: [&str; 3] = ["{main}", "main::outer", "main::inner"];

/// Frame of the call of the destructor.
const CALL: &str = "(eval)";

/// Fails if a destructor hides the subs outside it.
pub(crate) fn check(interpreter: &Interpreter) {
    let running = Running::start(interpreter.program(&[], "destructor.pl", &[]));
    let stacks = stacks(&profile([running.pid()], DURATION));
    let comparison = Comparison::on(&stacks, compare);
    let name = &interpreter.name;
    println!("share\tperl\t{name}\tdestructor\t{}\t{}", comparison.exact, comparison.samples);
    assert!(comparison.is_good(PER_MILLE), "{name}: {comparison}");
    let in_destructor = comparison.lines.get(&1).copied().unwrap_or(0);
    assert!(
        in_destructor * 2 > comparison.samples,
        "{name}: {in_destructor} of {} samples",
        comparison.samples
    );
}

/// Returns 1 for a stack in the destructor, 0 for an exact one before it. Fails with the
/// difference.
fn compare(stack: &Stack) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    let script = |seen: &Seen| match seen {
        Seen::Script { name, .. } => Some(name.clone()),
        Seen::Native(_) => None,
    };
    let scripts: Vec<_> = stack.frames.iter().filter_map(script).collect();
    let expected = &SUBS[..scripts.len().min(SUBS.len())];
    match scripts.split_at(expected.len()) {
        ([], _) => Err("no script frames".to_owned()),
        (subs, []) if subs == expected => Ok(0),
        (subs, [call]) if subs == expected && call == CALL => Ok(1),
        _ => Err(scripts.join(";")),
    }
}
