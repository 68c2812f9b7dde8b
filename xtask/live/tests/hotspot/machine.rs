//! A Java virtual machine, and the programs that it runs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::profile::Profile;

use live_suite::paths::fixtures;
use live_suite::sampled::{FREQUENCY, profiler};

use crate::comparison::{Comparison, Rules};

/// Seconds that a chain runs before and after its stacks are collected, so that its code is
/// compiled.
const WARM_UP: &str = "3";

/// Duration of a profile.
const PROFILE: Duration = Duration::from_secs(5);

/// Time after which all programs are attached to.
const ATTACH: Duration = Duration::from_secs(2);

/// Samples of a thousand that have to be exact.
const EXACT: u64 = 990;

/// Flags that keep the leaf out of its callers, and other methods out of the leaf.
///
/// Without safepoints in loops, the machine's own tables give a loop to the method whose code comes
/// next. So does Flight Recorder.
pub(crate) const APART: [&str; 3] = [
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=dontinline,Chains::spin",
    "-XX:CompileCommand=dontinline,Chains::collect",
];

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

    /// Returns the major version, `u32::MAX` for the installed one.
    pub(crate) fn major(&self) -> u32 {
        self.version.parse().unwrap_or(u32::MAX)
    }

    /// Compiles the programs for the version; returns the folder of their classes.
    pub(crate) fn classes(&self) -> PathBuf {
        if self.major() < 11 { compile_for("8", &["Chains"]) } else { compile() }
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
        let classes = self.classes();
        let started: Vec<_> =
            chains.iter().filter(is_named).map(|chain| self.start(chain, flags, &classes)).collect();
        let Some(running) = started.into_iter().map(Running::ready).collect::<Option<Vec<_>>>() else {
            println!("Java {} {mode}: not supported", self.version);
            return Vec::new();
        };
        let profiler = profiler(running.iter().map(|program| program.child.id()), FREQUENCY);
        // The first samples of a process are unwound from copies of its stack, which are short while many
        // processes begin.
        std::thread::sleep(ATTACH);
        profiler.take_profile().unwrap();
        let profile = profiler.run_for(PROFILE).unwrap();
        running.iter().filter_map(|program| program.failure(&self.version, mode, &profile)).collect()
    }

    fn start(&self, chain: &str, flags: &[&str], classes: &Path) -> Running {
        let mut command = self.command(chain, flags, classes);
        let child = command.args([WARM_UP, "300"]).spawn().unwrap();
        Running { chain: chain.to_owned(), child, rules: Rules::default() }
    }

    fn command(&self, chain: &str, flags: &[&str], classes: &Path) -> Command {
        let mut command = Command::new(&self.java);
        command.args(["-Xmx128m", "-Xshare:auto"]).args(flags);
        if self.major() < 11 {
            // Its loops have no safepoints.
            command.args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+ShowHiddenFrames"]).args(APART);
        }
        match chain {
            "callback" => {
                command.arg(format!("-Dlibrary={}", classes.join("libcallback.so").display()));
            }
            "tables" => {
                command.args(["-XX:CompileCommand=quiet", "-XX:CompileCommand=exclude,Chains::tables"]);
            }
            "redefinition" => {
                command.arg(format!("-javaagent:{}", classes.join("agent.jar").display()));
            }
            _ => {}
        }
        let class_path = format!("{}:{}", classes.display(), compilers().join("*").display());
        command.args(["-cp", &class_path, "Chains", chain]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// Profiles chains from the start of their machines on, and returns those whose stacks differ.
    pub(crate) fn failures_from_start(&self, chains: &[&str]) -> Vec<String> {
        let classes = self.classes();
        let mut failed = Vec::new();
        // Two at a time leave the profiler some time of two CPUs.
        for chains in chains.chunks(2) {
            let profiler = profiler([std::process::id()], FREQUENCY);
            let start = |chain: &&str| {
                let child = self.command(chain, &[], &classes).args(["0.5", "1", "start"]).spawn().unwrap();
                Running { chain: (*chain).to_owned(), child, rules: Rules::default() }
            };
            let started: Vec<Running> = chains.iter().map(start).collect();
            let running: Vec<Running> = started.into_iter().filter_map(Running::ready).collect();
            let profile = profiler.run_for(Duration::from_millis(300)).unwrap();
            assert_eq!(running.len(), chains.len(), "Java {}: {chains:?}", self.version);
            for program in &running {
                failed.extend(program.failure(&self.version, "start", &profile));
            }
        }
        failed
    }
}

impl Running {
    /// Compares the samples of a profile and returns what is wrong.
    fn failure(&self, version: &str, mode: &str, profile: &Profile) -> Option<String> {
        let comparison = self.rules.compare_all(profile, self.child.id());
        let Comparison { exact, samples, leaf, .. } = comparison;
        let name = format!("Java {version} {mode} {}", self.chain);
        println!("{name}: {comparison}");
        println!("share\thotspot\t{version}\t{mode} {}\t{exact}\t{samples}", self.chain);
        // The other one has no such leaf. Where it is inlined, its loop may be code of its caller, by the
        // machine's own tables.
        let least = if mode == "start" { samples / 50 } else { samples / 10 };
        if self.chain != "loop" && leaf < least {
            return Some(format!("{name}: few samples in the leaf"));
        }
        (samples < 20 || exact * 1000 < samples * EXACT).then_some(name)
    }

    /// Waits until the program has printed its stacks; `None` if the machine doesn't support the
    /// flags.
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

/// Returns the folder of other languages' compilers and libraries.
pub(crate) fn compilers() -> PathBuf {
    fixtures().join("java-languages/compilers")
}

/// Compiles the programs for all versions but Java 8; returns the folder of their classes, with a
/// library and an agent.
pub(crate) fn compile() -> PathBuf {
    compile_for("11", &["Chains", "Walker", "Shares", "Callees"])
}

fn compile_for(release: &str, sources: &[&str]) -> PathBuf {
    let name = if release == "11" { "hotspot" } else { "hotspot-8" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotspot/programs");
    let mut javac = Command::new("javac");
    javac.args(["--release", release, "-nowarn", "-Xlint:-options", "-g", "-d"]).arg(&folder);
    javac.args(sources.iter().map(|program| programs.join(format!("{program}.java"))));
    assert!(javac.stderr(Stdio::null()).status().unwrap().success(), "javac");
    std::fs::write(folder.join("manifest"), "Premain-Class: Chains\nCan-Redefine-Classes: true\n").unwrap();
    let mut jar = Command::new("jar");
    jar.current_dir(&folder).args(["cfm", "agent.jar", "manifest", "Chains.class"]);
    assert!(jar.status().unwrap().success(), "jar");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fomit-frame-pointer", "-shared", "-fPIC"]).arg(programs.join("callback.c"));
    let headers = std::fs::canonicalize(which("javac")).unwrap().with_file_name("../include");
    gcc.arg("-I")
        .arg(&headers)
        .arg("-I")
        .arg(headers.join("linux"))
        .arg("-o")
        .arg(folder.join("libcallback.so"));
    assert!(gcc.status().unwrap().success(), "gcc");
    folder
}

/// Returns the path of a program.
fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.exists()).unwrap()
}
