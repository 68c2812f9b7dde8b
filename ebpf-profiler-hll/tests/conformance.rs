//! The conformance test of languages on an installed interpreter.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ebpf_profiler_core::testing;
use ebpf_profiler_hll::beam::Beam;
use ebpf_profiler_hll::dotnet::Dotnet;
use ebpf_profiler_hll::hotspot::HotSpot;
use ebpf_profiler_hll::luajit::LuaJit;
use ebpf_profiler_hll::perl::Perl;
use ebpf_profiler_hll::php::Php;
use ebpf_profiler_hll::python::Python;
use ebpf_profiler_hll::ruby::Ruby;

#[test]
#[ignore = "needs interpreters"]
fn python_passes_conformance_test() {
    test_needs::programs!("python3");
    let file = python().expect("a python3 in PATH that holds its runtime");
    assert_eq!(testing::language(&Python, &file), Ok(()));
}

#[test]
#[ignore = "needs interpreters"]
fn perl_passes_conformance_test() {
    test_needs::programs!("perl");
    let file = fs::read(test_needs::find("perl").unwrap_or_default()).expect("a readable perl in PATH");
    assert_eq!(testing::language(&Perl, &file), Ok(()));
}

#[test]
#[ignore = "needs interpreters"]
fn php_passes_conformance_test() {
    test_needs::programs!("php");
    let file = fs::read(test_needs::find("php").unwrap_or_default()).expect("a readable php in PATH");
    assert_eq!(testing::language(&Php, &file), Ok(()));
}

#[test]
#[ignore = "needs interpreters"]
fn hotspot_passes_conformance_test() {
    test_needs::programs!("java");
    let java = fs::canonicalize(test_needs::find("java").unwrap_or_default()).expect("a java in PATH");
    let library = java.ancestors().nth(2).expect("a folder above").join("lib/server/libjvm.so");
    assert_eq!(testing::language(&HotSpot, &fs::read(library).expect("a readable libjvm.so")), Ok(()));
}

#[test]
#[ignore = "needs cargo xtask fixtures ruby"]
fn ruby_passes_conformance_test() {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    let fixtures = std::env::var_os("XTASK_FIXTURES").map_or(fixtures, PathBuf::from);
    let files = [
        "ruby/debian-2.7/usr/lib/x86_64-linux-gnu/libruby-2.7.so.2.7",
        "ruby/wheel-3.4.7/pact_cli/lib/ruby/bin.real/ruby",
    ];
    for file in files.map(|file| fixtures.join(file)) {
        match fs::read(&file) {
            Ok(bytes) => assert_eq!(testing::language(&Ruby, &bytes), Ok(()), "{}", file.display()),
            Err(_) => test_needs::skip("no Ruby: cargo xtask fixtures ruby"),
        }
    }
}

#[test]
#[ignore = "needs interpreters"]
fn luajit_passes_conformance_test() {
    test_needs::programs!("luajit");
    let file = fs::read(test_needs::find("luajit").unwrap_or_default()).expect("a readable luajit in PATH");
    assert_eq!(testing::language(&LuaJit, &file), Ok(()));
}

#[test]
#[ignore = "needs cargo xtask fixtures beam"]
fn beam_passes_conformance_test() {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    let fixtures = std::env::var_os("XTASK_FIXTURES").map_or(fixtures, PathBuf::from);
    let folders = ["25", "29"].map(|version| fixtures.join("beam").join(version).join("usr/lib/erlang"));
    let system = |folder: &PathBuf| {
        let mut entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        entries.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("erts-")))
    };
    let found: Vec<PathBuf> = folders.iter().filter_map(system).collect();
    if found.is_empty() {
        return test_needs::skip("no Erlang: cargo xtask fixtures beam");
    }
    for path in found {
        let file = fs::read(path.join("bin/beam.smp")).expect("a readable file");
        assert_eq!(testing::language(&Beam, &file), Ok(()), "{}", path.display());
    }
}

#[test]
#[ignore = "needs cargo xtask fixtures dotnet"]
fn dotnet_passes_conformance_test() {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    let fixtures = std::env::var_os("XTASK_FIXTURES").map_or(fixtures, PathBuf::from);
    // The last one is recognized, and unsupported.
    let runtimes = [
        "9.0.1/package/libcoreclr.so",
        "8.0.15/package/tools/linux/x64/bebopc",
        "compiler/package/shared/Microsoft.NETCore.App/3.1.2/libcoreclr.so",
    ];
    for runtime in runtimes.map(|path| fixtures.join("dotnet").join(path)) {
        match fs::read(&runtime) {
            Ok(bytes) => assert_eq!(testing::language(&Dotnet, &bytes), Ok(()), "{}", runtime.display()),
            Err(_) => test_needs::skip("no .NET: cargo xtask fixtures dotnet"),
        }
    }
}

/// Returns the file that holds the runtime of the `python3` in PATH, from the program's own mappings.
fn python() -> Option<Vec<u8>> {
    let maps = Command::new("python3").args(["-c", "print(open('/proc/self/maps').read())"]).output().ok()?;
    let maps = String::from_utf8(maps.stdout).ok()?;
    let code = maps.lines().filter(|line| line.contains(" r-xp "));
    let files = code.filter_map(|line| line.find('/').map(|at| &line[at..]));
    files.filter_map(|path| fs::read(path).ok()).find(|bytes| holds_python(bytes))
}

fn holds_python(bytes: &[u8]) -> bool {
    let name = b"_PyEval_EvalFrameDefault";
    bytes.windows(name.len()).any(|window| window == name)
}
