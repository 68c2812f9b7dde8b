//! Builds the truth programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One way to build one program.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    /// The file in `tests/programs`; its ending chooses the compiler.
    pub(crate) source: &'static str,
    /// Flags beyond those that all have.
    pub(crate) flags: Vec<&'static str>,
    /// A shared library that is built beside it: its source and name.
    pub(crate) library: Option<(&'static str, &'static str)>,
    /// `true` if the running program is stripped.
    pub(crate) stripped: bool,
    /// A number behind the program's name, so that no other has it.
    pub(crate) number: Option<usize>,
}

/// A program that was built.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The program that runs.
    pub(crate) program: PathBuf,
    /// The same with symbols, for the oracle.
    pub(crate) symbols: PathBuf,
    /// The directory of both, which this test has for itself.
    pub(crate) directory: PathBuf,
}

impl Build {
    pub(crate) fn new(source: &'static str) -> Build {
        Build { source, flags: Vec::new(), library: None, stripped: false, number: None }
    }

    /// Builds it in a fresh directory of its own, under the name of its source, or one that is
    /// unique and short enough for the kernel.
    pub(crate) fn build(&self, case: &str) -> Built {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("truth").join(case);
        // Nothing may be there yet.
        let _ = fs::remove_dir_all(&directory);
        let symbols = directory.join("symbols");
        fs::create_dir_all(&symbols).expect("the target directory can be written");
        let (stem, _) = self.source.split_once('.').expect("a source has an ending");
        if let Some((source, library)) = self.library {
            run(Command::new("gcc")
                .args(C)
                .args(["-shared", "-fPIC"])
                .arg(source_path(source))
                .arg("-o")
                .arg(directory.join(library)));
        }
        let file = match self.number {
            Some(number) => format!("{stem:.11}.{number}"),
            None => stem.to_owned(),
        };
        let with_symbols = symbols.join(&file);
        run(self.compiler(&directory).arg("-o").arg(&with_symbols));
        let program = directory.join(&file);
        match self.stripped {
            true => run(Command::new("strip").arg("-o").arg(&program).arg(&with_symbols)),
            false => _ = fs::copy(&with_symbols, &program).expect("it has just been built"),
        }
        Built { program, symbols: with_symbols, directory }
    }

    fn compiler(&self, directory: &Path) -> Command {
        let mut command = match self.source.rsplit('.').next() {
            Some("rs") => with(Command::new("rustc"), RUST),
            Some("cpp") => with(Command::new("g++"), C),
            _ => with(Command::new("gcc"), C),
        };
        command.args(&self.flags).arg(source_path(self.source));
        if let Some((_, library)) = self.library.filter(|(_, library)| library.starts_with("lib")) {
            command.arg(directory.join(library)).arg("-Wl,-rpath,$ORIGIN/..:$ORIGIN");
        }
        command
    }
}

fn with(mut command: Command, flags: &[&str]) -> Command {
    command.args(flags);
    command
}

/// No frame pointers, and nothing said of debug data: a distribution's build.
const C: &[&str] = &["-O2", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"];
const RUST: &[&str] = &["-O", "-Cforce-frame-pointers=no", "--edition=2024"];

fn source_path(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source)
}

fn run(command: &mut Command) {
    let output = command.output().expect("a compiler can't be run; the cases need gcc, g++, rustc and strip");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
