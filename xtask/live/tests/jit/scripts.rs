//! Runtimes of other scripts. Compiled functions of PHP have no frames of their own on the native
//! stack, so the leaf alone is compared.

use std::process::Command;

use crate::outcome::Outcome;
use crate::{Running, WARM_UP, source};

#[test]
#[ignore = "profiles: needs root"]
fn php_functions_have_names_of_perf_map() {
    test_needs::root!();
    test_needs::programs!("php");
    let mut command = Command::new("php");
    // Compiled whole when they are called first; 16: a perf map.
    let settings =
        ["opcache.enable_cli=1", "opcache.jit_buffer_size=64M", "opcache.jit=1205", "opcache.jit_debug=16"];
    command.args(settings.iter().flat_map(|setting| ["-d", setting])).arg(source("jit_chain.php")).arg("20");
    let outcome = leaves(&mut command);
    println!("php: {outcome:?}");
    assert!(outcome.exact_per_mille() >= 980, "{outcome:?}");
}

fn leaves(command: &mut Command) -> Outcome {
    let program = Running::start(command);
    std::thread::sleep(WARM_UP);
    Outcome::of_leaves(&program.profile(), "spin")
}
