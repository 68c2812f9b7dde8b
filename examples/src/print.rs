//! What a program prints.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::fail;

/// Prints a result. Who reads it may have seen enough before it ends; anyone else is told if it can't be printed.
pub fn print(result: impl Display) {
    let mut out = io::stdout().lock();
    match write!(out, "{result}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(format!("cannot print: {error}")),
        _ => {}
    }
}
