//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | Asciidoctor | converts a document |
//! | Rouge | highlights the same |

use std::path::PathBuf;

use crate::program::Ruby;
use live_suite::paths::{fixtures, scratch};
use live_suite::workload::document::document;
use live_suite::workload::placed::Language;
use live_suite::workload::sources::Sources;

/// The first samples are those of a runtime that is not attached yet.
const LANGUAGE: Language = Language { name: "ruby", limits: [[950, 1000], [990, 5]], loops: &[] };

/// Folder of the programs' libraries.
const GEMS: &str = "usr/share/rubygems-integration/all/gems";

/// A version whose libraries a build has that comes without any.
const LIBRARIES: (&str, &str) = ("yjit-3.3.8", "wheel-3.3.9");

/// Profiles programs with these words in their names under a version; returns those with a comparison
/// beyond the limits.
pub(crate) fn failures(version: &str, options: &'static [&'static str], only: &str) -> Vec<String> {
    let root = fixtures().join("ruby/programs");
    let (Some(ruby), Ok(root)) = (Ruby::find(version), root.canonicalize()) else {
        test_needs::skip(&format!("no Ruby {version} or no programs: cargo xtask fixtures ruby"));
        return Vec::new();
    };
    let ruby = ruby.with_compiler(options, 0);
    let gem = |path: &str| root.join(GEMS).join(path);
    let [long, short] = [400, 100].map(document);
    let programs = [
        (
            "Asciidoctor",
            vec![gem("asciidoctor-2.0.18/bin/asciidoctor"), "-o".into(), "/dev/null".into(), long],
        ),
        (
            "Rouge",
            vec![
                "-I".into(),
                gem("rouge-3.30.0/lib"),
                gem("rouge-3.30.0/bin/rougify"),
                "highlight".into(),
                short,
            ],
        ),
    ];
    let mut sources = Sources::new(root.clone(), 0, words);
    let failures = |(name, arguments): (&str, Vec<PathBuf>)| {
        let mut command = ruby.bare(&[&root, &scratch()]);
        command.args(arguments).env("LC_ALL", "C.UTF-8");
        if let Some(folder) = libraries(version) {
            command.env("RUBYLIB", format!("{0}:{0}/x86_64-linux", folder.display()));
        }
        let interpreter = [&[version], options].concat().join(" ");
        LANGUAGE.failures(&interpreter, name, &command, &mut sources)
    };
    programs.into_iter().filter(|(name, _)| name.contains(only)).flat_map(failures).collect()
}

/// Returns the folder of the libraries of a portable build, `None` for one that finds its own.
fn libraries(version: &str) -> Option<PathBuf> {
    let (without, with) = LIBRARIES;
    let folder = fixtures().join("ruby").join(if version == without { with } else { version });
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().map_while(Result::ok);
    let folders = entries(folder).flat_map(|entry| entries(entry.path().join("lib/ruby/lib/ruby")));
    folders.map(|entry| entry.path()).find(|path| path.join("x86_64-linux").is_dir())
}

/// Returns the last part of a method's name; none for blocks and bodies of classes, modules and
/// files.
fn words(name: &str) -> Vec<&str> {
    let is_method = !name.contains(" in ") && !name.starts_with('<') && !name.contains(":<");
    name.rsplit(['#', '.']).next().filter(|_| is_method).into_iter().collect()
}
