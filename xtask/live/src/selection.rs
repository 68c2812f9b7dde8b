//! Environment variables that select tests.

/// Returns `true` if tests run at length, as in `cargo xtask matrix`.
pub fn is_matrix() -> bool {
    std::env::var_os("TRUTH_MATRIX").is_some()
}

/// Returns `true` unless `TRUTH_CHAIN` lists words, separated by commas, of which the name of a
/// chain has none.
pub fn is_wanted(chain: &str) -> bool {
    let wanted = std::env::var("TRUTH_CHAIN").unwrap_or_default();
    wanted.split(',').any(|part| chain.contains(part))
}
