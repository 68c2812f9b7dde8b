//! Stacks of a program that loads libraries all the time: many are unwound from copies, which lack
//! the frames of Perl.

use std::time::Duration;

use crate::interpreter::Interpreter;
use live_suite::comparison::Comparison;
use live_suite::reference::chain::Running;
use live_suite::sampled::profile;
use live_suite::sampled::{Seen, Stack, stacks};

/// Profiling time.
const DURATION: Duration = Duration::from_secs(4);

/// Fails if a stack has frames of another moment.
pub(crate) fn check(interpreter: &Interpreter) {
    let running = Running::start(interpreter.program(&[], "loading.pl", &[]));
    let stacks = stacks(&profile([running.pid()], DURATION));
    let comparison = Comparison::on(&stacks, compare);
    let name = &interpreter.name;
    println!("share\tperl\t{name}\tloading\t{}\t{}", comparison.exact, comparison.samples);
    assert_eq!(comparison.exact, comparison.samples, "{name}: {comparison}");
    let at_leaf = comparison.lines.get(&1).copied().unwrap_or(0);
    assert!(
        at_leaf * 2 > comparison.samples,
        "{name}: {at_leaf} of {} samples at the leaf",
        comparison.samples
    );
}

/// Returns 1 for a stack at the end of a chain, 0 for another one. Fails if the chain has not the
/// depth that its beginning says.
fn compare(stack: &Stack) -> Result<u32, String> {
    let name = |seen: &Seen| match seen {
        Seen::Script { name, .. } => Some(name.clone()),
        Seen::Native(_) => None,
    };
    let names: Vec<_> = stack.frames.iter().filter_map(name).collect();
    let Some(depth) = names.iter().find_map(|name| name.strip_prefix("Chains::run_")?.parse::<usize>().ok())
    else {
        let is_inside = names.iter().any(|name| name.starts_with("Chains::"));
        return if is_inside { Err(names.join(";")) } else { Ok(0) };
    };
    let downs = names.iter().filter(|name| *name == "Chains::down").count();
    let is_at_leaf = names.iter().any(|name| name == "Chains::leaf");
    match is_at_leaf {
        true if downs == depth + 1 => Ok(1),
        false if downs <= depth + 1 => Ok(0),
        _ => Err(names.join(";")),
    }
}
