//! Programs that run in phases and print the time of each.

use std::collections::BTreeMap;
use std::fmt;

use crate::seen::{Seen, Stack};
use crate::skeleton::is_loop_of_any;

/// A period in which the program's activity is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// File name of a script, or step of a program.
    pub(crate) step: String,
    /// Start and end, in nanoseconds since 1970.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Compared samples of a program with phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    /// Samples while a script ran, and, of those, the ones with its whole chain.
    pub(crate) scripts: u64,
    pub(crate) exact: u64,
    /// Samples while a script ran, without script frames and before the first one with them: not
    /// attached yet.
    pub(crate) early: u64,
    /// Samples while native code ran, and, of those, the whole ones.
    pub(crate) native: u64,
    pub(crate) whole: u64,
    /// Samples with a placeholder instead of a name or of script frames, in native code too.
    pub(crate) marked: u64,
    /// Wrong observations, with their number and the first stack.
    pub(crate) wrong: BTreeMap<String, (u64, Stack)>,
    /// Inexact samples, with their number and the first stack.
    pub(crate) missing: BTreeMap<String, (u64, Stack)>,
}

/// Returns the functions of a script, which are named after it, root first, below `above` scripts
/// that call it.
fn functions(script: &str, above: usize) -> Vec<String> {
    let others = std::iter::repeat_n(["<module>", "outer_nests", CALLED], above).flatten().map(str::to_owned);
    others.chain(["<module>".to_owned(), format!("outer_{script}"), format!("inner_{script}")]).collect()
}

/// Function of the host through which a script continues in another interpreter.
const CALLED: &str = "go_on";

impl Phase {
    /// Parses a line `phase<TAB>STEP<TAB>FROM<TAB>TO`.
    pub(crate) fn parse(line: &str) -> Option<Phase> {
        let ["phase", step, from, to] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let step = step.rsplit('/').next().unwrap_or_default().to_owned();
        Some(Phase { step, from: from.parse().ok()?, to: to.parse().ok()? })
    }

    /// Returns the script that ran; `None` while native code ran.
    fn script(&self) -> Option<&str> {
        self.step.strip_suffix(".py")
    }
}

impl Fate {
    /// Compares the stacks of one program, each of whose scripts is called by `above` others.
    pub(crate) fn of(stacks: &[Stack], phases: &[Phase], above: usize) -> Fate {
        let mut fate = Fate::default();
        let mut samples: Vec<(u64, &Stack)> =
            stacks.iter().flat_map(|stack| stack.times.iter().map(move |&time| (time, stack))).collect();
        samples.sort_by_key(|(time, _)| *time);
        for phase in phases {
            let from = samples.partition_point(|(time, _)| *time < phase.from);
            let to = samples.partition_point(|(time, _)| *time < phase.to);
            let samples = &samples[from..to.max(from)];
            match phase.script() {
                Some(script) => fate.script(script, above, samples),
                None => fate.native(samples),
            }
        }
        // The phase after the last reported one has no end.
        let end = phases.iter().map(|phase| phase.to).max().unwrap_or(0);
        let is_between =
            |time: u64| time < end && !phases.iter().any(|phase| (phase.from..phase.to).contains(&time));
        for (_, stack) in samples.iter().filter(|(time, _)| is_between(*time)) {
            fate.between(stack);
        }
        fate
    }

    fn script(&mut self, script: &str, above: usize, samples: &[(u64, &Stack)]) {
        let functions = functions(script, above);
        // The script's own functions follow those of its callers.
        let is_right = |own: &[&str]| {
            own.iter().zip(&functions[3 * above..]).all(|(name, function)| name == function || is_mark(name))
        };
        let first = samples.iter().position(|(_, stack)| stack.has_python()).unwrap_or(samples.len());
        self.scripts += samples.len() as u64;
        for (number, (_, stack)) in samples.iter().enumerate() {
            let names = names(stack);
            let own = names.rsplit(|name| *name == CALLED).next().unwrap_or_default();
            let shown = names.join(" ");
            let is_file = |seen: &Seen| match seen {
                Seen::Python { file, is_unnamed: false, .. } => {
                    file.ends_with(&format!("/{script}.py")) || above > 0 && file.ends_with("/nests.py")
                }
                _ => true,
            };
            if let Some(stop) = &stack.truncated {
                miss(&mut self.missing, format!("cut: {stop}"), stack);
            } else if number < first {
                self.early += 1;
            } else if is_loading(stack) {
                miss(&mut self.missing, format!("{shown}, before {script}"), stack);
            } else if names.iter().any(|name| is_mark(name)) && (above < 2 || is_right(own)) {
                // Even if all callers are shown as placeholders, the script's own functions have to be named.
                self.marked += u64::from(above < 2 || !own.iter().any(|name| is_mark(name)));
                miss(&mut self.missing, format!("marked: {shown}"), stack);
            } else if !are_first(&stack.frames, &functions) || !stack.frames.iter().all(is_file) {
                miss(&mut self.wrong, format!("{shown} in {script}"), stack);
            } else if names.len() == functions.len() && has_main(stack) {
                self.exact += 1;
            } else {
                miss(&mut self.missing, format!("only {shown} in {script}"), stack);
            }
        }
    }

    fn native(&mut self, samples: &[(u64, &Stack)]) {
        self.native += samples.len() as u64;
        for (_, stack) in samples {
            let names = names(stack);
            if names.iter().any(|name| !is_mark(name)) {
                miss(&mut self.wrong, format!("{} in native code", names.join(" ")), stack);
            } else if !names.is_empty() {
                // The mapping event that replaces the library has not been applied yet.
                self.marked += 1;
            } else if let Some(stop) = &stack.truncated {
                miss(&mut self.missing, format!("cut: {stop}"), stack);
            } else {
                self.whole += 1;
            }
        }
    }

