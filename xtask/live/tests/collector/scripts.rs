//! Functions of scripts arrive with their language, lines and shares.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::otelcol::{self, Options, Otelcol};
use crate::scratch::Scratch;
use crate::workload::Workload;

/// The script of the workload: `much` and `little` call `spin`, and `main` calls both.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/collector/programs/shares.py");

#[test]
#[ignore = "needs root, a collector and python3"]
fn functions_of_a_script_arrive_with_their_lines_and_shares() {
    test_needs::root!();
    test_needs::programs!("python3");
    let Some(program) = otelcol::program() else { return };
    for protocol in crate::protocols(["http", "grpc"]) {
        let scratch = Scratch::new("scripts");
        let file = scratch.path("received.json");
        let options = Options { file: Some(&file), ..Options::default() };
        let mut collector = Otelcol::start(&program, &scratch, &options);
        let workload = Workload::of_python(PROGRAM);
        let account = Agent::new(&collector.endpoint(protocol))
            .with(&["--protocol", protocol, "--pid", &workload.pid(), "--seconds", "6", "--interval", "1"])
            .run();
        let shares = Shares::wait_for(&file, account.delivered);
        collector.kill();
        println!("{protocol}: {account}\n{shares:?}");
        shares.assert();
    }
}

/// Samples in a call from `much`, in one from `little`, and in total.
#[derive(Debug, Default)]
struct Shares {
    much: u64,
    little: u64,
    all: u64,
}

impl Shares {
    /// Waits until the collector has written all messages.
    fn wait_for(file: &str, messages: u64) -> Shares {
        let end = Instant::now() + Duration::from_secs(30);
        while std::fs::read_to_string(file).unwrap_or_default().lines().count() < messages as usize {
            assert!(Instant::now() < end, "the collector has not written {messages} messages");
            sleep(Duration::from_millis(100));
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/collector/folded.py");
        let output = Command::new("python3").args([script, file]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut shares = Shares::default();
        String::from_utf8(output.stdout).unwrap().lines().for_each(|line| shares.add(line));
        shares
    }

    fn add(&mut self, line: &str) {
        let (count, stack) = line.split_once(' ').unwrap();
        let count: u64 = count.parse().unwrap();
        self.all += count;
        // The interpreter's native functions are between those of the script.
        let calls: Vec<_> = stack.split(';').filter_map(|frame| frame.strip_prefix("cpython:")).collect();
        let [module, main, caller, spin] = calls[..] else { return };
        let (name, line) = spin.split_once(':').unwrap();
        if (module, name) != ("<module>:26", "spin") || !["5", "6", "7", "8"].contains(&line) {
            return;
        }
        match (main, caller) {
            ("main:22", "much:12") => self.much += count,
            ("main:23", "little:16") => self.little += count,
            _ => {}
        }
    }

    /// Checks that nearly all samples are in both functions, three of four in `much`, within
    /// chance.
    fn assert(&self) {
        let both = (self.much + self.little) as f64;
        assert!(both > 20.0 && both > 0.9 * self.all as f64, "{self:?}");
        let (share, chance) = (self.much as f64 / both, (0.25 * 0.75 / both).sqrt());
        assert!((share - 0.75).abs() < 0.03 + 4.0 * chance, "{self:?}: {share}");
    }
}
