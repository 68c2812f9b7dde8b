//! Programs that are one thing after another, and say when they were what.

use std::collections::BTreeMap;
use std::fmt;

use crate::seen::{Seen, Stack};
use crate::skeleton::is_loop_of_any;

/// A while of which is known what the program did in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// A script's file name, or the step of a program.
    pub(crate) step: String,
    /// Nanoseconds since 1970.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// How the samples of a program that changes fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    /// Samples while a script ran, and of those, the ones with its whole chain.
    pub(crate) scripts: u64,
    pub(crate) exact: u64,
    /// Of those while a script ran, the ones without calls before its first with one: it wasn't known yet.
    pub(crate) early: u64,
    /// Samples while native code worked, and of those, the ones that are whole.
    pub(crate) native: u64,
    pub(crate) whole: u64,
    /// Samples with a mark instead of a name, or instead of calls, in native code too.
    pub(crate) marked: u64,
    /// What must not be, and the first stack with it.
    pub(crate) wrong: BTreeMap<String, (u64, Stack)>,
    /// The same of what isn't exact.
    pub(crate) missing: BTreeMap<String, (u64, Stack)>,
}

/// The functions of a script that names them after itself, root first, above those of so many others that call it.
fn functions(script: &str, above: usize) -> Vec<String> {
    let others = std::iter::repeat_n(["<module>", "outer_nests", CALLED], above).flatten().map(str::to_owned);
    others.chain(["<module>".to_owned(), format!("outer_{script}"), format!("inner_{script}")]).collect()
}

/// The function of the host by which a script goes on in another interpreter.
const CALLED: &str = "go_on";

impl Phase {
    /// Of a line `phase<TAB>STEP<TAB>FROM<TAB>TO`.
    pub(crate) fn parse(line: &str) -> Option<Phase> {
        let ["phase", step, from, to] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let step = step.rsplit('/').next().unwrap_or_default().to_owned();
        Some(Phase { step, from: from.parse().ok()?, to: to.parse().ok()? })
    }

    /// The script that ran; none where native code worked.
    fn script(&self) -> Option<&str> {
        self.step.strip_suffix(".py")
    }
}

impl Fate {
    /// Judges the stacks of one program, whose scripts are called by so many others.
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
        // Behind the last one there is one that has no end.
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
        // Above all others.
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
                // Where marks are all that can be had of the others, the script's own functions still have names.
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
                // The kernel side hasn't heard yet of what lies there instead.
                self.marked += 1;
            } else if let Some(stop) = &stack.truncated {
                miss(&mut self.missing, format!("cut: {stop}"), stack);
            } else {
                self.whole += 1;
            }
        }
    }

    /// While an interpreter begins and ends it runs what belongs to it.
    fn between(&mut self, stack: &Stack) {
        let names = names(stack);
        self.marked += u64::from(names.iter().any(|name| is_mark(name)));
        if names.iter().any(|name| name.starts_with("inner_") || name.starts_with("outer_")) {
            miss(&mut self.missing, format!("{} between", names.join(" ")), stack);
        }
    }
}

/// Whether there are no other functions than these: all of each interpreter that calls another, and the first ones of the
/// last. One of which the profiler hears later than of those that it calls has none yet: its loops stand for themselves.
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

/// Whether it is an interpreter's loop that stands for itself: where its calls are known they stand in its place.
pub(crate) fn is_bare_loop(seen: &Seen) -> bool {
    seen.native().is_some_and(is_loop_of_any)
}

/// Whether the reason why there is no name stands in its place.
pub(crate) fn is_mark(name: &str) -> bool {
    name.starts_with("[cpython: ")
}

/// Whether the interpreter runs Python of its own before the script, as it does to make the loader of its module: what
/// is called there isn't reached through the function that evaluates scripts.
fn is_loading(stack: &Stack) -> bool {
    let evaluates = |seen: &Seen| seen.native() == Some("PyEval_EvalCode");
    let own = stack.frames.rsplit(is_called).next().unwrap_or_default();
    own.iter().any(|seen| seen.python().is_some()) && !own.iter().any(evaluates)
}

/// Whether the native stack goes down to the program's own.
fn has_main(stack: &Stack) -> bool {
    stack.frames.iter().take(5).any(|seen| seen.native() == Some("main"))
}

/// The names of the Python frames, root first, and where a script goes on in another interpreter.
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

    /// The stack of these names, root first: those of functions that the program and the interpreters have are native.
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
