//! Names for people against `c++filt`, for all functions of programs and inlined ones.

use std::collections::BTreeSet;

use ebpf_profiler_core::symbol::{SymbolOptions, Symbolizer};

use crate::address::ours;
use crate::program::Program;
use crate::tool::run_with;

/// Returns the pairs of linker's name and demangled name at all addresses of a program.
fn names(program: &Program) -> BTreeSet<(String, String)> {
    let addresses = program.addresses(".text");
    let (found, _) = ours(&program.module(), &addresses, SymbolOptions::default());
    let pair = |symbol: &ebpf_profiler_core::symbol::Symbol| {
        (!symbol.system_name.is_empty())
            .then(|| (symbol.system_name.to_string(), symbol.function.to_string()))
    };
    found.iter().flatten().filter_map(pair).collect()
}

fn differing(names: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
    let input: String = names.iter().map(|(linker, _)| format!("{linker}\n")).collect();
    let theirs = run_with("binutils", "c++filt", &["--no-params"], &input);
    let rows = names.iter().zip(theirs.lines()).filter(|((_, ours), theirs)| plain(ours) != plain(theirs));
    rows.map(|((_, ours), theirs)| (ours.clone(), theirs.to_owned())).collect()
}

/// Removes differences of notation: spaces, the type of numbers, text after an empty pack, `const`
/// behind a method, hashes of crates and functions.
fn plain(name: &str) -> String {
    let without_crates = name.split('[').map(|part| match part.split_once(']') {
        Some((hash, rest)) if hash.len() >= 14 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            rest.to_owned()
        }
        _ => format!("[{part}"),
    });
    let name = without_crates.collect::<String>();
    let is_hash = |hash: &str| hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit());
    let name = match name.rsplit_once("::h") {
        Some((rest, hash)) if is_hash(hash) => rest,
        _ => &name,
    };
    name.replace(' ', "")
        .replace("ul", "")
        .replace(":usize", "")
        .replace(",>", ">")
        .trim_end_matches("const")
        .to_owned()
}

fn compare(program: &Program) {
    let names = names(program);
    let differing = differing(&names);
    for (ours, theirs) in &differing {
        println!("  ours   {ours}\n  theirs {theirs}");
    }
    assert!(names.len() > 50 && differing.is_empty(), "{} of {}", differing.len(), names.len());
}

#[test]
fn cpp() {
    test_needs::programs!("g++", "c++filt");
    for level in ["-O0", "-O2"] {
        compare(&Program::compile("demangle-cpp", "objects.cpp", &["-g", level]));
    }
}

#[test]
fn rust() {
    test_needs::programs!("rustc", "c++filt");
    // The form is the older one unless the newer one is asked for.
    for form in [&[][..], &["-Csymbol-mangling-version=v0"]] {
        let arguments = [&["-g", "-Cprefer-dynamic"], form].concat();
        compare(&Program::compile("demangle-rust", "generic.rs", &arguments));
    }
}

#[test]
fn names_made_to_hurt_stay_as_they_are() {
    let deep = format!("_Z1f{}i", "P".repeat(4000));
    let doubling: String = (0..60).map(|n| format!("S{}_S{}_", digit(n), digit(n))).collect();
    let long = format!("_Z1fI{}E", "St4pairI".repeat(900));
    let rust = format!("_R{}C1a", "I".repeat(4000));
    let open = format!("_ZN{}", "1a".repeat(3000));
    let doubled = format!("_Z1fSt4pairIiiE{doubling}");
    let names =
        [deep, doubled, long, rust, open, "_Z".into(), "_R".into(), "_ZN".into(), "_Z\u{fffd}".into()];
    let start = std::time::Instant::now();
    for name in names {
        let listed = format!("ffffffff81000000 T {name}\n");
        let path = crate::program::folder("hurt").join("kallsyms");
        std::fs::write(&path, listed).expect("written");
        let mut options = SymbolOptions::default();
        options.kallsyms = path;
        let mut found = String::new();
        let mut symbols = ebpf_profiler_core::symbol::Symbols::new(options);
        symbols.kernel(&[0xffffffff81000000], &mut |_, functions| found = functions[0].function.to_string());
        assert!(found == name || found.len() <= 16 << 10, "{name}: {found}");
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
}

fn digit(number: u32) -> char {
    char::from_digit(number % 36, 36).expect("a digit").to_ascii_uppercase()
}
