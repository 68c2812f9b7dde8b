//! Comparison of sampled stacks with the chains of a program.

use std::collections::BTreeMap;

use live_suite::reference::chain::Call;
use live_suite::sampled::{Seen, Stack};

use crate::map::Methods;

/// Frames that the runtime doesn't report: code that it generates for calls.
const OTHERS: &[&str] = &["[.NET stub]", "IL_STUB"];

/// Methods that the runtime reports although they have no code: they stand for functions in C++ and C.
const WITHOUT_CODE: &[&str] = &["System.RuntimeMethodHandle.InvokeMethod", "Truth.Chains.qsort"];

/// Methods of threads that wait for work.
const WAITS: &str = "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart";

/// Methods that spin, and those that they may call; the library's where a name ends with a dot.
const SPIN: &[(&str, &[&str])] = &[
    ("Truth.Chains.Leaf", &["Truth.Spin.Forever"]),
    (
        "Truth.Spin.Forever",
        &["Truth.Spin.Loop", "Truth.Spin.Calls", "Truth.Spin.Allocates", "Truth.Spin.Library"],
    ),
    ("Truth.Spin.Loop", &[]),
    ("Truth.Spin.Calls", &["Truth.Spin.Wraps", "Truth.Spin.Saves"]),
    ("Truth.Spin.Wraps", &["Truth.Spin.Leaf"]),
    ("Truth.Spin.Saves", &["Truth.Spin.Leaf"]),
    ("Truth.Spin.Leaf", &[]),
    ("Truth.Spin.Allocates", &["Truth.Spin.Node..ctor", "System."]),
    ("Truth.Spin.Node..ctor", &["System."]),
    ("Truth.Spin.Library", &["System.", "Interop."]),
    ("System.", &["System.", "Interop."]),
    ("Interop.", &["System.", "Interop."]),
];

/// Returns the methods in a stack, root first: name, and `true` if it has one.
pub(crate) fn methods(stack: &Stack) -> Vec<(&str, bool)> {
    let named = |seen| match seen {
        &Seen::Script { ref name, is_unnamed, .. } => Some((name.as_str(), !is_unnamed)),
        Seen::Native(_) => None,
    };
    let is_reported = |(name, _): &(&str, bool)| !OTHERS.iter().any(|other| name.starts_with(other));
    stack.frames.iter().filter_map(named).filter(is_reported).collect()
}

/// Returns `true` for a stack of a thread that runs a chain.
pub(crate) fn is_own(stack: &Stack) -> bool {
    let methods = methods(stack);
    let waits = methods.iter().any(|(name, _)| *name == WAITS);
    !methods.is_empty() && (!waits || methods.iter().any(|(name, _)| name.starts_with("Truth.")))
}

/// Compares the names in a stack with those that the runtime has compiled. Fails with the difference.
pub(crate) fn names(stack: &Stack, compiled: &Methods) -> Result<(), String> {
    let methods = whole(stack)?;
    match methods.iter().find(|(name, _)| !compiled.has(name)) {
        Some((name, _)) => Err(format!("not in the map: {name}")),
        None => Ok(()),
    }
}

/// Returns the methods in a stack that is whole and has all names.
fn whole(stack: &Stack) -> Result<Vec<(&str, bool)>, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    // A stripped libc has no name for it.
    if !matches!(stack.frames.first(), Some(Seen::Native(_))) {
        return Err("doesn't begin at the start of the thread".to_owned());
    }
    let methods = methods(stack);
    match methods.iter().find(|(_, is_named)| !is_named) {
        Some((name, _)) => Err(format!("without a name: {name}")),
        None => Ok(methods),
    }
}

/// Compares a stack with all chains. Returns the case whose chain it is, or the difference from the
/// closest one.
pub(crate) fn case<'c>(stack: &Stack, chains: &'c BTreeMap<String, Vec<Call>>) -> Result<&'c str, String> {
    let methods = whole(stack)?;
    let mut differences = Vec::new();
    for (case, chain) in chains {
        match compare(&methods, chain) {
            Ok(()) => return Ok(case),
            Err(difference) => differences.push(difference),
        }
    }
    let closest = differences.into_iter().max_by_key(|(common, _)| *common);
    Err(closest.map_or_else(String::new, |(_, difference)| difference))
}

/// Compares methods with a chain. Fails with the number of frames in common and the difference.
fn compare(methods: &[(&str, bool)], chain: &[Call]) -> Result<(), (usize, String)> {
    let chain: Vec<&Call> = chain.iter().filter(|call| !WITHOUT_CODE.contains(&call.name.as_str())).collect();
    let pairs = chain.iter().zip(methods.iter().map(|(name, _)| Some(*name)).chain(std::iter::repeat(None)));
    for (index, (call, name)) in pairs.enumerate() {
        match name {
            Some(name) if name == call.name => {}
            Some(name) => return Err((index, format!("{name} instead of {}", call.name))),
            None => return Err((index, format!("ends before {}", call.name))),
        }
    }
    let spinning = &methods[chain.len() - 1..];
    for pair in spinning.windows(2) {
        let ((caller, _), (callee, _)) = (pair[0], pair[1]);
        let rule = SPIN.iter().find(|(name, _)| is_of(caller, name));
        if !rule.is_some_and(|(_, callees)| callees.iter().any(|name| is_of(callee, name))) {
            return Err((chain.len(), format!("{caller} calls {callee}")));
        }
    }
    Ok(())
}

/// Returns `true` if a method is the named one, or in the named namespace.
fn is_of(method: &str, name: &str) -> bool {
    method == name || name.ends_with('.') && method.starts_with(name)
}
