//! Stripped programs: a function without a name is one line by its start address, as `nm` lists it
//! before stripping.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::profile::Call;
use ebpf_profiler_core::{Profiler, trace::Frame};

use live_suite::compile;
use live_suite::process::Process;

/// `outer` has two call sites, so two addresses but one start.
const SOURCE: &str = "
static volatile unsigned long sink;
__attribute__((noinline)) static void inner(int n) { for (int i = 0; i < n; i++) sink += i; sink *= 3; }
__attribute__((noinline)) static void outer(void) { inner(100000); sink++; inner(200000); sink++; }
int main(void) { for (;;) outer(); }
";

#[test]
#[ignore = "profiles: needs root"]
fn a_function_without_a_name_is_one_line() {
    test_needs::root!();
    test_needs::programs!("gcc", "nm", "strip");
    let program =
        compile::text("stripped-function", "stripped", SOURCE, &["-O1", "-fno-optimize-sibling-calls"]);
    let starts = starts(&program);
    assert!(Command::new("strip").arg("--strip-all").arg(&program).status().unwrap().success());
    let running = Process::start(&mut Command::new(&program));
    let profiler = Profiler::builder()
        .deadline(std::time::Duration::from_secs(120))
        .frequency(499)
        .pid(running.id())
        .unwind(ebpf_profiler_unwind::tables())
        .start()
        .unwrap();
    let profile = profiler.run_for(Duration::from_secs(2)).unwrap();
    let (mut shown, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for sample in profile.samples() {
        for call in sample.trace().calls().filter(|call| call.module() == Some("stripped")) {
            let Call::Function { frame, .. } = call else { continue };
            let Frame::Native { address, .. } = frame.frame() else { continue };
            addresses.insert(address);
            shown.insert(call.to_string());
            assert_eq!(format!("{call:#}"), format!("stripped+{address:#x}"));
        }
    }
    let expected = starts.iter().map(|start| format!("stripped+{start:#x}")).collect();
    assert!(shown.is_subset(&expected), "{shown:?}, {expected:?}");
    // main, outer and inner; possibly _start.
    assert!((3..=4).contains(&shown.len()), "{shown:?}");
    assert!(addresses.len() > shown.len(), "{addresses:x?}");
}

/// Returns the start addresses of functions, as `nm` lists them.
fn starts(program: &Path) -> BTreeSet<u64> {
    let output = Command::new("nm").arg(program).output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let start = |line: &str| {
        let mut words = line.split(' ');
        let (address, kind) = (words.next()?, words.next()?);
        matches!(kind, "t" | "T").then(|| u64::from_str_radix(address, 16).unwrap())
    };
    list.lines().filter_map(start).collect()
}
