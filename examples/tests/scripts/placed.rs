//! Programs of others whose sources are there: the name of a function stands where the function begins.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ebpf_profiler_core::profile::{Call, Sample};

use crate::others::{PARTS, Program, Shares, text};

/// Samples that are the first ones.
const FIRST: u64 = 100;

/// Largest share of functions whose name isn't where they begin, in thousandths.
const MISPLACED: u64 = 10;

/// The names of a language, and the limits of its programs.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    /// Least shares of whole stacks and largest ones of frames without a name, in thousandths, of the first samples and of those that
    /// follow.
    pub(crate) limits: [[u64; 2]; 2],
    /// Number of lines before that in which a function begins that may hold its name.
    pub(crate) before: usize,
    /// Returns the words one of which stands where a function with this name begins; none if any name may.
    pub(crate) words: fn(&str) -> Vec<&str>,
}

/// Judged samples of a part.
#[derive(Debug, Default)]
struct Verdict {
    shares: Shares,
    /// Functions of the program's files, and those whose name isn't where they begin.
    functions: u64,
    misplaced: u64,
}

impl Language {
    /// Runs a program, whose sources are below a folder, under an interpreter, and prints its shares. Returns its parts that are
    /// beyond the limits.
    pub(crate) fn failures(
        &self,
        interpreter: &str,
        program: &str,
        command: &Command,
        sources: &mut Sources,
    ) -> Vec<String> {
        let mut verdicts = <[Verdict; 3]>::default();
        Program::start(command).run(FIRST, |part, sample| verdicts[part].add(self, sample, sources));
        let mut failed = Vec::new();
        for (index, (part, verdict)) in PARTS.into_iter().zip(&verdicts).enumerate() {
            println!("{} {interpreter}: {program}, {part}: {verdict}", self.name);
            let Some(&limits) = self.limits.get(index) else { continue };
            let Shares { samples, whole, .. } = verdict.shares;
            println!("share\t{}\t{interpreter}\t{program}, {part}\t{whole}\t{samples}", self.name);
            if !verdict.shares.are_within(limits) || verdict.misplaced * 1000 > verdict.functions * MISPLACED
            {
                failed.push(format!("{} {interpreter}: {program}, {part}", self.name));
            }
        }
        failed
    }
}

impl Verdict {
    fn add(&mut self, language: &Language, sample: &Sample<'_>, sources: &mut Sources) {
        let (calls, count): (Vec<Call<'_>>, _) = (sample.trace().calls().collect(), sample.count());
        self.shares.add(&calls, count);
        for call in &calls {
            let Call::Function { frame, .. } = call else { continue };
            let (Some(script), Some(symbol)) = (frame.script(), call.symbol()) else { continue };
            let file = Path::new(&*script.file);
            if symbol.start_line == 0 || !file.starts_with(&sources.folder) {
                continue;
            }
            self.functions += count;
            let words = (language.words)(&symbol.function);
            if !sources.have(file, &words, symbol.start_line, language.before) {
                self.misplaced += count;
                let place = format!("{} in {}:{}", symbol.function, file.display(), symbol.start_line);
                self.shares.fault(format!("misplaced: {place}"), count, || text(&calls));
            }
        }
    }
}

/// As people read it.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} functions misplaced, {}", self.misplaced, self.functions, self.shares)
    }
}

/// The files below a folder.
pub(crate) struct Sources {
    folder: PathBuf,
    lines: HashMap<PathBuf, Vec<String>>,
}

impl Sources {
    pub(crate) fn new(folder: PathBuf) -> Sources {
        Sources { folder, lines: HashMap::new() }
    }

    /// Returns `true` if one of the words stands in a line or in the lines before it, or if there are none. What begins in the first
    /// line is a file.
    fn have(&mut self, file: &Path, words: &[&str], line: u32, before: usize) -> bool {
        let lines = self.lines.entry(file.to_owned()).or_insert_with(|| {
            let text = std::fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        });
        let last = lines.len().min(line as usize);
        let lines = &lines[last.saturating_sub(1 + before)..last];
        line == 1 || words.is_empty() || lines.iter().any(|line| words.iter().any(|word| line.contains(word)))
    }
}
