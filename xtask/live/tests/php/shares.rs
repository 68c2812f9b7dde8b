//! Shares of functions compared with those of excimer, a sampling profiler within PHP, in the same
//! run.

use crate::interpreter::Interpreter;
use live_suite::comparison::chi_squared::{limit, of_counts};
use live_suite::comparison::shares::{parse, run};
use live_suite::selection::is_matrix;

/// Least number of samples of excimer.
const MIN_SAMPLES: f64 = 100.0;

/// Compares the shares of one run.
pub(crate) fn check(version: &str) {
    let options = &["-dextension=excimer"];
    let Some(php) = Interpreter::fetched(version, &format!("/usr/bin/php{version}"), options) else {
        return test_needs::skip(&format!("no PHP {version}: cargo xtask fixtures php"));
    };
    let seconds = if is_matrix() { "25" } else { "5" };
    let (sampled, printed) = run(php.command("shares.php", &[seconds]), "");
    let excimer = parse(&printed, "");
    let limit = limit(sampled.len());
    let chi_squared = of_counts(&sampled, &excimer);
    println!(
        "PHP {version}: {sampled:?} sampled, {excimer:?} by excimer: chi-squared {chi_squared:.1} (limit {limit})"
    );
    assert!(excimer.iter().sum::<f64>() >= MIN_SAMPLES, "few samples of excimer: {printed}");
    assert!(chi_squared < limit, "{sampled:?}, but {excimer:?} by excimer");
}
