//! An OpenTelemetry collector, built from its source by its own builder.
//!
//! Released builds accept profiles behind a feature gate only, or include a hundred other
//! components.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, command, fixtures, root, run};

/// The version of the collector and of its components in `xtask/collector/builder.yaml`.
const VERSION: &str = "0.159.0";

/// Returns the path of the collector, which it builds if it is missing.
pub(crate) fn build() -> Result<PathBuf, String> {
    let directory = root().join(fixtures()).join(format!("otelcol-{VERSION}"));
    let program = directory.join("otelcol");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    go(&directory).map_err(|why| format!("{why}; needs Go 1.25 or newer: https://go.dev/dl"))?;
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("the builder wrote no program to {}", program.display())),
    }
}

fn go(directory: &Path) -> Outcome {
    let builder = format!("go.opentelemetry.io/collector/cmd/builder@v{VERSION}");
    let config = root().join("xtask/collector/builder.yaml");
    let config = config.canonicalize().map_err(|error| format!("{}: {error}", config.display()))?;
    run(command(&["go", "run", &builder, "--config"]).arg(config).current_dir(directory))
}

#[test]
fn builder_and_components_have_one_version() {
    let config = include_str!("../collector/builder.yaml");
    let modules: Vec<_> = config.lines().filter(|line| line.contains("gomod:")).collect();
    assert!(modules.len() > 2 && modules.iter().all(|line| line.ends_with(&format!(" v{VERSION}"))));
}
