//! Output to people.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Prints a result on standard output. An error ends the program with exit code 1, unless the
/// reader has closed the pipe.
pub fn print(result: impl Display) {
    show(result);
}

/// Prints as [`print()`] does. Returns `false` if the reader has closed the pipe.
pub fn show(result: impl Display) -> bool {
    let mut out = io::stdout().lock();
    match write!(out, "{result}").and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => fail(format!("cannot print: {error}")),
    }
}

/// Prints a line on standard error. An error of that is ignored: there is no other place to report
/// it.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints an error and ends the program with exit code 1.
pub fn fail(error: impl Display) -> ! {
    fail_with(1, error)
}

/// Prints an error and ends the program.
pub(crate) fn fail_with(code: i32, error: impl Display) -> ! {
    say(format_args!("error: {error}"));
    std::process::exit(code)
}
