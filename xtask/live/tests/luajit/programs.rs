//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | Luacheck | checks its own sources and those of Penlight |
//! | Markdown | converts a document |
//!
//! `programs/others.lua` calls them: some hosts can't load the library in C that a command line
//! needs.

use std::path::{Path, PathBuf};

use crate::host::Host;
use live_suite::paths::{fixtures, scratch};
use live_suite::workload::document::document;
use live_suite::workload::placed::Language;
use live_suite::workload::sources::Sources;

/// The first samples are those of a runtime that is not attached yet. Functions have the names by
/// which they are called.
///
/// A program that compiles runs in new memory. Its first stacks there come from copies, with a mark
/// instead of the Lua frames, and some are cut.
const LANGUAGE: Language = Language { name: "luajit", limits: [[950, 1000], [975, 8]], loops: &[] };

/// Profiles programs with this word in their names in a host; returns those with a share beyond
/// the limits.
pub(crate) fn failures(host_name: &str, host: &Host, only: &str) -> Vec<String> {
    let Ok(root) = fixtures().join("luajit/programs").canonicalize() else {
        test_needs::skip("no programs: cargo xtask fixtures luajit");
        return Vec::new();
    };
    let modules = root.join("usr/share/lua/5.1");
    let files: Vec<_> = sources_below(&modules).iter().map(|path| path.display().to_string()).collect();
    let text = document(4).display().to_string();
    let programs = [
        ("Luacheck", [vec!["luacheck".to_owned()], files].concat()),
        ("Markdown", vec!["markdown".to_owned(), text]),
    ];
    let mut sources = Sources::new(root.clone(), 0, |_| Vec::new());
    let failures = |(name, arguments): (&str, Vec<String>)| {
        let mut command = host.seeing(&[&root, &scratch()], "others.lua");
        command.args(arguments).env("LUA_PATH", format!("{0}/?.lua;{0}/?/init.lua;;", modules.display()));
        LANGUAGE.failures(host_name, name, &command, &mut sources)
    };
    programs.into_iter().filter(|(name, _)| name.contains(only)).flat_map(failures).collect()
}

/// Returns the sources in a folder and those within it.
fn sources_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { sources_below(&path) } else { vec![path] };
    paths
        .into_iter()
        .flat_map(below)
        .filter(|path| path.extension().is_some_and(|end| end == "lua"))
        .collect()
}
