//! Static probes of programs of others, patterns of functions, and programs and libraries that
//! start later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Trigger, Usdt};
use ebpf_profiler_core::profile::{Profile, Sample, Unit};

use crate::program::{is_in, sum};
use crate::workload::chain;
use live_suite::workload::steps::{self, Running};

#[test]
#[ignore = "needs root"]
fn exceptions_are_counted_by_the_probes_of_the_cxx_library() {
    test_needs::root!();
    test_needs::programs!("g++");
    let program = build("g++", "thrower.cpp", "thrower", &[]);
    let mut program = Running::start(&mut Command::new(program));
    let probe = |name| Usdt::new("libstdc++.so.6", "libstdcxx", name);
    let profiler = start(
        Profiler::builder()
            .on(probe("throw"))
            .on(probe("rethrow"))
            .on(probe("catch"))
            .pid(program.child.id()),
    );
    program.step("end");
    let profile = finish(profiler);
    let with = |kind, known: &[&str]| sum(&profile, kind, |sample| has_chain(sample, known));
    let totals = [0, 1, 2].map(|kind| profile.of_kind(kind).total());
    println!("thrown, thrown again, caught: {totals:?}");
    assert_eq!(totals, [2000, 500, 2500]);
    assert_eq!(with(0, &["main", "catcher", "passer", "thrower", "__cxa_throw"]), 2000);
    assert_eq!(with(1, &["main", "catcher", "passer", "__cxa_rethrow"]), 500);
    assert_eq!(with(2, &["main", "catcher", "passer", "__cxa_begin_catch"]), 2000);
    assert_eq!(with(2, &["main", "catcher", "__cxa_begin_catch"]), 500);
}

/// Its probes have semaphores, so they fire only if the kernel counts these up. The generation is a
/// signed argument on the stack, the number of objects one in a register.
#[test]
#[ignore = "needs root"]
fn collections_of_python_have_their_generation_and_objects() {
    const PYTHON: &str = "/usr/bin/python3";
    const SCRIPT: &str = "import gc
def cycle(generation):
    own = []
    own.append(own)
    del own
    assert gc.collect(generation) == 1
gc.disable(); gc.collect()
print('ready', flush=True); input()
for turn in range(600): cycle(turn % 3)
print('end', flush=True); input()
";
    test_needs::root!();
    let mut program = Running::start(Command::new(PYTHON).args(["-c", SCRIPT]));
    let builder =
        ["gc__start", "gc__start:arg0", "gc__done:arg0"].iter().fold(Profiler::builder(), |builder, name| {
            builder.on(trigger(&format!("usdt:{PYTHON}:python:{name}")))
        });
    let profiler = start(builder.pid(program.child.id()).languages(ebpf_profiler_hll::all()));
    program.step("end");
    let profile = finish(profiler);
    let sums =
        [0, 1, 2].map(|kind| sum(&profile, kind, |sample| chain(sample).contains(&"cycle".to_owned())));
    assert_eq!(sums, [600, 200 * (1 + 2), 600]);
}

#[test]
#[ignore = "needs root"]
fn patterns_meet_libraries_and_programs_that_start_later() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let library = build("gcc", "steps.c", "libsteps.so", &["-DLIBRARY", "-shared", "-fPIC"]);
    let program = build("gcc", "steps.c", "steps", &["-ldl"]);
    let pattern = library.with_file_name("libst*.so");
    let triggers =
        ["step_*:arg0", "step_[ot]*"].map(|names| trigger(&format!("uprobe:{}:{names}", pattern.display())));
    let [first, second] = triggers;
    // It profiles the whole machine, before the program exists.
    let profiler = start(Profiler::builder().on(first).on(second));
    let mut program = Running::start(Command::new(program).arg(&library));
    program.step("end");
    let profile = finish(profiler);
    let totals = [0, 1].map(|kind| profile.of_kind(kind).total());
    let turns = 1000;
    assert_eq!(totals, [3 * turns * (turns - 1) / 2, 3 * turns]);
    for leaf in ["step_one", "step_two", "step_three"] {
        assert_eq!(sum(&profile, 1, |sample| has_chain(sample, &["main", "walker", leaf])), turns, "{leaf}");
    }
}

/// Allocators other than those of C libraries, with their packages.
pub(crate) const OTHERS: [(&str, &str); 3] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libmimalloc.so.2.0", "libmimalloc2.0"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
];

/// Folder of their libraries.
pub(crate) const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Bytes that each function of `heap.c` asks for.
const ALLOCATED: [(&str, u64); 5] =
    [("plain", 100), ("zeroed", 7 * 64), ("grown", 4000), ("aligned", 640), ("posix", 1280)];

/// Number of calls of each of them.
const ALLOCATIONS: u64 = 500;

#[test]
#[ignore = "needs root"]
fn bytes_of_allocators_are_those_that_the_program_asks_for() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("gcc", "heap.c", "heap", &["-pthread"]);
    assert_eq!(
        allocated(&mut Command::new(&program), "malloc"),
        ALLOCATED.map(|(_, bytes)| bytes * ALLOCATIONS)
    );
}

