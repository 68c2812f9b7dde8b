//! Names of functions, for every address of executable sections, against `readelf` and `objdump`.

use std::ops::Range;

use ebpf_profiler_core::symbol::{SymbolOptions, Symbolizer, Symbols};

use crate::address::{linker_name, ours};
use crate::program::{Program, folder};
use crate::tool::{run, text};

/// A function as `readelf` lists it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) range: Range<u64>,
    name: String,
}

/// Returns all functions with a size.
pub(crate) fn listed(program: &Program, option: &str) -> Vec<Listed> {
    let output = run("binutils", "readelf", &["--wide", option, text(&program.path)]);
    let listed = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, address, size, "FUNC" | "IFUNC", _, _, section, name, ..] = &words[..] else { return None };
        let start = u64::from_str_radix(address, 16).ok()?;
        let size = match size.strip_prefix("0x") {
            Some(size) => u64::from_str_radix(size, 16).ok()?,
            None => size.parse().ok()?,
        };
        let name = name.split('@').next().unwrap_or(name);
        (section != "UND").then(|| Listed { range: start..start + size, name: name.into() })
    };
    output.lines().filter_map(listed).collect()
}

/// Checks that every address of every function has one of the names listed there, and no other
/// address has any of them.
fn compare(program: &Program, functions: &[Listed]) {
    let addresses = program.addresses(".text");
    let (found, _) = ours(&program.module(), &addresses, SymbolOptions::default());
    let mut named = 0;
    for (address, found) in addresses.iter().zip(&found) {
        let mut theirs = functions.iter().filter(|function| function.range.contains(address)).peekable();
        match (found.last(), theirs.peek().is_some()) {
            (Some(ours), true) => {
                named += 1;
                let name = linker_name(ours);
                assert!(theirs.any(|function| function.name == name), "{address:#x}: {name}");
            }
            // Without a size it may be an assembler label or the start-up code, which has none.
            (Some(ours), false) => {
                let name = linker_name(ours);
                assert!(
                    functions.iter().all(|f| f.range.is_empty() || f.name != name),
                    "{address:#x}: {name}"
                );
            }
            (None, listed) => assert!(!listed, "{address:#x}: no name"),
        }
    }
    assert!(named > 0);
}

#[test]
fn symbol_table() {
    test_needs::programs!("gcc", "readelf");
    let program = Program::compile("names", "plain.c", &["-O2"]);
    compare(&program, &listed(&program, "--symbols"));
}

#[test]
fn dynamic_symbols_of_a_stripped_library() {
    test_needs::programs!("g++", "objcopy", "readelf");
    let program = Program::compile("library", "objects.cpp", &["-O1", "-shared", "-fPIC"]);
    let stripped = program.copy("stripped.so", &["--strip-all"]);
    compare(&stripped, &listed(&stripped, "--dyn-syms"));
}

#[test]
fn a_large_table_gives_the_same_names_without_being_kept() {
    test_needs::programs!("gcc");
    let program = Program::compile("large", "plain.c", &["-O2", "-static"]);
    let addresses: Vec<u64> = program.addresses(".text").into_iter().step_by(3).collect();
    let (expected, _) = ours(&program.module(), &addresses, SymbolOptions::default());
    let mut options = SymbolOptions::default();
    options.memory = 64 << 10;
    let (found, stats) = ours(&program.module(), &addresses, options);
    assert_eq!(stats.large_tables, 1);
    assert!(expected == found);
}

#[test]
fn aliases_give_the_name_that_people_know() {
    test_needs::programs!("gcc", "readelf");
    let program = Program::compile("aliases", "plain.c", &["-O2"]);
    let functions = listed(&program, "--symbols");
    let known = functions.iter().find(|function| function.name == "public_name").expect("a function");
    assert!(functions.iter().any(|f| f.name == "__weak_alias" && f.range == known.range));
    let (found, _) = ours(&program.module(), &[known.range.start], SymbolOptions::default());
    assert_eq!(&*found[0][0].function, "public_name");
}

#[test]
fn a_version_is_no_part_of_a_name_for_people() {
    test_needs::programs!("g++", "readelf");
    let versions =
        concat!("-Wl,--version-script=", env!("CARGO_MANIFEST_DIR"), "/tests/symbol/programs/versions.map");
    let program = Program::compile("versions", "versions.cpp", &["-shared", "-fPIC", versions]);
    let functions = listed(&program, "--symbols");
    for (linker, known, people) in [
        ("made@@VERSIONS_1", "made", "made"),
        ("_ZN4shop4soldEi@@VERSIONS_1", "_ZN4shop4soldEi", "shop::sold"),
    ] {
        let function = functions.iter().find(|function| function.name == known).expect("a function");
        let (found, _) = ours(&program.module(), &[function.range.start], SymbolOptions::default());
        assert_eq!((&*found[0][0].function, &*found[0][0].system_name), (people, linker));
    }
}

