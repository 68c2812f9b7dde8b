//! Forms of code: an interpreter, or a compiler of one, and the program that it runs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use benches::program::Running;

/// A form of code.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Path within the fixtures, or a program of `PATH`.
    program: &'static str,
    flags: &'static [&'static str],
    source: Source,
}

/// The way in which a program of `programs` is passed.
#[derive(Debug)]
enum Source {
    /// A path.
    Path(&'static str),
    /// The standard input, so that interpreters with another root read it, too.
    Input(&'static str),
    /// A class, from a file in Java.
    Class(&'static str),
}

const JAVA: &str = "jdk-17/bin/java";
const NODE: &str = "node-26/bin/node";

/// Flag that prevents inlining, so that the stack has a frame for each call.
const NOT_INLINED: &str = "-XX:CompileCommand=dontinline,Spin::*";
const QUIET: &str = "-XX:CompileCommand=quiet";

/// All forms.
pub(crate) const FORMS: [Form; 16] = [
    Form { name: "java-interpreted", program: JAVA, flags: &["-Xint"], source: Source::Class("Spin") },
    Form {
        name: "java-c1",
        program: JAVA,
        flags: &["-XX:TieredStopAtLevel=1", QUIET, NOT_INLINED],
        source: Source::Class("Spin"),
    },
    Form {
        name: "java-c2",
        program: JAVA,
        flags: &["-XX:-TieredCompilation", QUIET, NOT_INLINED],
        source: Source::Class("Spin"),
    },
    Form {
        name: "node-interpreted",
        program: NODE,
        flags: &["--no-opt", "--no-sparkplug", "--no-maglev"],
        source: Source::Path("spin.js"),
    },
    Form {
        name: "node-baseline",
        program: NODE,
        flags: &["--no-opt", "--always-sparkplug", "--no-maglev"],
        source: Source::Path("spin.js"),
    },
    Form {
        name: "node-optimized",
        program: NODE,
        flags: &["--no-turbo-inlining", "--no-maglev-inlining"],
        source: Source::Path("spin.js"),
    },
    // No two frames are of one function.
    Form {
        name: "node-functions",
        program: NODE,
        flags: &["--no-turbo-inlining", "--no-maglev-inlining"],
        source: Source::Path("functions.js"),
    },
    Form { name: "python", program: "python3", flags: &[], source: Source::Path("spin.py") },
    Form { name: "ruby", program: "ruby", flags: &["--disable-gems"], source: Source::Input("spin.rb") },
    Form {
        name: "ruby-yjit",
        program: "ruby",
        flags: &["--disable-gems", "--yjit"],
        source: Source::Input("spin.rb"),
    },
    Form { name: "php", program: "php", flags: &[], source: Source::Path("spin.php") },
    // No two frames are of one function.
    Form { name: "php-functions", program: "php", flags: &[], source: Source::Path("functions.php") },
    Form {
        name: "php-jit",
        program: "php",
        flags: &["-dopcache.enable_cli=1", "-dopcache.jit_buffer_size=64M", "-dopcache.jit=function"],
        source: Source::Path("spin.php"),
    },
    Form { name: "perl", program: "perl", flags: &[], source: Source::Path("spin.pl") },
    Form {
        name: "luajit-interpreted",
        program: "luajit",
        flags: &["-joff"],
        source: Source::Input("spin.lua"),
    },
    Form { name: "luajit", program: "luajit", flags: &[], source: Source::Input("spin.lua") },
];

impl Form {
    /// Starts the program and waits until it is at a depth of `depth` calls. `interpreter` is a
    /// command instead of the form's own.
    pub(crate) fn start(&self, interpreter: &str, depth: u32) -> io::Result<Running> {
        /// The program descends after it has printed its line.
        const DESCENT: std::time::Duration = std::time::Duration::from_millis(300);
        let mut command = self.command(interpreter);
        match self.source {
            Source::Path(file) => command.arg(program(file)),
            Source::Input(file) => command.arg("-").stdin(File::open(program(file))?),
            Source::Class(class) => command.arg("-cp").arg(compile(class)?).arg(class),
        };
        // Scripts in Python, PHP and Perl take a duration, too.
        let running = Running::ready(command.args([depth.to_string(), "100000".to_owned()]))?;
        std::thread::sleep(DESCENT);
        Ok(running)
    }

    /// Returns the interpreter with its flags.
    fn command(&self, interpreter: &str) -> Command {
        let fixture = fixtures().join(self.program);
        let own = if fixture.is_file() { fixture } else { self.program.into() };
        let mut words = interpreter.split_whitespace().map(PathBuf::from);
        let mut command = Command::new(words.next().unwrap_or(own));
        command.args(words).args(self.flags);
        command
    }
}

/// Returns the folder of `cargo xtask fixtures`.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures")
}

fn program(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(file)
}

/// Compiles a class for all versions of Java, and returns the folder.
fn compile(class: &str) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("classes");
    let source = program(&format!("{class}.java"));
    let status = Command::new("javac").args(["--release", "11", "-d"]).arg(&folder).arg(source).status()?;
    if status.success() { Ok(folder) } else { Err(io::Error::other(format!("javac: {status}"))) }
}
