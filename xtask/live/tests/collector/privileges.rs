//! The privileges that the files in `deploy` grant are enough for the agent.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::example;

use crate::FUNCTIONS;
use crate::agent::{Account, Agent};
use crate::otelcol::{self, Options, Otelcol};
use crate::scratch::Scratch;
use crate::workload::Workload;

/// User without privileges.
const NOBODY: &str = "65534";

/// A copy of the program that every user may run; deleted on drop.
struct Copied(PathBuf);

impl Copied {
    fn new() -> Copied {
        let path = std::env::temp_dir().join(format!("agent-{}", std::process::id()));
        fs::copy(example("agent"), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Copied(path)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn deployed(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/deploy").join(file))
        .unwrap()
}

/// Parses `CAP_BPF CAP_PERFMON` or `BPF, PERFMON` into the names that `setpriv` takes.
fn capabilities(file: &str, before: &str, separators: &[char]) -> BTreeSet<String> {
    let text = deployed(file);
    let list = text.lines().find_map(|line| line.trim().strip_prefix(before)).unwrap();
    let names = list.trim_end_matches(']').split(separators).filter(|name| !name.is_empty());
    names.map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect()
}

fn of_unit(before: &str) -> BTreeSet<String> {
    capabilities("agent.service", before, &[' '])
}

/// Returns a command that runs the program as another user with these capabilities only.
fn restricted(program: &Copied, capabilities: &BTreeSet<String>) -> Command {
    let all: String = capabilities.iter().map(|name| format!(",+{name}")).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]);
    for set in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{set}=-all{all}"));
    }
    command.arg(&program.0);
    command
}

/// Runs an agent with the capabilities of the unit on a workload and returns its summary.
fn profiled(copied: &Copied, collector: &Otelcol, workload: &Workload, options: &[&str]) -> Account {
    let agent = restricted(copied, &of_unit("AmbientCapabilities="));
    Agent::by(agent, &collector.endpoint("grpc"))
        .with(options)
        .with(&["--protocol", "grpc", "--pid", &workload.pid(), "--seconds", "3", "--interval", "1"])
        .run()
}

#[test]
fn unit_and_daemon_set_have_the_same_capabilities() {
    let unit = of_unit("AmbientCapabilities=");
    assert_eq!(unit, of_unit("CapabilityBoundingSet="));
    assert_eq!(unit, capabilities("agent.yaml", "add: [", &[',', ' ']));
    let page = deployed("README.md");
    assert!(unit.iter().all(|name| page.contains(&format!("`CAP_{}`", name.to_uppercase()))));
}

#[test]
#[ignore = "needs root and a collector"]
fn the_capabilities_of_the_unit_are_enough() {
    test_needs::root!();
    test_needs::programs!("gcc");
    require_functions_arrive(&[]);
}

#[test]
#[ignore = "needs root and a collector"]
fn the_capabilities_of_the_unit_are_enough_for_a_broker() {
    test_needs::root!();
    test_needs::programs!("gcc");
    require_functions_arrive(&["--broker", "--confine"]);
}

fn require_functions_arrive(options: &[&str]) {
    let Some(program) = otelcol::program() else { return };
    let (scratch, copied) = (Scratch::new("privileges"), Copied::new());
    let mut collector = Otelcol::start(&program, &scratch, &Options::default());
    let workload = Workload::start(&scratch);
    // The deleted file is reachable through the process only.
    workload.delete();
    let account = profiled(&copied, &collector, &workload, options);
    // The agent reports missing capabilities.
    assert!(!account.said.contains("not held"), "{account}");
    assert!(account.delivered >= 2 && account.dropped == 0, "{account}");
    collector.received().assert_has(&FUNCTIONS);
}

/// The kernel hides its list of functions from processes without further capabilities.
#[test]
#[ignore = "needs root and a collector"]
fn kernel_functions_have_names_without_access_to_their_list() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    let (scratch, copied) = (Scratch::new("names"), Copied::new());
    let mut collector = Otelcol::start(&program, &scratch, &Options::default());
    let workload = Workload::of_system_calls();
    let account = profiled(&copied, &collector, &workload, &[]);
    println!("{account}");
    let restrict = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let everybody_may = restrict("kptr_restrict").trim() == "0"
        && restrict("perf_event_paranoid").trim().parse().is_ok_and(|level: i32| level <= 1);
    assert!(everybody_may || account.said.contains("addresses are hidden"), "{account}");
    // Entry function of system calls, on both architectures.
    let root = if cfg!(target_arch = "aarch64") { "el0_svc" } else { "do_syscall_64" };
    collector.received().assert_has(&[root, "ksys_read", "ksys_write"]);
}
