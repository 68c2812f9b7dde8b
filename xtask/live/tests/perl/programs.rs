//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | Perl::Tidy | formats its largest module |
//! | Markdown | converts a document |

use std::path::Path;

use crate::LOOPS;
use crate::interpreter::{Interpreter, PROGRAMS};
use crate::subs::Subs;
use live_suite::paths::{fixtures, scratch};
use live_suite::workload::document::document;
use live_suite::workload::placed::Language;

/// The first samples are those of a runtime that is not attached yet.
const LANGUAGE: Language = Language { name: "perl", limits: [[950, 100], [990, 5]], loops: LOOPS };

/// Profiles programs with this word in their names under an interpreter; returns those with a
/// share beyond the limits.
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
    let failures = |(name, arguments): (&str, Vec<String>)| {
        let command = |options: &[&str]| {
            let mut command = perl.seeing(&[&root, &scratch(), Path::new(PROGRAMS)], options);
            command.arg(format!("-I{}", path("share/perl5"))).args(&arguments);
            command
        };
        let mut subs = Subs::of(perl, command(&["-I", PROGRAMS, "-MSubs"]));
        LANGUAGE.failures(&perl.name, name, &command(&[]), &mut subs)
    };
    programs.into_iter().filter(|(name, _)| name.contains(only)).flat_map(failures).collect()
}
