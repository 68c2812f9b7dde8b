//! The folder of what `cargo xtask fixtures` has fetched.

use std::path::{Path, PathBuf};

/// Returns the folder of all fixtures.
pub(crate) fn fixtures() -> PathBuf {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    std::env::var_os("XTASK_FIXTURES").map_or(fixtures, PathBuf::from)
}
