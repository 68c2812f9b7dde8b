//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | TypeScript's compiler | checks the types of a file of UglifyJS |
//! | Prettier | formats itself |
//! | UglifyJS | minifies the command line of Prettier |
//! | esbuild | the same, as a program in Go that was compiled to WebAssembly |
//!
//! Stacks have to be whole, and frames of V8 to have names. Names are compared with the sources: that of a function stands in the
//! line where the function begins, or before it. The first samples, while Node.js starts, are judged for themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Call, Kind, Profile};

use crate::Node;

/// Samples that are the first ones.
const FIRST: u64 = 100;

/// Least shares of whole stacks, and largest ones of frames without a name and of functions whose name isn't where they begin, in
/// thousandths: at the start, when most frames have no name because the runtime is not attached yet, and afterwards.
const LIMITS: [[u64; 3]; 2] = [[850, 1000, 10], [990, 5, 10]];

/// Least number of samples of a part.
const LEAST: u64 = 50;

/// Judged samples.
#[derive(Debug, Default)]
struct Verdict {
    samples: u64,
    whole: u64,
    frames: u64,
    unnamed: u64,
    /// Functions of the program's files, and those whose name isn't where they begin.
    functions: u64,
    misplaced: u64,
    /// Faults, with samples.
    wrong: BTreeMap<String, u64>,
}

/// Profiles all programs under a version; returns those with a verdict beyond the limits.
pub(crate) fn failures(node: &Node) -> Vec<String> {
    let root = crate::fixtures().join("node-programs");
    if !root.join("complete").exists() {
        test_needs::skip("no programs: cargo xtask fixtures v8");
        return Vec::new();
    }
    // As Node.js shows it.
    let root = root.canonicalize().unwrap();
    let path = |name: &str| root.join(name).display().to_string();
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut compiler = vec![path("typescript/lib/tsc.js")];
    compiler.extend(texts(&["--noEmit", "--allowJs", "--checkJs", &path("uglify-js/lib/compress.js")]));
    let programs = [
        ("TypeScript", compiler),
        ("Prettier", vec![path("prettier/bin-prettier.js"), path("prettier/index.js")]),
        ("UglifyJS", texts(&[&path("uglify-js/bin/uglifyjs"), "-c", "-m", "--", &path("prettier/cli.js")])),
        ("esbuild", texts(&[&path("esbuild-wasm/bin/esbuild"), "--minify", &path("prettier/cli.js")])),
    ];
    let mut sources = Sources::default();
    let mut failed = Vec::new();
    for (name, arguments) in programs {
        let program = Program::start(&node.program, &arguments);
        let profiler = program.profiler();
        let [first, rest, last] = program.run(&profiler, &root, &mut sources);
        // Memory of a process that ends cannot be read, so the last part has no limits.
        let parts = [("start", first, Some(LIMITS[0])), ("run", rest, Some(LIMITS[1])), ("end", last, None)];
        for (part, verdict, limits) in parts {
            let name = format!("Node.js {} {name}, {part}", node.name);
            println!("{name}: {verdict}");
            let Some(limits) = limits else { continue };
            println!("share\tv8\t{}\t{name}\t{}\t{}", node.name, verdict.whole, verdict.samples);
            if !verdict.is_good(limits) {
                failed.push(name);
            }
        }
    }
    failed
}

/// A program that waits for a line before it begins.
struct Program(Child);

