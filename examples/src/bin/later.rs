//! Keeps profiles without names, and names them later: the machine that is profiled reads no
//! symbols.
//!
//! ```text
//! sudo target/release/later --seconds 10 --save machine.profile
//! target/release/later machine.profile --output machine.html
//! ```

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Table;
use ebpf_profiler_core::symbol::{KernelSymbols, Symbols};
use examples::{Options, Usage, explain_start_error, fail, print};

const USAGE: Usage = Usage {
    about: "later: saves a profile without names of files, or names a saved one",
    options: &[
        ("seconds", "N", "length of a profile to save (10)"),
        ("save", "FILE", "profiles this machine and saves the profile"),
        ("output", "FILE", "name ending in .html, .svg or .folded for a saved profile (no file)"),
    ],
    arguments: "[PROFILE]",
};

fn main() {
    let options = Options::parse(USAGE);
    let save: Option<String> = options.one("save");
    match (save, options.arguments()) {
        (Some(path), []) => save_profile(&path, Duration::from_secs(options.one("seconds").unwrap_or(10))),
        (None, [path]) => name_profile(path, options.one("output")),
        _ => fail("give --save FILE, or one saved profile: later machine.profile"),
    }
}

fn save_profile(path: &str, length: Duration) {
    let builder =
        Profiler::builder().unwind(ebpf_profiler_unwind::tables()).languages(ebpf_profiler_hll::all());
    // Kernel addresses have no names after the next boot.
    let profiler = builder.frequency(97).symbolizer(KernelSymbols::default()).start();
    let profiler = profiler.unwrap_or_else(|error| fail(explain_start_error(&error)));
    let profile = profiler.run_for(length).unwrap_or_else(|error| fail(error));
    let written = File::create(path).and_then(|mut file| profile.encode(&mut file));
    written.unwrap_or_else(|error| fail(format!("{path}: {error}")));
    print(format_args!("{}\n{path}\n", profile.summary()));
}

fn name_profile(path: &str, output: Option<String>) {
    let file = File::open(path).unwrap_or_else(|error| fail(format!("{path}: {error}")));
    let profile =
        Profile::decode(BufReader::new(file)).unwrap_or_else(|error| fail(format!("{path}: {error}")));
    let profile = profile.symbolize(&mut Symbols::default());
    output.iter().for_each(|output| profile.write(output).unwrap_or_else(|error| fail(error)));
    print(format_args!("{}\n{}\n", Table::new(&profile).rows(15), profile.summary()));
}
