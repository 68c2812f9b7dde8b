//! Programs that are compiled for a test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A program in a temporary file; deleted on drop.
pub(crate) struct Program(pub(crate) PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles a source of this folder with gcc.
pub(crate) fn compile(source: &str, options: &[&str]) -> Program {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("steps-{}-{number}", std::process::id()));
    let source = format!("{}/tests/steps/{source}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("gcc");
    let status = command.args(options).arg(source).arg("-o").arg(&path).args(["-lm"]).status();
    assert!(status.expect("gcc runs").success());
    Program(path)
}
