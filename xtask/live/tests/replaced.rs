//! Libraries that are unloaded and replaced: the new file has the path, the size and the addresses
//! of the old one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::process::ModuleId;
use ebpf_profiler_core::profile::{Profile, TraceView};
use ebpf_profiler_core::trace::{Frame, Stop};

use live_suite::compile;

/// Loads one library after the other from one path; prints when each was in use, in nanoseconds
/// since 1970.
const HOST: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    size_t size = fread(bytes, 1, sizeof bytes, in);
    fwrite(bytes, 1, size, out);
    fclose(in);
    fclose(out);
}
__attribute__((noinline)) static void run(const char *path, int variant)
{
    void *library = dlopen(path, RTLD_NOW);
    void (*entry)(long) = (void (*)(long))dlsym(library, "entry");
    long start = now();
    entry(start + 200000000);
    printf("%ld %ld %d\n", start, now(), variant);
    dlclose(library);
}
int main(int argc, char **argv)
{
    getchar();
    for (int round = 0; round < 30; round++) {
        unlink(argv[3]);
        const char *from = argv[1 + round % 2];
        if (!strcmp(argv[4], "link")) link(from, argv[3]); else copy(from, argv[3]);
        run(argv[3], round % 2);
    }
    return 0;
}
"#;

/// A library whose functions have frames of a size of their own, at the same addresses.
const LIBRARY: &str = r#"
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__attribute__((noinline, noipa)) static long leaf(long end)
{
    volatile long words[WORDS] = { 0 };
    do {
        for (int i = 0; i < 20000; i++) words[i % WORDS]++;
    } while (now() < end);
    return words[0];
}
__attribute__((noipa)) long entry(long end) { volatile long words[WORDS] = { leaf(end) }; return words[0]; }
"#;

#[test]
#[ignore = "profiles: needs root"]
fn a_file_of_another_build_is_another_module() {
    check("build-id", "link", "-Wl,--build-id");
}

#[test]
#[ignore = "profiles: needs root"]
fn a_file_without_build_id_is_known_by_its_inode() {
    check("inode", "link", "-Wl,--build-id=none");
}

/// The file system gives the inode of a deleted file to the next one.
#[test]
#[ignore = "profiles: needs root"]
fn a_file_with_the_inode_of_another_is_another_module() {
    check("reused", "copy", "-Wl,--build-id=none");
}

fn check(name: &str, way: &str, build_id: &str) {
    test_needs::root!();
    test_needs::programs!("gcc");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replaced-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let host = compiled(&folder, "host", HOST, &["-no-pie", "-ldl"]);
    let variants = ["-DWORDS=40", "-DWORDS=400"].map(|words| {
        compiled(
            &folder,
            &words[2..],
            LIBRARY,
            &["-shared", "-fPIC", "-fomit-frame-pointer", words, build_id],
        )
    });
    let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
    assert_eq!(size(&variants[0]), size(&variants[1]));
    let path = folder.join("plugin.so");
    let mut command = Command::new(&host);
    command.args(&variants).arg(&path).arg(way).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running: Child = command.spawn().unwrap();
    let pid = running.id();
    let profiler = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(997)
        .pid(pid)
        .unwind(ebpf_profiler_unwind::tables())
        .start()
        .unwrap();
    drop(running.stdin.take());
    let said = running.wait_with_output().unwrap();
    let (profile, health) = profiler.finish().unwrap();
    let uses: Vec<[u64; 3]> = String::from_utf8(said.stdout).unwrap().lines().map(numbers).collect();
    let tally = Tally::new(&profile, pid, &uses);
    eprintln!("{name}: {tally:?}, {} outdated walks", health.pipeline.registry.outdated_walks);
    tally.require();
}

/// The samples in a library while it was in use.
#[derive(Debug, Default)]
struct Tally {
    /// Samples of each module in the uses of each variant.
    modules: BTreeMap<ModuleId, [u64; 2]>,
    whole: u64,
    /// Stacks that a wrong table led astray.
    wrong: u64,
    /// Walks that used mappings from before.
    outdated: u64,
    others: BTreeMap<String, u64>,
}

impl Tally {
    fn new(profile: &Profile, pid: u32, uses: &[[u64; 3]]) -> Tally {
        let mut tally = Tally::default();
        for sample in profile.samples().filter(|sample| sample.process().pid == pid) {
            for &time in sample.timestamps() {
                let used = uses.iter().find(|&&[start, end, _]| start < time && time < end);
                let Some(&[_, _, variant]) = used else { continue };
                tally.add(sample.trace(), variant as usize);
            }
        }
        tally
    }

    fn add(&mut self, trace: TraceView<'_>, variant: usize) {
        if trace.stop() == Stop::Outdated {
            self.outdated += 1;
            return;
        }
        let modules = trace.frames().filter_map(|frame| match frame.frame() {
            Frame::Native { module, .. } if frame.module()?.name() == "plugin.so" => Some(module),
            _ => None,
        });
        for module in modules {
            self.modules.entry(module).or_default()[variant] += 1;
        }
        let names: Vec<String> = trace.calls().map(|call| call.to_string()).collect();
        let is_whole = names.iter().any(|name| name == "main") && names.iter().any(|name| name == "run");
        if is_whole {
            self.whole += 1;
        } else {
            self.wrong += u64::from(matches!(trace.stop(), Stop::Unmapped | Stop::Implausible | Stop::Root));
            *self.others.entry(names.join(";")).or_default() += 1;
        }
    }

    fn require(&self) {
        let all = self.whole + self.outdated + self.others.values().sum::<u64>();
        assert!(all > 300, "only {all} samples");
        for (module, counts) in &self.modules {
            let [least, most] = [counts[0].min(counts[1]), counts[0].max(counts[1])];
            assert!(least * 200 <= most, "{module:?} is that of both libraries: {counts:?}");
        }
        for variant in 0..2 {
            assert!(self.modules.values().any(|counts| counts[variant] > 0), "library {variant} is missing");
        }
        assert!(self.wrong * 100 <= all, "{} of {all} stacks are wrong", self.wrong);
        assert!(self.whole * 2 > all, "{} of {all} stacks are whole", self.whole);
    }
}

fn numbers(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, output) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&code, source).unwrap();
    compile::gcc(&code, &output, &[&["-O1"], flags].concat());
    output
}
