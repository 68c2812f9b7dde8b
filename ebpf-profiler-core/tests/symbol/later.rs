//! Names of decoded profiles.

use std::time::{Duration, SystemTime};

use ebpf_profiler_core::process::{Module, ModuleId};
use ebpf_profiler_core::profile::{Process, Profile, ProfileBuilder, Thread};
use ebpf_profiler_core::symbol::{NoSymbols, Symbols};
use ebpf_profiler_core::trace::{Found, Frame, Stop, Trace};

use crate::program::Program;
use crate::tool::{run, text};

/// Returns the name of an address, in a profile that was encoded without names and decoded.
fn named(module: &Module, address: u64) -> String {
    let mut builder = ProfileBuilder::new(Duration::from_millis(10));
    let process = builder.process(Process::new(1));
    let thread = builder.thread(Thread::new(process, 1, "plain"));
    let frames = [Frame::Native { module: ModuleId(0), address, found: Found::Uncalled }];
    builder.add(thread, &Trace::new(frames.as_slice(), Stop::Root), 0);
    let start = SystemTime::UNIX_EPOCH;
    let profile = builder.finish(start, Duration::ZERO, |_| Some(module.clone()), &mut NoSymbols);
    let mut bytes = Vec::new();
    profile.encode(&mut bytes).expect("memory");
    let profile = Profile::decode(&bytes[..]).expect("an encoded profile");
    let profile = profile.symbolize(&mut Symbols::default());
    profile.frames().map(|frame| frame.to_string()).collect()
}

#[test]
fn only_the_file_of_a_build_id_names_a_decoded_profile() {
    test_needs::programs!("gcc", "nm", "objcopy");
    let program = Program::compile("later", "plain.c", &["-Wl,--build-id"]);
    let list = run("binutils", "nm", &[text(&program.path)]);
    let line = list.lines().find(|line| line.ends_with(" T main")).expect("it is in the source");
    let main = u64::from_str_radix(&line[..16], 16).expect("an address");
    let module = program.module();
    assert_eq!(named(&module, main), "main");

    let unnamed = |module: &Module| assert_eq!(named(module, main), format!("{}+{main:#x}", module.name()));
    let mut other = module.clone();
    other.build_id[0] ^= 1;
    unnamed(&other);
    let mut without = module.clone();
    without.build_id = Box::default();
    unnamed(&without);
    // A file without a build id may be any.
    let mut bare = program.copy("bare", &["--remove-section=.note.gnu.build-id"]).module();
    assert!(bare.build_id.is_empty());
    bare.build_id.clone_from(&module.build_id);
    unnamed(&bare);
    let mut gone = module;
    gone.path = "/nowhere/plain".into();
    unnamed(&gone);
}