#[test]
fn linkage_table() {
    test_needs::programs!("g++", "objdump");
    for (name, arguments) in [
        ("plt", &["-O2"][..]),
        ("plt-protected", &["-O2", "-fcf-protection=full"]),
        ("plt-unprotected", &["-O2", "-fcf-protection=none", "-no-pie"]),
        ("plt-at-once", &["-O2", "-Wl,-z,now"]),
    ] {
        let program = Program::compile(name, "objects.cpp", arguments);
        let entries = linkage_entries(&program);
        assert!(entries.len() > 10, "{name}");
        for (address, expected) in entries {
            let (found, _) = ours(&program.module(), &[address, address + 7], SymbolOptions::default());
            for found in found {
                let found: Vec<&str> = found.iter().map(linker_name).collect();
                assert_eq!(found, [expected.as_str()], "{name} {address:#x}");
            }
        }
    }
}

/// Returns the linkage entries as `objdump` prints them: `0000000000001030 <puts@plt>:`, without
/// versions.
fn linkage_entries(program: &Program) -> Vec<(u64, String)> {
    let sections = ["-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got"];
    let output = run("binutils", "objdump", &[&["-d"][..], &sections, &[text(&program.path)]].concat());
    let entry = |line: &str| {
        let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
        let name = name.strip_suffix("@plt")?;
        let name = name.split('@').next()?;
        Some((u64::from_str_radix(address, 16).ok()?, format!("{name}@plt")))
    };
    output.lines().filter_map(entry).collect()
}

#[test]
fn functions_that_the_kernel_maps() {
    test_needs::programs!("readelf");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("a vDSO");
    let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).expect("an address"));
    let mut image = vec![0; (end - start) as usize];
    let memory = std::fs::File::open("/proc/self/mem").expect("memory");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut image, start).expect("mapped");

    let path = folder("vdso").join("vdso.so");
    std::fs::write(&path, &image).expect("written");
    let program = Program { path };
    let functions = listed(&program, "--dyn-syms");
    let mut module = ebpf_profiler_core::process::Module::new("[vdso]");
    module.opener = Some(std::sync::Arc::new(move || {
        Ok(Box::new(std::io::Cursor::new(image.clone())) as Box<dyn ebpf_profiler_core::elf::ReadAt>)
    }));
    let clock = functions.iter().find(|f| f.name.ends_with("clock_gettime")).expect("a function");
    let (found, _) = ours(&module, &[clock.range.start, clock.range.end - 1], SymbolOptions::default());
    assert!(found.iter().all(|functions| &*functions[0].function == "clock_gettime"), "{found:?}");
}

#[test]
fn a_replaced_file_names_nothing() {
    test_needs::programs!("gcc");
    let program = Program::compile("replaced", "plain.c", &["-O2", "-Wl,--build-id=sha1"]);
    let addresses = program.addresses(".text");
    let mut module = program.module();
    module.build_id[0] ^= 1;
    let (found, stats) = ours(&module, &addresses, SymbolOptions::default());
    assert!(found.iter().all(Vec::is_empty));
    assert_eq!((stats.replaced, stats.unnamed), (1, addresses.len() as u64));
}

#[test]
fn a_file_that_is_gone_names_nothing_and_what_was_named_stays() {
    test_needs::programs!("gcc");
    let program = Program::compile("gone", "plain.c", &["-O2"]);
    let addresses = program.addresses(".text");
    let (seen, unseen) = addresses.split_at(addresses.len() / 2);
    let module = program.module();
    let mut symbols = Symbols::default();
    let mut named = [0; 3];
    symbols.native(&module, seen, &mut |_, _| named[0] += 1);
    std::fs::remove_file(&program.path).expect("removed");
    symbols.native(&module, seen, &mut |_, _| named[1] += 1);
    symbols.native(&module, unseen, &mut |_, _| named[2] += 1);
    assert!(named[0] > 0 && named[0] == named[1] && named[2] == 0, "{named:?}");
    assert_eq!(symbols.stats().unreadable, 1);
    assert_eq!(symbols.stats().cached, seen.len() as u64);
}

#[test]
fn what_is_no_elf_file_is_counted_once() {
    let path = folder("text").join("text");
    std::fs::write(&path, "not a program").expect("written");
    let mut module = ebpf_profiler_core::process::Module::new(text(&path));
    module.opener = Some(std::sync::Arc::new(move || {
        std::fs::File::open(&path).map(|file| Box::new(file) as Box<dyn ebpf_profiler_core::elf::ReadAt>)
    }));
    let mut symbols = Symbols::default();
    for address in 0..10 {
        symbols.native(&module, &[address], &mut |_, _| panic!("a name"));
    }
    assert_eq!((symbols.stats().unreadable, symbols.stats().unnamed), (1, 10));
}
