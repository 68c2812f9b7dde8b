//! Programs that were not written for this test, from the start of the virtual machine to their
//! end.
//!
//! | program | from | work |
//! |---|---|---|
//! | Closure Compiler | npm | compiles `acorn.js` |
//! | Nu Html Checker | npm | checks a table of 20,000 rows |
//! | Clojure | Debian | compiles and runs functions over sequences |
//!
//! A stack is exact if it is whole, all of its frames have names, and each method calls the next
//! one by its class file. The first samples, while the virtual machine starts, are compared for
//! themselves.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use ebpf_profiler_core::profile::{Call, Sample};

use crate::callees::Callees;
use crate::comparison::{Seen, seen};
use crate::machine::{Machine, compile};
use live_suite::paths::fixtures;
use live_suite::workload::foreign::{PARTS, Program, Shares, text};

/// Samples that are the first ones.
const FIRST: u64 = 300;

/// Least share of exact stacks and largest one of frames without a name, in thousandths.
const LIMITS: [u64; 2] = [990, 5];

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
struct Comparison {
    shares: Shares,
    exact: u64,
    /// Whole stacks with names, with samples.
    stacks: HashMap<Vec<Seen>, u64>,
}

/// Profiles all programs under a machine; returns those with a share beyond the limits.
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
        if name == "Nu Html Checker" && machine.major() < 17 {
            continue;
        }
        let mut command = Command::new(&machine.java);
        command.arg("-Xmx512m").args(&arguments);
        let mut comparisons = <[Comparison; 3]>::default();
        Program::start(&command).run(FIRST, |part, sample| comparisons[part].add(sample));
        let stacks = comparisons.iter().flat_map(|comparison| comparison.stacks.keys());
        let callees = Callees::read(&machine.java, &format!("{}:{classes}", arguments[1]), stacks);
        comparisons.iter_mut().for_each(|comparison| comparison.compare(&callees));
        for (part, comparison) in PARTS.into_iter().zip(&comparisons) {
            let name = format!("{name}, {part}");
            println!("Java {} {name}: {comparison}", machine.version);
            if part == "end" {
                continue;
            }
            let Comparison { shares, exact, .. } = comparison;
            println!("share\thotspot\t{}\t{name}\t{exact}\t{}", machine.version, shares.samples);
            if !shares.are_within(LIMITS) || exact * 1000 < shares.samples * LIMITS[0] {
                failed.push(format!("Java {} {name}", machine.version));
            }
        }
    }
    failed
}

impl Comparison {
    fn add(&mut self, sample: &Sample<'_>) {
        let (calls, count): (Vec<Call<'_>>, _) = (sample.trace().calls().collect(), sample.count());
        if !self.shares.add(&calls, count) {
            return;
        }
        match calls.iter().map(seen).collect() {
            Ok(stack) => *self.stacks.entry(stack).or_default() += count,
            Err(wrong) => self.shares.fault(wrong, count, || text(&calls)),
        }
    }

    /// Compares the whole stacks with the calls in the class files.
    fn compare(&mut self, callees: &Callees) {
        for (stack, count) in std::mem::take(&mut self.stacks) {
            match callees.wrong(&stack) {
                None => self.exact += count,
                Some(wrong) => self.shares.fault(wrong, count, || format!("{stack:?}")),
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} exact, {}", self.exact, self.shares.samples, self.shares)
    }
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
