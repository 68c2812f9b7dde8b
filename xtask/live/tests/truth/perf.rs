//! perf in place of our profiler: shows whether a case is fair, and how a peer does.

use std::path::PathBuf;
use std::process::Command;

use crate::profiler::Order;

/// `perf record` with copies of the user stack, as large as it goes; of the whole machine's smaller
/// ones, or the disk is full before the end.
pub(crate) fn command(order: &Order) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-B", "-e", "cpu-clock", "--call-graph"]);
    command.arg(if !order.pids.is_empty() { "dwarf,65528" } else { "dwarf,4096" });
    command.args(["-F", &order.frequency.to_string()]);
    let pids: Vec<String> = order.pids.iter().map(u32::to_string).collect();
    match &pids[..] {
        [] => command.arg("-a"),
        pids => command.args(["-p", &pids.join(",")]),
    };
    command.arg("-o").arg(data(order)).args(["--", "sleep", &order.seconds.to_string()]);
    command
}

/// The recorded stacks, folded.
pub(crate) fn folded(order: &Order) -> String {
    let output = Command::new("perf")
        .args(["script", "--no-inline"].iter().filter(|word| order.pids.is_empty() || **word == "script"))
        .args(["--max-stack", "2000", "-F", "comm,ip,sym,dso", "-i"])
        .arg(data(order))
        .output()
        .expect("perf has just been run");
    fold(&String::from_utf8_lossy(&output.stdout))
}

fn data(order: &Order) -> PathBuf {
    order.output.with_extension("data")
}

/// Folds the text of `perf script`: a head line, frames from leaf to root, an empty line.
fn fold(script: &str) -> String {
    let mut folded = String::new();
    for sample in script.split("\n\n").filter(|sample| !sample.trim().is_empty()) {
        let mut lines = sample.trim_matches('\n').lines();
        let comm = lines.next().unwrap_or_default().trim();
        let frames: Vec<_> = lines.map(fold_frame).collect();
        folded += comm;
        for frame in frames.iter().rev() {
            folded += ";";
            folded += frame;
        }
        folded += " 1\n";
    }
    folded
}

/// `ffffffff8 name (file)`, with `(inlined)` in place of the file.
fn fold_frame(line: &str) -> String {
    let line = line.trim();
    let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.strip_suffix(" (deleted))").unwrap_or(rest);
    let (name, file) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    let mark = match file {
        "inlined)" => "_[i]",
        _ if file.starts_with("[kernel") || address.starts_with("ffffffff") => "_[k]",
        _ => "",
    };
    name.replace(';', ":") + mark
}

#[test]
fn perf_script_is_folded() {
    let script =
        "chain \n\t    55d0 leaf (/tmp/chain)\n\t    55d1 inner (inlined)\n\t    55d2 main (/tmp/chain)\n\n";
    assert_eq!(fold(script), "chain;main;inner_[i];leaf 1\n");
    let script = "a b \n\tffffffff81 irq ([kernel.kallsyms])\n\t 7f [unknown] (/lib/x.so)\n\n";
    assert_eq!(fold(script), "a b;[unknown];irq_[k] 1\n");
}
