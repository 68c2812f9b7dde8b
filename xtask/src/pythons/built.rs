//! Interpreters that no package holds, built from Debian's source packages.

use std::fs;
use std::path::Path;

use super::suite::Suite;
use super::{Interpreter, folder};
use crate::run::{Outcome, command, run};

const PACKAGE: &str = "python3.13";
const VERSION: &str = "3.13.5-2+deb13u5";

/// CPython 3.13 without its global lock; some ten minutes the first time.
pub(super) fn without_global_lock() -> Result<Interpreter, String> {
    let folder = folder().join("built-3.13t");
    let program = folder.join("bin/python3.13t");
    if !program.is_file() {
        build(&folder)?;
    }
    Ok(Interpreter {
        name: "built-3.13t".to_owned(),
        program: program.to_string_lossy().into_owned(),
        ..Interpreter::default()
    })
}

fn build(prefix: &Path) -> Outcome {
    eprintln!("      Python 3.13 without its global lock is being built");
    let work = prefix.with_extension("work");
    // What a broken attempt has left behind.
    let _ = fs::remove_dir_all(&work);
    let archive = Suite("trixie").source(PACKAGE, VERSION, &work.join("source"))?;
    run(command(&["tar", "--extract", "--strip-components=1", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(work.join("source")))?;
    let options = ["--disable-gil", "--with-ensurepip=no", "--disable-test-modules", "--quiet"];
    let set = format!("--prefix={}", prefix.display());
    run(command(&["../source/configure"]).args(options).arg(set).current_dir(make_in(&work)?))?;
    run(command(&["make", "--silent", "--jobs=2"]).current_dir(work.join("build")))?;
    run(command(&["make", "--silent", "install"]).current_dir(work.join("build")))?;
    fs::remove_dir_all(&work).map_err(|error| error.to_string())
}

fn make_in(work: &Path) -> Result<std::path::PathBuf, String> {
    let build = work.join("build");
    fs::create_dir_all(&build).map_err(|error| format!("{}: {error}", build.display()))?;
    Ok(build)
}