    /// Counts a sample of an interpreter that starts or shuts down, which runs functions of its
    /// own.
    fn between(&mut self, stack: &Stack) {
        let names = names(stack);
        self.marked += u64::from(names.iter().any(|name| is_mark(name)));
        if names.iter().any(|name| name.starts_with("inner_") || name.starts_with("outer_")) {
            miss(&mut self.missing, format!("{} between", names.join(" ")), stack);
        }
    }
}

/// Returns `true` if there are no other functions than these: all of each calling interpreter, and
/// the first ones of the last. An interpreter attached later than its callees has no script frames
/// yet; its native loops stay visible.
fn are_first(frames: &[Seen], functions: &[String]) -> bool {
    let mut expected = functions.split(|function| function == CALLED);
    let mut seen = frames.split(is_called).peekable();
    while let Some(frames) = seen.next() {
        let Some(functions) = expected.next() else { return false };
        let names: Vec<_> = frames.iter().filter_map(Seen::python).collect();
        let is_bare = names.is_empty() && frames.iter().any(is_bare_loop);
        let is_whole = names.len() == functions.len() || seen.peek().is_none();
        let begins = names.len() <= functions.len() && names.iter().zip(functions).all(|(a, b)| a == b);
        if !begins || !(is_whole || is_bare) {
            return false;
        }
    }
    true
}

fn is_called(seen: &Seen) -> bool {
    seen.native() == Some(CALLED)
}

/// Returns `true` for an interpreter loop that is shown as a native frame, without the script
/// frames that it runs.
pub(crate) fn is_bare_loop(seen: &Seen) -> bool {
    seen.native().is_some_and(is_loop_of_any)
}

/// Returns `true` if the name is a placeholder that states why there is no name.
pub(crate) fn is_mark(name: &str) -> bool {
    name.starts_with("[cpython: ")
}

/// Returns `true` if the interpreter runs Python before the script, for example to create the
/// module's loader; such calls don't pass through the function that evaluates scripts.
fn is_loading(stack: &Stack) -> bool {
    let evaluates = |seen: &Seen| seen.native() == Some("PyEval_EvalCode");
    let own = stack.frames.rsplit(is_called).next().unwrap_or_default();
    own.iter().any(|seen| seen.python().is_some()) && !own.iter().any(evaluates)
}

/// Returns `true` if the native stack reaches the program's `main`.
fn has_main(stack: &Stack) -> bool {
    stack.frames.iter().take(5).any(|seen| seen.native() == Some("main"))
}

/// Returns the names of the Python frames, root first, and of the calls into another interpreter.
pub(crate) fn names(stack: &Stack) -> Vec<&str> {
    let name = |seen| if is_called(seen) { Some(CALLED) } else { seen.python() };
    stack.frames.iter().filter_map(name).collect()
}

fn miss(all: &mut BTreeMap<String, (u64, Stack)>, what: String, stack: &Stack) {
    all.entry(what).or_insert_with(|| (0, stack.clone())).0 += 1;
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} samples of scripts, {} exact, {} early; {} of native code, {} whole; {} marked",
            self.scripts, self.exact, self.early, self.native, self.whole, self.marked
        )?;
        for (title, all) in [("wrong", &self.wrong), ("missing", &self.missing)] {
            let mut all: Vec<_> = all.iter().collect();
            all.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
            for (what, (count, stack)) in all.iter().take(5) {
                let frames: Vec<_> = stack.frames.iter().map(Seen::to_string).collect();
                write!(f, "\n    {title} {count:>5} x {what}\n          {}", frames.join(";"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: &str = "_PyEval_EvalFrameDefault";

    /// Returns the stack of these names, root first; names of C functions become native frames.
    fn frames(names: &str) -> Vec<Seen> {
        let seen = |name: &str| match name {
            CALLED | LOOP | "main" => {
                Seen::Native { name: Some(name.to_owned()), file: String::new(), address: 0 }
            }
            _ => Seen::Python {
                name: name.to_owned(),
                file: String::new(),
                line: 1,
                start_line: 1,
                is_unnamed: false,
            },
        };
        names.split(' ').map(seen).collect()
    }

    #[test]
    fn a_caller_has_all_of_its_calls_or_bare_loops() {
        let are_first = |names: &str| are_first(&frames(names), &functions("blue", 1));
        for right in [
            "main <module> outer_nests go_on <module> outer_blue inner_blue",
            "main <module> outer_nests go_on <module>",
            "main <module> outer_nests go_on",
            "main <module> outer_nests",
            "main _PyEval_EvalFrameDefault _PyEval_EvalFrameDefault go_on <module> outer_blue",
        ] {
            assert!(are_first(right), "{right}");
        }
        for wrong in [
            "main go_on <module> outer_blue inner_blue",
            "main _PyEval_EvalFrameDefault <module> go_on <module> outer_blue",
            "main _PyEval_EvalFrameDefault go_on <module> inner_blue",
            "main <module> outer_nests go_on <module> outer_red",
            "main <module> outer_nests <module> outer_blue",
            "main <module> outer_nests go_on <module> outer_blue inner_blue inner_blue",
            "main <module> outer_nests go_on <module> outer_blue go_on <module>",
        ] {
            assert!(!are_first(wrong), "{wrong}");
        }
    }
}
