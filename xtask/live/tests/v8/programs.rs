//! Programs that were not written for this test, from their start to their end.
//!
//! | program | work |
//! |---|---|
//! | TypeScript's compiler | checks the types of a file of UglifyJS |
//! | Prettier | formats itself |
//! | UglifyJS | minifies the command line of Prettier |
//! | esbuild | the same, as a program in Go that was compiled to WebAssembly |
//!
//! Stacks have to be whole, and frames of V8 to have names. Names are compared with the sources:
//! that of a function stands in the line where the function begins, or before it. The first
//! samples, while Node.js starts, are compared for themselves.

use crate::Node;
use live_suite::workload::placed::Language;
use live_suite::workload::sources::Sources;

/// At the start frames have no name while the runtime is not attached yet. The trampoline is part
/// of an interpreted function, and shown if that cannot be read.
const LANGUAGE: Language =
    Language { name: "v8", limits: [[850, 1000], [990, 5]], loops: &["Builtins_InterpreterEntryTrampoline"] };

/// A name may stand some lines before its function: `const name =`.
const BEFORE: usize = 3;

/// Profiles all programs under a version; returns those with a share beyond the limits.
pub(crate) fn failures(node: &Node) -> Vec<String> {
    let root = live_suite::paths::fixtures().join("node-programs");
    if !root.join("complete").exists() {
        test_needs::skip("no programs: cargo xtask fixtures v8");
        return Vec::new();
    }
    // As Node.js shows it.
    let root = root.canonicalize().unwrap();
    let path = |name: &str| root.join(name).display().to_string();
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut compiler = vec![path("typescript/lib/tsc.js")];
    compiler.extend(texts(&["--noEmit", "--allowJs", "--checkJs", &path("uglify-js/lib/compress.js")]));
    let programs = [
        ("TypeScript", compiler),
        ("Prettier", vec![path("prettier/bin-prettier.js"), path("prettier/index.js")]),
        ("UglifyJS", texts(&[&path("uglify-js/bin/uglifyjs"), "-c", "-m", "--", &path("prettier/cli.js")])),
        ("esbuild", texts(&[&path("esbuild-wasm/bin/esbuild"), "--minify", &path("prettier/cli.js")])),
    ];
    let mut sources = Sources::new(root.clone(), BEFORE, words);
    let failures = |(name, arguments): (&str, Vec<String>)| {
        let mut command = node.command(&root);
        command.args(arguments);
        LANGUAGE.failures(&node.name, name, &command, &mut sources)
    };
    let only = std::env::var("TRUTH_PROGRAM").ok();
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    programs.into_iter().filter(|(name, _)| is_wanted(name)).flat_map(failures).collect()
}

/// Returns the last part of a name, or the words that begin a function without one or with one that
/// V8 infers.
fn words(name: &str) -> Vec<&str> {
    match name.rsplit(['.', ' ']).next().unwrap_or(name) {
        "(anonymous)" | "<computed>" => vec!["function", "=>"],
        "" => Vec::new(),
        name => vec![name],
    }
}
