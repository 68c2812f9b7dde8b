//! Functions that are freed and whose memory is used again: each has its own samples under its own name.
//!
//! The programs define a function, run it for 25 ms of CPU time, free it and collect garbage, again and again. They print the name,
//! file and first line of each function, and the CPU time that it took. The profiler starts before the program does.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test reuse -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! | variant | functions differ by |
//! | --- | --- |
//! | functions, subs, texts, globals, fields, methods | name, of the same length |
//! | modules, lambdas, evals, anonymous, files | file |
//! | lines, closures | first line |
//! | classes, packages, loaders | class or package |
//!
//! A function is right if it has its share of the samples: 997 for each second of its CPU time. At least 99 % of the functions
//! of a variant are, and none has the samples of another one. Functions of the first 0.5 s may miss samples, as the runtime is not
//! attached yet.
//!
//! `TRUTH_VERSION=3.6,3.11` leaves only the versions with one of these in their names.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod comparison;
mod function;
mod interpreters;
mod run;

use comparison::Comparison;
use interpreters::Interpreter;
use run::run;

use live_suite::selection::is_matrix;

/// CPU time of a variant's program, in seconds: that of CI, and that of the matrix.
const SECONDS: [&str; 2] = ["3", "8"];

/// Variants of a language in CI.
const CI_VARIANTS: usize = 3;

/// Runs a language's variants under all its interpreters that are there: the first ones under the oldest and the newest, or all of
/// them in the matrix.
fn check(language: &str, interpreters: Vec<Interpreter>, variants: &[&str]) {
    test_needs::root!();
    let chosen = interpreters::chosen(interpreters);
    if chosen.is_empty() {
        return test_needs::skip(&format!("no interpreter: cargo xtask fixtures {language}"));
    }
    let is_matrix = is_matrix();
    let seconds = SECONDS[usize::from(is_matrix)];
    let variants = if is_matrix { variants } else { &variants[..variants.len().min(CI_VARIANTS)] };
    let mut failed = Vec::new();
    for interpreter in &chosen {
        for variant in variants {
            let (functions, profile) = run(interpreter.command(&[variant, seconds]));
            let comparison = Comparison::on(&functions, &profile);
            println!("{language} {}, {variant}: {comparison}", interpreter.name);
            println!(
                "share\t{language}\t{}\t{variant}\t{}\t{}",
                interpreter.name, comparison.right, comparison.functions
            );
            if !comparison.is_good() {
                failed.push(format!("{language} {}, {variant}", interpreter.name));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("; "));
}

#[test]
#[ignore = "profiles: needs root"]
fn python() {
    let variants = ["functions", "modules", "lines", "files", "lambdas", "classes"];
    check("python", interpreters::pythons(), &variants);
}

#[test]
#[ignore = "profiles: needs root"]
fn perl() {
    check("perl", interpreters::perls(), &["subs", "packages", "anonymous", "evals"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn luajit() {
    check("luajit", interpreters::luajits(), &["texts", "globals", "fields", "files", "lines"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn ruby() {
    check("ruby", interpreters::rubies(), &["methods", "files", "lines"]);
}

/// Functions of a script live as long as it does, but closures of evaluated code don't.
#[test]
#[ignore = "profiles: needs root"]
fn php() {
    check("php", interpreters::phps(), &["closures"]);
}

/// The variants of functions of V8.
const SCRIPTS: &[&str] = &["functions", "files", "lines", "wasm"];

#[test]
#[ignore = "profiles: needs root"]
fn v8_of_node_12() {
    check("v8", interpreters::nodes(&["12"]), SCRIPTS);
}

#[test]
#[ignore = "profiles: needs root"]
fn hotspot() {
    test_needs::programs!("javac");
    check("hotspot", interpreters::javas(), &["loaders"]);
}

/// Dynamic methods, and assemblies that are unloaded.
#[test]
#[ignore = "profiles: needs root"]
fn dotnet() {
    check("dotnet", interpreters::dotnets(), &["dynamic", "assemblies"]);
}

/// Node.js 26 frees some functions before their names are read.
mod matrix {
    use super::{check, interpreters};

    #[test]
    #[ignore = "profiles: needs root"]
    fn beam() {
        check("beam", interpreters::beams(), &["functions", "modules", "lines"]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn v8() {
        check("v8", interpreters::nodes(interpreters::NODES), super::SCRIPTS);
    }
}
