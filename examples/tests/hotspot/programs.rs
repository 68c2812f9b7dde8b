//! Programs that were not written for this test, from the start of the virtual machine to their end.
//!
//! | program | from | work |
//! |---|---|---|
//! | Closure Compiler | npm | compiles `acorn.js` |
//! | Nu Html Checker | npm | checks a table of 20,000 rows |
//! | Clojure | Debian | compiles and runs functions over sequences |
//!
//! The first samples, while the virtual machine starts, are judged for themselves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Call, Kind, Profile};

use crate::machine::{Machine, fixtures};

/// Samples that are the first ones.
const FIRST: u64 = 300;

/// Least shares of whole stacks, and largest ones of frames without a name, in thousandths: at the start, and afterwards. First
/// samples are walked from copies of the stack, which are short while many processes begin.
const LIMITS: [(u64, u64); 2] = [(900, 10), (985, 5)];

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
    frames: u64,
    unnamed: u64,
    /// The outermost frames of cut stacks, with samples.
    cut: BTreeMap<String, u64>,
    /// A stack with a frame without a name.
    example: Option<String>,
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
    let mut failed = Vec::new();
    for (name, arguments) in programs {
        let program = Program::start(&machine.java, &arguments);
        let profiler = program.profiler();
        let verdicts = program.run(&profiler);
        // Memory of a process that ends cannot be read, so the last part has no limits.
        let parts = [("start", Some(LIMITS[0])), ("run", Some(LIMITS[1])), ("end", None)];
        for ((part, limits), verdict) in parts.into_iter().zip(verdicts) {
            let name = format!("{name}, {part}");
            let Verdict { samples, whole, frames, unnamed, cut, example } = &verdict;
            println!(
                "Java {} {name}: {whole} of {samples} stacks whole, {unnamed} of {frames} frames unnamed",
                machine.version
            );
            let mut cut: Vec<_> = cut.iter().collect();
            cut.sort_by_key(|(_, count)| Reverse(**count));
            cut.iter().take(10).for_each(|(frames, count)| println!("  {count:5} {frames}"));
            example.iter().for_each(|example| println!("      {example}"));
            let Some((least, most)) = limits else { continue };
            println!("share\thotspot\t{}\t{name}\t{whole}\t{samples}", machine.version);
            if *samples < 50 || whole * 1000 < samples * least || unnamed * 1000 > frames * most {
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
            let calls: Vec<Call<'_>> = trace.calls().collect();
            let unnamed = calls.iter().filter(|call| is_unnamed(call)).count() as u64;
            let text = || Some(calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(";"));
            self.samples += count;
            self.frames += count * calls.len() as u64;
            self.unnamed += count * unnamed;
            // A stack of too many frames has its ends.
            if !matches!(calls.first(), Some(Call::Truncated(_))) {
                self.whole += count;
            } else {
                let outermost: Vec<_> = calls.iter().take(3).map(ToString::to_string).collect();
                *self.cut.entry(outermost.join(";")).or_default() += count;
            }
            if unnamed != 0 {
                self.example = text();
            }
        }
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
