//! Programs of others, whose functions stand where they belong.

use std::fmt;
use std::process::Command;

use ebpf_profiler_core::profile::{Call, Sample};

use super::foreign::{PARTS, Program, Shares, text};

/// Samples that are the first ones.
const FIRST: u64 = 100;

/// Largest share of functions whose name isn't where they begin, in thousandths.
const MISPLACED: u64 = 10;

/// A language, and the limits of its programs.
pub struct Language {
    /// Name of the language.
    pub name: &'static str,
    /// Least shares of whole stacks and largest ones of frames without a name, in thousandths, of
    /// the first samples and of those that follow.
    pub limits: [[u64; 2]; 2],
    /// Native functions that only missing script frames show: they count as frames without a name.
    pub loops: &'static [&'static str],
}

/// A script frame.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'p> {
    /// Name of the function.
    pub name: &'p str,
    /// Path of its file.
    pub file: &'p str,
    /// First line of the function; 0 if unknown.
    pub start_line: u32,
    /// Line that it runs.
    pub line: u32,
}

/// The places of functions, by something else than the profiler.
pub trait Places {
    /// Returns `true` if a function is right where it stands, `None` if that isn't compared. `around`
    /// is the next script frame towards the root.
    fn have(&mut self, shown: &Shown<'_>, around: Option<&Shown<'_>>) -> Option<bool>;
}

/// Judged samples of a part.
#[derive(Debug, Default)]
struct Comparison {
    shares: Shares,
    /// Functions that are compared, and those that are not right where they stand.
    functions: u64,
    misplaced: u64,
}

impl Language {
    /// Runs a program under an interpreter, and prints its shares. Returns its parts that are
    /// beyond the limits.
    pub fn failures(
        &self,
        interpreter: &str,
        program: &str,
        command: &Command,
        places: &mut impl Places,
    ) -> Vec<String> {
        let mut comparisons = <[Comparison; 3]>::default();
        Program::start(command).run(FIRST, |part, sample| comparisons[part].add(self, sample, places));
        let mut failed = Vec::new();
        for (index, (part, comparison)) in PARTS.into_iter().zip(&comparisons).enumerate() {
            println!("{} {interpreter}: {program}, {part}: {comparison}", self.name);
            let Some(&limits) = self.limits.get(index) else { continue };
            let Shares { samples, whole, .. } = comparison.shares;
            println!("share\t{}\t{interpreter}\t{program}, {part}\t{whole}\t{samples}", self.name);
            if !comparison.shares.are_within(limits)
                || comparison.misplaced * 1000 > comparison.functions * MISPLACED
            {
                failed.push(format!("{} {interpreter}: {program}, {part}", self.name));
            }
        }
        failed
    }
}

impl Comparison {
    fn add(&mut self, language: &Language, sample: &Sample<'_>, places: &mut impl Places) {
        let (calls, count): (Vec<Call<'_>>, _) = (sample.trace().calls().collect(), sample.count());
        self.shares.add(&calls, count);
        let mut around = None;
        for call in &calls {
            let Some(shown) = shown(call) else {
                if call.symbol().is_some_and(|symbol| language.loops.contains(&&*symbol.function)) {
                    self.shares.unnamed += count;
                    self.shares.fault(format!("no script frames: {call}"), count, || text(&calls));
                }
                continue;
            };
            let is_right = places.have(&shown, around.as_ref());
            self.functions += count * u64::from(is_right.is_some());
            if is_right == Some(false) {
                self.misplaced += count;
                let Shown { name, file, start_line, line } = shown;
                let around = around.map_or("", |around| around.name);
                let place = format!("{name} in {file}:{start_line}, line {line}, in {around}");
                self.shares.fault(format!("misplaced: {place}"), count, || text(&calls));
            }
            around = Some(shown);
        }
    }
}

/// Returns a script frame with a name.
fn shown<'p>(call: &Call<'p>) -> Option<Shown<'p>> {
    let Call::Function { frame, .. } = call else { return None };
    let (script, symbol) = (frame.script().filter(|script| !script.is_unnamed)?, call.symbol()?);
    let (start_line, line) = (symbol.start_line, symbol.line);
    Some(Shown { name: &symbol.function, file: &script.file, start_line, line })
}

/// As people read it.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} functions misplaced, {}", self.misplaced, self.functions, self.shares)
    }
}
