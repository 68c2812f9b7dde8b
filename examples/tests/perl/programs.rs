//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | Perl::Tidy | formats its largest module |
//! | Markdown | converts a document |

use std::path::Path;

use crate::document::{FOLDER, document};
use crate::fixtures::fixtures;
use crate::interpreter::Interpreter;
use crate::placed::{Language, Sources};

/// The first samples are those of a runtime that is not attached yet. A sub begins where its first statement does: comments may
/// stand before it.
const LANGUAGE: Language = Language { name: "perl", limits: [[950, 1000], [990, 5]], before: 120, words };

/// Profiles programs with this word in their names under an interpreter; returns those with a verdict beyond the limits.
pub(crate) fn failures(perl: &Interpreter, only: &str) -> Vec<String> {
    let Ok(root) = fixtures().join("perl/programs").canonicalize() else {
        test_needs::skip("no programs: cargo xtask fixtures perl");
        return Vec::new();
    };
    let path = |name: &str| root.join("usr").join(name).display().to_string();
    let text = document(40).display().to_string();
    let programs = [
        (
            "Perl::Tidy",
            vec![path("bin/perltidy"), "-st".to_owned(), path("share/perl5/Perl/Tidy/Formatter.pm")],
        ),
        ("Markdown", vec![path("bin/markdown"), text]),
    ];
    let mut sources = Sources::new(root.clone());
    let failures = |(name, arguments): (&str, Vec<String>)| {
        let mut command = perl.seeing(&[&root, Path::new(FOLDER)], &[]);
        command.arg(format!("-I{}", path("share/perl5"))).args(arguments);
        LANGUAGE.failures(&perl.name, name, &command, &mut sources)
    };
    programs.into_iter().filter(|(name, _)| name.contains(only)).flat_map(failures).collect()
}

/// Returns the last part of a sub's name; none for subs without one, evals, files, and `use`.
fn words(name: &str) -> Vec<&str> {
    let name = name.rsplit(':').next().unwrap_or(name);
    if name.starts_with(['(', '{', '_']) || name == "BEGIN" { Vec::new() } else { vec![name] }
}
