//! Texts of functions in files of other tools.

use crate::profile::Call;
use crate::text::{clean, clip};

/// Maximum length of a name in characters.
const MAX_NAME: usize = 1024;

/// Returns the name of a function, without control characters and at most 1,024 characters long.
pub(super) fn name(call: &Call<'_>) -> String {
    text(&call.to_string())
}

/// Returns text from a target without control characters, at most 1,024 characters long.
pub(super) fn text(text: &str) -> String {
    clean(&clip(text, MAX_NAME)).into_owned()
}

/// Returns the file of a function's source; empty if it is unknown.
pub(super) fn source<'p>(call: &Call<'p>) -> &'p str {
    let script = match call {
        Call::Function { frame, .. } => frame.script(),
        _ => None,
    };
    let symbol = call.symbol().map(|symbol| &*symbol.file).filter(|file| !file.is_empty());
    symbol.or_else(|| script.map(|script| &*script.file)).unwrap_or_default()
}
