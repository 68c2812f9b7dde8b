//! Comparison of sampled stacks with the expected chain.

use live_suite::comparison::Comparison;
use live_suite::reference::chain::Call;
use live_suite::sampled::{Seen, Stack};

/// Internal functions that the innermost function may be in: the program calls them while it spins.
const CALLED: &[&str] =
    &["microtime", "strrev", "strcmp", "is_string", "array_map", "usort", "array_filter", "preg_match"];

/// Native functions at which processes and threads begin.
const ROOTS: &[&str] = &["_start", "clone3", "__clone3"];

/// Native functions that only a missing run of script frames would show.
const LOOP: &str = "execute_ex";

/// The line of the innermost function in code of the JIT, which has none.
const NO_LINE: u32 = 0;

/// Compares all stacks of a process with its chain. With a JIT the innermost function may be
/// without a line.
pub(crate) fn compare_all<'s>(
    stacks: impl IntoIterator<Item = &'s Stack>,
    chain: &[Call],
    has_jit: bool,
) -> Comparison {
    let mut spin = chain.last().map(|call| spin_lines(&call.name)).unwrap_or_default();
    spin.extend(has_jit.then_some(NO_LINE));
    Comparison::on(stacks, |stack| compare(stack, chain, &spin))
}

/// Returns the lines of a function that have the comment "spin".
fn spin_lines(function: &str) -> Vec<u32> {
    let text = include_str!("programs/chains.php");
    let head = format!("function {}(", function.rsplit('\\').next().unwrap_or_default());
    let lines: Vec<_> = (1..).zip(text.lines()).collect();
    let inside = lines.iter().skip_while(|(_, line)| !line.contains(&head)).skip(1);
    let inside = inside.take_while(|(_, line)| *line != "}");
    inside.filter(|(_, line)| line.ends_with("// spin")).map(|(number, _)| *number).collect()
}

/// Returns the line of the innermost expected function in an exact stack. Fails with the
/// difference.
fn compare(stack: &Stack, chain: &[Call], spin: &[u32]) -> Result<u32, String> {
    // PHP's own assembly code starts a fiber's stack, without unwind data.
    let is_fiber = in_fiber(chain).len() < chain.len();
    if let Some(cut) = stack.cut.as_ref().filter(|_| !is_fiber) {
        return Err(format!("cut: {cut}"));
    }
    let roots = if is_fiber { &["make_fcontext"][..] } else { ROOTS };
    // A stripped program has no names.
    let is_root =
        |seen: &Seen| matches!(seen, Seen::Native(name) if roots.contains(&&**name) || name.is_empty());
    if !stack.frames.first().is_some_and(is_root) {
        return Err(format!("doesn't begin at {roots:?}"));
    }
    if stack.frames.iter().any(|seen| *seen == Seen::Native(LOOP.to_owned())) {
        return Err("a loop without its script frames".to_owned());
    }
    let chain = in_fiber(chain);
    let mut expected = chain.iter();
    let mut innermost = None;
    let mut natives = 0;
    let mut before: Option<&Call> = None;
    for seen in &stack.frames {
        let Seen::Script { name, file, line, is_unnamed } = seen else {
            natives += 1;
            continue;
        };
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
                // An internal function calls back through its C function.
                let is_back = !call.file.is_empty() && before.is_some_and(|before| before.file.is_empty());
                if is_back && natives == 0 {
                    return Err(format!("no native frame before {}", call.name));
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

/// The frames of a fiber have a native stack of their own, which begins with the fiber.
fn in_fiber(chain: &[Call]) -> &[Call] {
    let start = chain.iter().rposition(|call| call.name == "Fiber::start");
    start.map_or(chain, |at| &chain[at + 1..])
}
