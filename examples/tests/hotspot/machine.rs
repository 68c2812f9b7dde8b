//! A Java virtual machine, and the programs that it runs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;

use crate::judge::{Rules, Verdict};

/// Seconds that a chain runs before and after its stacks are collected, so that its code is compiled.
const WARM_UP: &str = "3";

/// Duration of a profile.
const PROFILE: Duration = Duration::from_secs(5);

/// Time after which all programs are attached to.
const ATTACH: Duration = Duration::from_secs(2);

/// Samples of a thousand that have to be exact.
const EXACT: u64 = 990;

/// A Java virtual machine.
pub(crate) struct Machine {
    pub(crate) version: String,
    pub(crate) java: PathBuf,
}

/// A program that runs a chain until this is dropped.
struct Running {
    chain: String,
    child: Child,
    rules: Rules,
}

impl Machine {
    /// The `java` in the path.
    pub(crate) fn installed() -> Machine {
        Machine { version: "installed".to_owned(), java: "java".into() }
    }

    /// A version among the fixtures.
    pub(crate) fn fixture(version: &str) -> Option<Machine> {
        let java = fixtures().join(format!("jdk-{version}/bin/java"));
        java.exists().then(|| Machine { version: version.to_owned(), java })
    }

    /// Runs chains with these flags and compares their stacks.
    pub(crate) fn check(&self, chains: &[&str], mode: &str, flags: &[&str]) {
        let failed = self.failures(chains, mode, flags);
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// Runs chains with these flags and returns those whose stacks differ.
    pub(crate) fn failures(&self, chains: &[&str], mode: &str, flags: &[&str]) -> Vec<String> {
        let only = std::env::var("TRUTH_CHAIN").ok();
        let is_named =
            |chain: &&&str| only.as_ref().is_none_or(|only| only.split(',').any(|it| it == **chain));
        let classes = compile();
        let started: Vec<_> =
            chains.iter().filter(is_named).map(|chain| self.start(chain, flags, &classes)).collect();
        let Some(running) = started.into_iter().map(Running::ready).collect::<Option<Vec<_>>>() else {
            println!("Java {} {mode}: not supported", self.version);
            return Vec::new();
        };
        let mut builder = Profiler::builder()
            .deadline(Duration::from_secs(120))
            .frequency(997)
            .unwind(ebpf_profiler_unwind::tables())
            .languages(ebpf_profiler_hll::all());
        for program in &running {
            builder = builder.pid(program.child.id());
        }
        let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
        // The first samples of a process are unwound from copies of its stack, which are short while many processes begin.
        std::thread::sleep(ATTACH);
        profiler.take_profile().unwrap();
        let profile = profiler.run_for(PROFILE).unwrap();
        let mut failed = Vec::new();
        for program in &running {
            let verdict = program.rules.judge(&profile, program.child.id());
            let Verdict { exact, samples, leaf, .. } = verdict;
            println!("Java {} {mode} {}: {verdict}", self.version, program.chain);
            println!("share\thotspot\t{}\t{mode} {}\t{exact}\t{samples}", self.version, program.chain);
            // The other one has no such leaf. Where it is inlined, its loop may be code of its caller, by the machine's own tables.
            if program.chain != "loop" && leaf * 10 < samples {
                failed
                    .push(format!("Java {} {mode} {}: few samples in the leaf", self.version, program.chain));
            }
            if samples < 20 || exact * 1000 < samples * EXACT {
                failed.push(format!("Java {} {mode} {}", self.version, program.chain));
            }
        }
        failed
    }

    fn start(&self, chain: &str, flags: &[&str], classes: &Path) -> Running {
        let mut command = Command::new(&self.java);
        command.args(["-Xmx128m", "-Xshare:auto"]).args(flags).arg("-cp").arg(classes);
        command.args(["Chains", chain, WARM_UP, "300"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let rules = Rules::default();
        Running { chain: chain.to_owned(), child: command.spawn().unwrap(), rules }
    }
}

impl Running {
    /// Waits until the program has printed its stacks; `None` if the machine doesn't support the flags.
    fn ready(mut self) -> Option<Running> {
        for line in BufReader::new(self.child.stdout.take()?).lines().map_while(Result::ok) {
            match line.strip_prefix("truth ") {
                Some(truth) => self.rules.add(truth),
                None if line == "ready" => return Some(self),
                None => {}
            }
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder of the fixtures.
pub(crate) fn fixtures() -> PathBuf {
    let fixtures = std::env::var_os("XTASK_FIXTURES").map(PathBuf::from);
    fixtures.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures"))
}

/// Compiles the programs for the oldest version; returns the folder of their classes.
pub(crate) fn compile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hotspot");
    std::fs::create_dir_all(&folder).unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotspot/programs");
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-nowarn", "-Xlint:-options", "-g", "-d"]).arg(&folder);
    javac.args(["Chains", "Shares"].map(|program| programs.join(format!("{program}.java"))));
    assert!(javac.stderr(Stdio::null()).status().unwrap().success(), "javac");
    folder
}
