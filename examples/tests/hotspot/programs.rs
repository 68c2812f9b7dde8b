//! Programs that were not written for this test, from the start of the virtual machine to their end.
//!
//! | program | from | work |
//! |---|---|---|
//! | Closure Compiler | npm | compiles `acorn.js` |
//! | Nu Html Checker | npm | checks a table of 20,000 rows |
//! | Clojure | Debian | compiles and runs functions over sequences |
//!
//! A stack is exact if it is whole, all of its frames have names, and each method calls the next one by its class file. The first
//! samples, while the virtual machine starts, are judged for themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Call, Kind, Profile};
use ebpf_profiler_core::trace::Stop;

use crate::callees::Callees;
use crate::judge::{Seen, seen};
use crate::machine::{Machine, compile, fixtures};

/// Samples that are the first ones.
const FIRST: u64 = 300;

/// Least share of exact stacks and largest one of frames without a name, in thousandths.
const LIMITS: (u64, u64) = (990, 5);

/// The work of Clojure.
const SEQUENCES: &str = "
(defn sieve [n]
  (loop [numbers (range 2 n) primes []]
    (if (empty? numbers)
      primes
      (recur (vec (remove #(zero? (mod % (first numbers))) numbers)) (conj primes (first numbers))))))
(dotimes [_ 3]
  (println (count (sieve 8000))
           (reduce + (map #(* % %) (filter odd? (range 1000000))))
           (count (frequencies (map #(mod (* % 7919) 104729) (range 300000))))))
";

/// Judged samples.
#[derive(Debug, Default)]
struct Verdict {
    samples: u64,
    whole: u64,
    exact: u64,
    frames: u64,
    unnamed: u64,
    /// Whole stacks with names, with samples.
    stacks: HashMap<Vec<Seen>, u64>,
    /// Wrong observations, with samples and a stack.
    wrong: BTreeMap<String, (u64, String)>,
}

/// Profiles all programs under a machine; returns those with a verdict beyond the limits.
pub(crate) fn failures(machine: &Machine) -> Vec<String> {
    let root = fixtures().join("java-programs");
    if !root.join("complete").exists() {
        test_needs::skip("no programs: cargo xtask fixtures hotspot");
        return Vec::new();
    }
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (table, sequences) = (scratch.join("table.html"), scratch.join("sequences.clj"));
    std::fs::write(&table, html()).unwrap();
    std::fs::write(&sequences, SEQUENCES).unwrap();
    let path = |name: &str| root.join(name).display().to_string();
    let clojure = ["clojure.jar", "spec.jar", "core-specs.jar"].map(path).join(":");
    let (table, sequences) = (table.display().to_string(), sequences.display().to_string());
    let programs = [
        (
            "Closure Compiler",
            vec!["-jar".to_owned(), path("compiler.jar"), "--js".to_owned(), path("acorn.js")],
        ),
        ("Nu Html Checker", vec!["-jar".to_owned(), path("vnu.jar"), table]),
        ("Clojure", vec!["-cp".to_owned(), clojure, "clojure.main".to_owned(), sequences]),
    ];
    let classes = compile().display().to_string();
    let mut failed = Vec::new();
    for (name, arguments) in programs {
        // It needs Java 17.
        if name == "Nu Html Checker" && machine.version == "11" {
            continue;
        }
        let program = Program::start(&machine.java, &arguments);
        let profiler = program.profiler();
        let mut verdicts = program.run(&profiler);
        let stacks = verdicts.iter().flat_map(|verdict| verdict.stacks.keys());
        let callees = Callees::read(&machine.java, &format!("{}:{classes}", arguments[1]), stacks);
        verdicts.iter_mut().for_each(|verdict| verdict.judge(&callees));
        // Memory of a process that ends cannot be read, so the last part has no limits.
        for (part, verdict) in ["start", "run", "end"].into_iter().zip(&verdicts) {
            let name = format!("{name}, {part}");
            println!("Java {} {name}: {verdict}", machine.version);
            if part == "end" {
                continue;
            }
            let Verdict { samples, exact, frames, unnamed, .. } = verdict;
            println!("share\thotspot\t{}\t{name}\t{exact}\t{samples}", machine.version);
            let (least, most) = LIMITS;
            if *samples < 50 || exact * 1000 < samples * least || unnamed * 1000 > frames * most {
                failed.push(format!("Java {} {name}", machine.version));
            }
        }
    }
    failed
}

/// A program that waits for a line before it begins.
struct Program(Child);

impl Program {
    fn start(java: &Path, arguments: &[String]) -> Program {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line; exec \"$@\"", "sh"]).arg(java).arg("-Xmx512m").args(arguments);
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
    fn run(mut self, profiler: &Profiler) -> [Verdict; 3] {
        let pid = self.0.id();
        writeln!(self.0.stdin.take().unwrap()).unwrap();
        let [mut first, mut rest, mut last] = <[Verdict; 3]>::default();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let is_over = self.0.try_wait().unwrap().is_some();
            let profile = profiler.take_profile().unwrap();
            if is_over {
                last.add(&profile, pid);
                return [first, rest, last];
            }
            let verdict = if first.samples < FIRST { &mut first } else { &mut rest };
            verdict.add(&profile, pid);
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
    fn add(&mut self, profile: &Profile, pid: u32) {
        for sample in profile.samples().filter(|sample| sample.process().pid == pid) {
            let (trace, count) = (sample.trace(), sample.count());
            // The thread has no stack then, or the shell's.
            if matches!(trace.stop(), Stop::Exec | Stop::NoUserStack) || &*sample.thread().name == "sh" {
                continue;
            }
            let calls: Vec<Call<'_>> = trace.calls().collect();
            self.samples += count;
            self.frames += count * calls.len() as u64;
            self.unnamed += count * calls.iter().filter(|call| is_unnamed(call)).count() as u64;
            let stack: Result<Vec<Seen>, String> = calls.iter().map(seen).collect();
            let text = || calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(";");
            match (calls.first(), stack) {
                (Some(Call::Truncated(stop)), _) => {
                    let outermost: Vec<_> = calls.iter().skip(1).take(2).map(ToString::to_string).collect();
                    self.add_wrong(count, format!("{stop}: {}", outermost.join(";")), text);
                }
                (_, Err(wrong)) => {
                    self.whole += count;
                    self.add_wrong(count, wrong, text);
                }
                (_, Ok(stack)) => {
                    self.whole += count;
                    *self.stacks.entry(stack).or_default() += count;
                }
            }
        }
    }

    fn add_wrong(&mut self, count: u64, wrong: String, text: impl Fn() -> String) {
        self.wrong.entry(wrong).or_insert_with(|| (0, text())).0 += count;
    }

    /// Compares the whole stacks with the calls in the class files.
    fn judge(&mut self, callees: &Callees) {
        for (stack, count) in std::mem::take(&mut self.stacks) {
            match callees.wrong(&stack) {
                None => self.exact += count,
                Some(wrong) => self.add_wrong(count, wrong, || format!("{stack:?}")),
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { samples, whole, exact, frames, unnamed, wrong, .. } = self;
        write!(f, "{exact} of {samples} exact, {whole} whole, {unnamed} of {frames} frames unnamed")?;
        let mut wrong: Vec<_> = wrong.iter().collect();
        wrong.sort_by_key(|(_, (count, _))| Reverse(*count));
        for (wrong, (count, stack)) in wrong.iter().take(20) {
            write!(f, "\n  {count:5} {wrong}\n        {stack}")?;
        }
        Ok(())
    }
}

/// Returns `true` for a frame of the virtual machine's code without a name.
fn is_unnamed(call: &Call<'_>) -> bool {
    let Call::Function { frame, .. } = call else { return false };
    call.kind() == Kind::RunTime || frame.script().is_some_and(|script| script.is_unnamed)
}

/// Returns the page that is checked.
fn html() -> String {
    let row =
        |number: u32| format!("<tr><td id=\"c{number}\"><a href=\"#c{number}\">row {number}</a></td></tr>\n");
    let rows: String = (0..20_000).map(row).collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><title>t</title></head><body><table>\n{rows}</table></body></html>"
    )
}
