//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | PHP-Parser | parses its own sources and prints their trees |
//! | Parsedown | converts a document |

use crate::interpreter::Interpreter;
use live_suite::paths::{fixtures, scratch};
use live_suite::workload::document::document;
use live_suite::workload::placed::Language;
use live_suite::workload::sources::Sources;

/// The first samples are those of a runtime that is not attached yet; the function JIT compiles
/// then, on a stack that is deeper than the part that is copied.
const LANGUAGE: Language = Language { name: "php", limits: [[600, 1000], [990, 5]], loops: &["execute_ex"] };

/// The library is called by a program that the interpreter gets.
const CONVERT: &str =
    "require 'Parsedown/Parsedown.php'; echo (new Parsedown)->text(file_get_contents($argv[1]));";

/// Profiles programs with this word in their names under an interpreter; returns those with a
/// share beyond the limits.
pub(crate) fn failures(php: &Interpreter, only: &str) -> Vec<String> {
    let Ok(root) = fixtures().join("php/programs").canonicalize() else {
        test_needs::skip("no programs: cargo xtask fixtures php");
        return Vec::new();
    };
    let path = |name: &str| root.join("usr").join(name).display().to_string();
    let text = document(1000).display().to_string();
    let parsed = ["Php5", "Php7"].map(|name| path(&format!("share/php/PhpParser/Parser/{name}.php")));
    let mut parser = vec![path("bin/php-parse"), "--dump".to_owned()];
    parser.extend(parsed.into_iter().cycle().take(8));
    let programs = [
        ("PHP-Parser", parser),
        ("Parsedown", vec!["-r".to_owned(), CONVERT.to_owned(), "--".to_owned(), text]),
    ];
    let mut sources = Sources::new(root.clone(), 0, words);
    let failures = |(name, arguments): (&str, Vec<String>)| {
        let mut command = php.bare(&[&root, &scratch()]);
        command.arg("-dmemory_limit=-1");
        command.arg(format!("-dinclude_path={}", path("share/php"))).args(arguments);
        LANGUAGE.failures(&php.name, name, &command, &mut sources)
    };
    programs.into_iter().filter(|(name, _)| name.contains(only)).flat_map(failures).collect()
}

/// Returns the last part of a name, or the words that begin a closure; none for files.
fn words(name: &str) -> Vec<&str> {
    match name.rsplit(['\\', ':']).next().unwrap_or(name) {
        _ if name.contains("{closure") => vec!["function", "fn"],
        last if last.starts_with('{') => Vec::new(),
        last => vec![last],
    }
}