impl Program {
    fn start(node: &Path, arguments: &[String]) -> Program {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line; exec \"$@\"", "sh"]).arg(node).args(arguments);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Program(shell.spawn().unwrap())
    }

    fn profiler(&self) -> Profiler {
        Profiler::builder()
            .deadline(Duration::from_secs(300))
            .frequency(499)
            .unwind(ebpf_profiler_unwind::tables())
            .languages(ebpf_profiler_hll::all())
            .pid(self.0.id())
            .start()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the program to its end; returns the verdicts on the first samples, on those that follow, and on the last ones.
    fn run(mut self, profiler: &Profiler, root: &Path, sources: &mut Sources) -> [Verdict; 3] {
        let pid = self.0.id();
        writeln!(self.0.stdin.take().unwrap()).unwrap();
        let [mut first, mut rest, mut last] = <[Verdict; 3]>::default();
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let is_over = self.0.try_wait().unwrap().is_some();
            let profile = profiler.take_profile().unwrap();
            let verdict = match is_over {
                true => &mut last,
                false if first.samples < FIRST => &mut first,
                false => &mut rest,
            };
            verdict.add(&profile, pid, root, sources);
            if is_over {
                return [first, rest, last];
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Verdict {
    fn add(&mut self, profile: &Profile, pid: u32, root: &Path, sources: &mut Sources) {
        for sample in profile.samples().filter(|sample| sample.process().pid == pid) {
            let (trace, count) = (sample.trace(), sample.count());
            let calls: Vec<Call<'_>> = trace.calls().collect();
            self.samples += count;
            // A stack of too many frames has its ends.
            if !matches!(calls.first(), Some(Call::Truncated(_))) {
                self.whole += count;
            } else {
                let outermost: Vec<_> = calls.iter().take(4).map(ToString::to_string).collect();
                self.note(format!("cut: {}", outermost.join(";")), count);
            }
            for (index, call) in calls.iter().enumerate() {
                self.frames += count;
                if is_unnamed(call) {
                    self.unnamed += count;
                    let around = &calls[index.saturating_sub(2)..(index + 2).min(calls.len())];
                    let around: Vec<_> = around.iter().map(ToString::to_string).collect();
                    self.note(format!("unnamed: {}", around.join(";")), count);
                }
                let Call::Function { frame, .. } = call else { continue };
                let (Some(script), Some(symbol)) = (frame.script(), call.symbol()) else { continue };
                let file = Path::new(&*script.file);
                if symbol.start_line == 0 || !file.starts_with(root) {
                    continue;
                }
                self.functions += count;
                if !sources.has(file, &symbol.function, symbol.start_line) {
                    self.misplaced += count;
                    let place = format!("{} in {}:{}", symbol.function, file.display(), symbol.start_line);
                    self.note(place, count);
                }
            }
        }
    }

    fn note(&mut self, text: String, count: u64) {
        *self.wrong.entry(text).or_default() += count;
    }

    fn is_good(&self, [whole, unnamed, misplaced]: [u64; 3]) -> bool {
        self.samples >= LEAST
            && self.whole * 1000 >= self.samples * whole
            && self.unnamed * 1000 <= self.frames * unnamed
            && self.misplaced * 1000 <= self.functions * misplaced
    }
}

/// As people read it.
impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { samples, whole, frames, unnamed, functions, misplaced, wrong } = self;
        write!(f, "{whole} of {samples} stacks whole, {unnamed} of {frames} frames unnamed, ")?;
        write!(f, "{misplaced} of {functions} functions misplaced")?;
        let mut wrong: Vec<_> = wrong.iter().collect();
        wrong.sort_by_key(|(_, count)| Reverse(**count));
        wrong.iter().take(10).try_for_each(|(text, count)| write!(f, "\n  {count:5} {text}"))
    }
}

/// Returns `true` for a frame of V8's code without a name.
fn is_unnamed(call: &Call<'_>) -> bool {
    let Call::Function { frame, .. } = call else { return false };
    call.kind() == Kind::RunTime || frame.script().is_some_and(|script| script.is_unnamed)
}

/// The lines of files.
#[derive(Default)]
struct Sources(HashMap<PathBuf, Vec<String>>);

impl Sources {
    /// Number of lines before that in which a function begins that may hold its name: `const name =`.
    const BEFORE: usize = 3;

    /// Returns `true` if the last part of a function's name stands where it begins.
    fn has(&mut self, file: &Path, name: &str, line: u32) -> bool {
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
        });
        let last = lines.len().min(line as usize);
        let mut text = lines[last.saturating_sub(1 + Self::BEFORE)..last].iter();
        match name.rsplit(['.', ' ']).next().unwrap_or(name) {
            "(anonymous)" => text.any(|line| line.contains("function") || line.contains("=>")),
            name => text.any(|line| line.contains(name)) || name.is_empty(),
        }
    }
}
