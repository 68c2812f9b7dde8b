//! Tests for which something is missing here.

/// Says why nothing is tested. Where the variable `CI` says that all must be there, that is a failure.
#[expect(clippy::print_stdout, reason = "`cargo xtask test` counts these lines")]
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value.is_empty()), "{reason}");
    println!("skipped: {reason}");
}
