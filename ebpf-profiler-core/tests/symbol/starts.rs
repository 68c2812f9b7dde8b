//! Start addresses of stripped functions, compared with `readelf` on the file before stripping.

use std::collections::HashMap;

use ebpf_profiler_core::symbol::{Symbolizer, Symbols};

use crate::names::listed;
use crate::program::Program;
use crate::tool::{run, text};

/// Returns the start of the function that contains each of `addresses`.
fn starts(program: &Program, addresses: &[u64]) -> HashMap<u64, u64> {
    let mut found = HashMap::new();
    let mut symbols = Symbols::default();
    // The second result comes from the cache.
    for round in 0..2 {
        symbols.starts(&program.module(), addresses, &mut |number, start| {
            let before = found.insert(addresses[number], start);
            assert_eq!(before, (round > 0).then_some(start));
        });
    }
    found
}

fn compare(program: &Program) {
    let functions = listed(program, "--symbols");
    let stripped = program.copy("stripped", &["--strip-all"]);
    let addresses = stripped.addresses(".text");
    let mut right = 0;
    let found = starts(&stripped, &addresses);
    for address in &addresses {
        let holders: Vec<u64> =
            functions.iter().filter(|f| f.range.contains(address)).map(|f| f.range.start).collect();
        match (found.get(address), &holders[..]) {
            // An assembler label has no size, so its function is unknown.
            (_, []) => {}
            (found, _) => {
                assert!(
                    found.is_some_and(|start| holders.contains(start)),
                    "{address:#x}: {found:x?}, {holders:x?}"
                );
                right += 1;
            }
        }
    }
    assert!(right > 100, "{right}");
}

/// The frame of a handler's caller is looked up one byte before its address, like that of any
/// other.
#[test]
fn what_a_handler_returns_to_is_named() {
    test_needs::programs!("gcc", "nm");
    let program =
        Program::compile("trampoline", "trampoline.s", &["-nostdlib", "-static", "-Wl,--eh-frame-hdr"]);
    let list = run("binutils", "nm", &[text(&program.path)]);
    let line = list.lines().find(|line| line.ends_with(" give_back")).expect("it is in the source");
    let start = u64::from_str_radix(&line[..16], 16).expect("an address");
    let addresses = [start - 2, start - 1, start];
    let mut names = [const { String::new() }; 3];
    Symbols::default().native(&program.module(), &addresses, &mut |number, functions| {
        names[number] = functions[0].function.to_string();
    });
    assert_eq!(names, ["", "give_back", "give_back"]);
}

#[test]
fn stripped_c() {
    test_needs::programs!("gcc", "readelf", "objcopy");
    compare(&Program::compile("starts-c", "plain.c", &["-O2"]));
    compare(&Program::compile("starts-c-fixed", "plain.c", &["-O2", "-no-pie"]));
}

#[test]
fn stripped_cpp() {
    test_needs::programs!("g++", "readelf", "objcopy");
    compare(&Program::compile("starts-cpp", "objects.cpp", &["-O2"]));
    compare(&Program::compile("starts-library", "objects.cpp", &["-O1", "-shared", "-fPIC"]));
}

#[test]
fn nothing_is_made_up() {
    test_needs::programs!("gcc", "objcopy");
    let program = Program::compile("starts-gaps", "plain.c", &["-O2"]);
    let mut addresses: Vec<u64> =
        [".data", ".rodata"].iter().flat_map(|name| program.addresses(name)).collect();
    addresses.extend([0, 1, u64::MAX - 1, u64::MAX]);
    addresses.sort_unstable();
    assert_eq!(starts(&program, &addresses), HashMap::new());
    let without = program.copy("without", &["--remove-section=.eh_frame_hdr", "--remove-section=.eh_frame"]);
    assert_eq!(starts(&without, &without.addresses(".text")), HashMap::new());
}

/// The code behind `_start` of a stripped program is not `_start`.
#[test]
fn label_without_size_names_no_function_behind_it() {
    test_needs::programs!("gcc");
    let program = Program::compile("label", "label.s", &["-nostdlib", "-static", "-Wl,--eh-frame-hdr"]);
    let addresses = program.addresses(".text");
    let mut named = Vec::new();
    Symbols::default().native(&program.module(), &addresses, &mut |number, functions| {
        named.extend(functions.first().map(|function| (number, function.function.to_string())));
    });
    // `xor`, `call` and `hlt` have 8 bytes.
    let expected: Vec<_> = (0..8).map(|number| (number, "_start".to_owned())).collect();
    assert_eq!(named, expected);
}
