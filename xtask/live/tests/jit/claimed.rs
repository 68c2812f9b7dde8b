//! Machine code of others in a process whose runtime compiles, too: what called it is behind it, down to the script's function.

use std::process::Command;

use ebpf_profiler_core::profile::FrameView;
use ebpf_profiler_core::trace::Frame;

use crate::{Running, WARM_UP, folder, run, source};

#[test]
#[ignore = "profiles: needs root"]
fn machine_code_of_others_is_not_ruby_s() {
    test_needs::root!();
    test_needs::programs!("ruby");
    check("ruby", Command::new("ruby").arg(source("machine_code.rb")), "Object#caller_of_code");
    check(
        "ruby, YJIT",
        Command::new("ruby").arg("--yjit").arg(source("machine_code.rb")),
        "Object#caller_of_code",
    );
}

#[test]
#[ignore = "profiles: needs root"]
fn machine_code_of_others_is_not_v8_s() {
    test_needs::root!();
    test_needs::programs!("node", "gcc");
    let addon = folder("addon").join("code.node");
    let flags = ["-O2", "-shared", "-fPIC", "-o"];
    run(Command::new("gcc").args(flags).arg(&addon).arg(source("machine_code.c")));
    for options in [&[][..], &["--no-opt"], &["--jitless"]] {
        let mut node = Command::new("node");
        check("node", node.args(options).arg(source("machine_code.js")).arg(&addon), "callerOfCode");
    }
}

/// Profiles a program that spends its time in `foreign_inner`, called by `foreign_outer`, called by native code that `caller` calls.
fn check(name: &str, command: &mut Command, caller: &str) {
    let program = Running::start(command);
    std::thread::sleep(WARM_UP);
    let profile = program.profile_with(|builder| builder.languages(ebpf_profiler_hll::all()));
    let (mut samples, mut right) = (0, 0);
    for sample in profile.samples() {
        let is_user = |frame: &FrameView<'_>| !matches!(frame.frame(), Frame::Kernel { .. });
        let frames = sample.trace().frames().filter(is_user).map(|frame| frame.to_string());
        let frames: Vec<String> = frames.collect();
        let is_inside = frames.starts_with(&["foreign_inner", "foreign_outer"].map(String::from));
        let is_right = sample.trace().is_whole() && is_inside && frames.iter().any(|name| name == caller);
        samples += sample.count();
        right += if is_right { sample.count() } else { 0 };
        if !is_right {
            println!("{} {}", sample.count(), frames.join(" < "));
        }
    }
    println!("{name}: {right} of {samples}");
    assert!(samples > 500 && right * 100 >= samples * 95, "{name}: {right} of {samples}");
}