/// Some functions of musl call others of it.
#[test]
#[ignore = "needs root"]
fn bytes_of_musl_are_counted_once() {
    test_needs::root!();
    test_needs::programs!("musl-gcc");
    let program = build("musl-gcc", "heap.c", "heap_musl", &["-static", "-pthread"]);
    let bytes = allocated(&mut Command::new(&program), &format!("malloc:{}", program.display()));
    assert_eq!(bytes, ALLOCATED.map(|(_, bytes)| bytes * ALLOCATIONS));
}

/// Returns the bytes that each function of `heap.c` allocates.
fn allocated(command: &mut Command, on: &str) -> [u64; 5] {
    let mut program = Running::start(command);
    let profiler = start(Profiler::builder().on(trigger(on)).pid(program.child.id()));
    program.step("end");
    let profile = finish(profiler);
    assert_eq!((profile.kind().name(), profile.kind().unit()), ("malloc", Unit::Bytes));
    ALLOCATED
        .map(|(name, _)| sum(&profile, 0, |sample| chain(sample).iter().any(|function| function == name)))
}

#[test]
#[ignore = "needs root"]
fn probes_and_functions_that_do_not_exist_are_errors() {
    test_needs::root!();
    let text = folder().join("no-elf.so");
    fs::write(&text, "no ELF file").unwrap();
    for (text, reason) in [
        (
            "usdt:libstdc++.so.6:libstdcxx:no_such_probe",
            "has no probe libstdcxx:no_such_probe; list its probes",
        ),
        ("usdt:libstdc++.so.6:libstdcxx:throw:arg2", "throw has 2 arguments"),
        ("usdt:/bin/true:a:b", "has no probe a:b"),
        ("usdt:/no/such/file:a:b", "the file has to exist when the profiler starts"),
        (&format!("usdt:{}:a:b", text.display()), "not an ELF file"),
        ("uprobe:/no/such/lib*:f", "no file matches /no/such/lib*"),
        ("uprobe:libc.so.6:[mem", "there is no ] for its ["),
        ("uprobe:libc.so.6:no_such_*", "has no function no_such_*"),
        ("uprobe:lib[cm].so.6:no_such_*", "none of 2 files has a match"),
        ("malloc:libm.so.6", "has no function malloc"),
        ("uprobe:libc.so.6:*", "at most 256 are possible; choose a narrower pattern"),
        ("uprobe:libc.so.6:memmove", "the loader chooses the implementation of memmove"),
    ] {
        let error = Profiler::builder()
            .on(trigger(text))
            .frame_pointers_only()
            .start()
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("cannot sample on {text}: ")) && error.contains(reason),
            "{error}"
        );
    }
}

fn start(builder: Builder) -> Profiler {
    let builder = builder.ring_size(64 << 20).deadline(Duration::from_secs(120));
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

fn finish(profiler: Profiler) -> Profile {
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(health.lost, 0, "{health:?}");
    profile
}

fn trigger(text: &str) -> Trigger {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `true` if the stack of a sample ends with these functions, the root first, by their
/// names without arguments.
fn has_chain(sample: &Sample<'_>, known: &[&str]) -> bool {
    let names = chain(sample);
    let names: Vec<&str> = names.iter().map(|name| name.split('(').next().unwrap_or_default()).collect();
    names.ends_with(known)
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events/points");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn build(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    steps::build("points", compiler, source, name, flags)
}

/// Other allocators than the C library's.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn bytes_of_other_allocators_are_those_that_the_program_asks_for() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let program = build("gcc", "heap.c", "heap_of_others", &["-pthread"]);
        for (library, package) in OTHERS {
            let path = Path::new(LIBRARIES).join(library);
            test_needs::file!(&path, format!("apt-get install {package}"));
            let mut command = Command::new(&program);
            let bytes = allocated(command.env("LD_PRELOAD", path), &format!("malloc:{library}"));
            println!("{library}: {bytes:?}");
            assert_eq!(bytes, ALLOCATED.map(|(_, bytes)| bytes * ALLOCATIONS), "{library}");
        }
    }

    /// Their `new` does not call `malloc`.
    #[test]
    #[ignore = "needs root"]
    fn bytes_of_own_new_of_allocators_are_counted_once() {
        test_needs::root!();
        test_needs::programs!("g++");
        let program = build("g++", "news.cpp", "news", &["-std=c++17", "-fno-builtin"]);
        let known = [("one", 100), ("many", 700), ("quiet", 30), ("aligned", 640)];
        for (library, package) in OTHERS {
            let path = Path::new(LIBRARIES).join(library);
            test_needs::file!(&path, format!("apt-get install {package}"));
            let mut program = Running::start(Command::new(&program).env("LD_PRELOAD", path));
            let triggers = ["malloc", "malloc-live:1"].map(|name| trigger(&format!("{name}:{library}")));
            let builder = triggers.into_iter().fold(Profiler::builder(), Builder::on);
            let profiler = start(builder.pid(program.child.id()));
            program.step("end");
            let profile = finish(profiler);
            let bytes = |kind| known.map(|(name, _)| sum(&profile, kind, |sample| is_in(sample, name)));
            println!("{library}: {:?}, {:?} in use", bytes(0), bytes(1));
            // Every second one is freed.
            assert_eq!(bytes(0), known.map(|(_, bytes)| bytes * 500), "{library}");
            assert_eq!(bytes(1), known.map(|(_, bytes)| bytes * 250), "{library}");
        }
    }
}
