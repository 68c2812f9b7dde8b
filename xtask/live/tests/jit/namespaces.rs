//! Files of processes in other namespaces, as in containers, and of other users.

use std::process::Command;

use crate::outcome::Outcome;
use crate::{Running, WARM_UP, folder, node_command};

/// A shell in its own process and mount namespace, with a `/tmp` of its own, that becomes the
/// program behind it.
const CONTAINER: &[&str] = &[
    "--pid",
    "--fork",
    "--kill-child",
    "--mount",
    "--mount-proc",
    "sh",
    "-c",
    "mount -t tmpfs none /tmp && cd /tmp && exec \"$@\"",
    "sh",
];

/// The process has number 1 there, which is that of another process here, and so may be the name of
/// a map.
#[test]
#[ignore = "profiles: needs root"]
fn perf_map_of_container_is_read() {
    test_needs::root!();
    test_needs::programs!("node");
    let outcome = in_container("--perf-basic-prof");
    assert!(outcome.exact_per_mille() >= 990, "{outcome:?}");
}

#[test]
#[ignore = "profiles: needs root"]
fn perf_map_of_other_user_is_read() {
    test_needs::root!();
    test_needs::programs!("node");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "node"]);
    let node = node_command("node", "--perf-basic-prof");
    let program = Running::start(command.args(node.get_args()).current_dir("/tmp"));
    std::thread::sleep(WARM_UP);
    let outcome = Outcome::of(&program.profile(), &["outer", "middle", "spin"], true);
    println!("node of another user: {outcome:?}");
    assert!(outcome.exact_per_mille() >= 990, "{outcome:?}");
}

fn in_container(flag: &str) -> Outcome {
    let mut command = Command::new("unshare");
    command.args(CONTAINER).arg("node");
    let node = node_command("node", flag);
    let program = Running::start_parent(command.args(node.get_args()).current_dir(folder("container")));
    std::thread::sleep(WARM_UP);
    let outcome = Outcome::of(&program.profile(), &["outer", "middle", "spin"], true);
    println!("node {flag} in a container: {outcome:?}");
    outcome
}
