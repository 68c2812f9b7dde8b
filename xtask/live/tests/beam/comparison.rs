//! Comparison of sampled stacks with the chains of a program.

use std::collections::BTreeMap;

use live_suite::reference::chain::Call;
use live_suite::sampled::{Seen, Stack};

/// Frames that are no function of a module.
const OTHERS: &[&str] = &["process_main", "[beam fragment]"];

/// Functions that spin at the end of a chain begin with this.
const SPIN: &str = "spin";

/// Functions that these call, in Erlang.
const CALLED: &[&str] = &["make_list/2", "work/2", "math:sqrt/1", "erlang:"];

/// Number of frames of recursive functions by case. The virtual machine reports equal return
/// addresses in a row once.
const DEPTHS: &[(&str, usize)] = &[("recursion", 21), ("deep", 301)];

/// Returns the functions of modules in a stack, root first; empty for a scheduler without a
/// process.
pub(crate) fn functions(stack: &Stack) -> Vec<&Seen> {
    let is_function = |seen: &&Seen| match seen {
        Seen::Script { name, .. } => !OTHERS.contains(&name.as_str()),
        Seen::Native(_) => false,
    };
    stack.frames.iter().filter(is_function).collect()
}

/// Compares a stack with all chains. Returns the case whose chain it is, or the difference from the
/// closest one.
pub(crate) fn case<'c>(
    stack: &Stack,
    chains: &'c BTreeMap<String, Vec<Call>>,
) -> Result<(&'c str, u32), String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    // A stripped libc has no name for it.
    if !matches!(stack.frames.first(), Some(Seen::Native(_))) {
        return Err("doesn't begin at the start of the thread".to_owned());
    }
    let functions = functions(stack);
    let mut differences = Vec::new();
    for (case, chain) in chains {
        match compare(&functions, chain, case) {
            Ok(line) => return Ok((case, line)),
            Err(difference) => differences.push(difference),
        }
    }
    let closest = differences.into_iter().max_by_key(|(common, _)| *common);
    Err(closest.map_or_else(String::new, |(_, difference)| difference))
}

/// Compares functions with a chain. Fails with the number of frames in common and the difference.
fn compare(functions: &[&Seen], chain: &[Call], case: &str) -> Result<u32, (usize, String)> {
    let mut expected = chain.iter();
    let mut common = 0;
    let mut last: Option<&Seen> = None;
    let mut rest = functions.iter().peekable();
    let mut repeated = 0;
    while let Some(seen) = rest.peek() {
        let call = expected.clone().next();
        if call.is_some_and(|call| is_call(seen, call)) {
            expected.next();
            common += 1;
        } else if last == Some(**seen) {
            repeated += 1;
        } else if let Some(Call { name, file, line }) = call {
            return Err((common, format!("{seen} instead of {name}({file}:{line})")));
        } else {
            break;
        }
        last = rest.next().copied();
    }
    if let Some(call) = expected.next() {
        return Err((common, format!("ends before {}", call.name)));
    }
    let depth = DEPTHS.iter().find(|(name, _)| *name == case);
    // The outermost recursive call is on another line.
    if let Some((_, depth)) = depth
        && repeated + 2 != *depth
    {
        return Err((common, format!("{} instead of {depth} frames", repeated + 2)));
    }
    let mut line = 0;
    for (index, seen) in rest.enumerate() {
        let Seen::Script { name, line: spins, is_unnamed, .. } = seen else { continue };
        let function = name.rsplit([':', '.']).next().unwrap_or_default();
        let is_called = index > 0 && CALLED.iter().any(|called| name.contains(called));
        if *is_unnamed || !(index == 0 && function.starts_with(SPIN) || is_called) {
            return Err((common, format!("{seen} is one too many")));
        }
        line = *spins;
    }
    Ok(line)
}

fn is_call(seen: &Seen, call: &Call) -> bool {
    let Seen::Script { name, file, line, is_unnamed } = seen else { return false };
    !is_unnamed && *name == call.name && *file == call.file && *line == call.line
}
