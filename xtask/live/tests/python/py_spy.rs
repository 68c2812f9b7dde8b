//! Shares of functions compared with py-spy, which samples the same run at the same time.
//!
//! For each function, with `k` of `n` samples in which it is the innermost Python function, and `l`
//! of `m` of py-spy's:
//!
//! ```text
//!   p = (k + l) / (n + m)        z = (k/n - l/m) / sqrt(p (1 - p) (1/n + 1/m))
//! ```
//!
//! They agree if |z| is at most 4.5 for each: two-sided 0.7 in 100,000, or 0.1 % in all for 150
//! comparisons (six versions, some 25 functions each: Bonferroni). Functions with fewer than ten
//! expected samples aren't compared.
//!
//! py-spy samples by elapsed time, this profiler by CPU time of the program: they agree only on a
//! program that always runs. A function that was interrupted for long counts many times with
//! py-spy, and such samples aren't independent. So the program gets a higher priority, and the
//! machine should have a CPU for it.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::profile::Profile;

use live_suite::selection::is_matrix;

use crate::interpreter;
use crate::profiler::profile;
use crate::seen::{Seen, stacks};
use crate::workload::Running;

/// Samples by innermost Python function.
type Counts = BTreeMap<String, u64>;

const SECONDS: u64 = 8;
const LIMIT: f64 = 4.5;

/// Maximum number of runs: py-spy sometimes fails to read the process.
const ATTEMPTS: u32 = 3;

#[test]
#[ignore = "profiles: needs root, and py-spy, which `cargo xtask pythons` fetches"]
fn shares_agree_with_py_spy() {
    test_needs::root!();
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let mut failures = String::new();
    // Versions that py-spy supports.
    let supported = |each: &interpreter::Interpreter| {
        let version = each.version();
        let is_known = !version.is_before(3, 8) && version.is_before(3, 14);
        is_known && !version.is_unlocked && each.root.is_none()
    };
    let mut interpreters = interpreter::chosen(supported);
    if !is_matrix() {
        interpreters.drain(..interpreters.len() - 1);
    }
    for interpreter in interpreters {
        let Some((profile, theirs)) = (0..ATTEMPTS).find_map(|_| both(&interpreter)) else {
            failures += &format!("\n{}: py-spy failed {ATTEMPTS} times", interpreter.name);
            continue;
        };
        let ours = innermost(&stacks(&profile));
        let theirs = read(&theirs);
        failures += &compare(&interpreter.name, &ours, &theirs);
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Profiles one run with both; `None` if py-spy failed.
fn both(interpreter: &interpreter::Interpreter) -> Option<(Profile, String)> {
    let running = Running::start(interpreter.command("mix.py"), 0);
    running.hurry();
    let output = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("py-spy.raw");
    let (profile, is_done) = profile(&[running.pid()], || {
        let is_done = py_spy(running.pid(), &output).wait().unwrap().success();
        std::thread::sleep(Duration::from_millis(10));
        running.signal("STOP");
        is_done
    });
    is_done.then(|| (profile, std::fs::read_to_string(&output).unwrap()))
}

fn py_spy(pid: u32, output: &std::path::Path) -> Child {
    let fetched = interpreter::target().join("fixtures/py-spy/py_spy-0.4.1.data/scripts/py-spy");
    let program = std::env::var_os("PY_SPY").unwrap_or_else(|| fetched.into_os_string());
    Command::new(program)
        .args(["record", "--format", "raw", "--rate", "200", "--duration", &SECONDS.to_string()])
        .args(["--pid", &pid.to_string(), "--output"])
        .arg(output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("py-spy can't be run: cargo xtask pythons fetches it, or PY_SPY says where it is")
}

/// Prints the functions most frequent in both and returns the significant differences.
fn compare(name: &str, ours: &Counts, theirs: &Counts) -> String {
    let sum = |counts: &Counts| counts.values().sum::<u64>() as f64;
    let (n, m) = (sum(ours), sum(theirs));
    let mut differences = String::new();
    let mut worst = (0.0_f64, "");
    let functions: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut compared = 0;
    for function in functions {
        let count = |counts: &Counts| counts.get(function).copied().unwrap_or(0) as f64;
        let (k, l) = (count(ours), count(theirs));
        let p = (k + l) / (n + m);
        if p * n.min(m) < 10.0 {
            continue;
        }
        compared += 1;
        let z = (k / n - l / m) / (p * (1.0 - p) * (1.0 / n + 1.0 / m)).sqrt();
        if z.abs() > worst.0.abs() {
            worst = (z, function);
        }
        if z.abs() > LIMIT {
            differences += &format!(
                "\n{name}: {function} {:.2} % of {n}, py-spy {:.2} % of {m}: z = {z:.1}",
                k / n * 100.0,
                l / m * 100.0
            );
        }
    }
    println!(
        "{name:<14} {n} samples, py-spy {m}: {compared} functions compared, largest z {:.1} ({})",
        worst.0, worst.1
    );
    if n * m == 0.0 { format!("\n{name}: nothing to compare") } else { differences }
}

/// Counts the last part of each qualified name, which is all that py-spy reports.
fn innermost(stacks: &[crate::seen::Stack]) -> Counts {
    let mut counts = Counts::new();
    for stack in stacks {
        let python = stack.frames.iter().rev().find_map(|seen| match seen {
            Seen::Python { name, .. } => Some(name.rsplit('.').next().unwrap_or_default().to_owned()),
            _ => None,
        });
        *counts.entry(python.unwrap_or_else(|| "no Python frame".to_owned())).or_default() += stack.count;
    }
    counts
}

/// `<module> (mix.py:50);once (mix.py:40);texts (mix.py:20) 12`
fn read(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let Some((stack, count)) = line.rsplit_once(' ') else { continue };
        let leaf = stack.rsplit(';').next().unwrap_or_default();
        let name = leaf.split(" (").next().unwrap_or_default();
        let name = name.rsplit('.').next().unwrap_or_default();
        *counts.entry(name.to_owned()).or_default() += count.parse::<u64>().unwrap_or(0);
    }
    counts
}

#[test]
fn py_spy_is_read() {
    let counts =
        read("<module> (mix.py:50);once (mix.py:40) 12\n<module> (mix.py:50);A.once (mix.py:41) 3\n");
    assert_eq!(counts, Counts::from([("once".to_owned(), 15)]));
}

#[test]
fn reports_significant_differences() {
    let counts = |a, b| Counts::from([("a".to_owned(), a), ("b".to_owned(), b)]);
    assert_eq!(compare("x", &counts(500, 500), &counts(52, 48)), "");
    assert!(compare("x", &counts(500, 500), &counts(200, 800)).contains("z = "));
    assert!(!compare("x", &counts(500, 500), &Counts::new()).is_empty());
}
