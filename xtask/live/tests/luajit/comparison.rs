//! Comparison of sampled stacks with the expected chain.

use live_suite::comparison::Comparison;
use live_suite::reference::chain::Call;
use live_suite::sampled::{Seen, Stack};

/// Functions in C that the innermost function calls while it spins.
const CALLED: &[&str] = &["clock"];

/// Functions in C that call back through native frames of the interface to C; the others do so in
/// the loop.
const THROUGH_C: &[&str] = &["gsub", "sort", "error", "dofile", "qsort", "lua_pcall", "[C]"];

/// Compares all stacks of a process with its chain.
pub(crate) fn compare_all<'s>(
    stacks: impl IntoIterator<Item = &'s Stack>,
    chain: &[Call],
    program: &str,
) -> Comparison {
    let spin = spin_lines(program);
    Comparison::on(stacks, |stack| compare(stack, chain, &spin))
}

/// Returns the lines of a program that have the comment "spin".
fn spin_lines(program: &str) -> Vec<u32> {
    let lines = (1..).zip(program.lines());
    lines.filter(|(_, line)| line.ends_with("-- spin")).map(|(number, _)| number).collect()
}

/// Returns the line of the innermost expected function in an exact stack. Fails with the
/// difference.
fn compare(stack: &Stack, chain: &[Call], spin: &[u32]) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    if stack.frames.first() != Some(&Seen::Native("_start".to_owned())) {
        return Err("doesn't begin at _start".to_owned());
    }
    let mut expected = chain.iter();
    let mut innermost = None;
    let mut natives = 0;
    let mut before: Option<&Call> = None;
    for seen in &stack.frames {
        let Seen::Script { name, file, line, is_unnamed } = seen else {
            natives += 1;
            continue;
        };
        // The program that hosts LuaJIT.
        if before.is_none() && file.ends_with(".py") {
            continue;
        }
        if *is_unnamed {
            return Err(format!("unnamed, {name}"));
        }
        match expected.next() {
            Some(call) => {
                let is_last = expected.len() == 0;
                let is_right = if is_last { spin.contains(line) } else { call.line == *line };
                if *name != call.name || *file != call.file || !is_right {
                    return Err(format!("{seen} instead of {}:{}", call.name, call.line));
                }
                let is_through_c = before.is_some_and(|before| {
                    before.file.is_empty() && THROUGH_C.contains(&before.name.as_str())
                });
                if before.is_some() && (natives > 0) != is_through_c {
                    return Err(format!("{natives} native frames before {}", call.name));
                }
                innermost = is_last.then_some(*line);
                before = Some(call);
            }
            None if file.is_empty() && CALLED.contains(&name.as_str()) => {}
            None => return Err(format!("{seen} is one too many")),
        }
        natives = 0;
    }
    innermost.ok_or_else(|| match expected.next() {
        Some(call) => format!("ends before {}:{}", call.name, call.line),
        None => "no script frame".to_owned(),
    })
}
