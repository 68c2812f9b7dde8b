//! Makes a profile of a recording, without privileges.
//!
//! ```text
//! cargo run --release --bin replay -- run.ticks --output machine.html
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ebpf_profiler_core::internal::sample::SourceError;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::sink::{File, Table};
use examples::{Options, Usage, fail, print};

const USAGE: Usage = Usage {
    about: "replay: makes a profile of a recording",
    options: &[(
        "output",
        "FILE",
        "name ending in .html, .svg, .folded, .pb.gz or .pb (pprof), .json (Firefox Profiler) or .speedscope.json (no file)",
    )],
    arguments: "RECORDING",
};

fn main() {
    let options = Options::parse(USAGE);
    ebpf_profiler_otlp::register_formats();
    let [recording] = options.arguments() else { fail("give one recording: replay run.ticks") };
    let output: Option<PathBuf> = options.one("output");
    let file = output.as_deref().map(|output| File::new(output).unwrap_or_else(|error| fail(error)));

    let replay = Replay::open(recording).unwrap_or_else(|error| match error {
        SourceError::Io(error) if error.kind() == ErrorKind::NotFound => {
            fail(format!("there is no recording {recording}; make it with: record --output {recording}"))
        }
        error => fail(format!("{recording}: {error}")),
    });
    let incomplete = replay.incomplete();
    let profile = replay.unwind(ebpf_profiler_unwind::tables()).profile();
    let profile = profile.unwrap_or_else(|error| fail(format!("{recording}: {error}")));

    if let Some(mut file) = file {
        file.write(&profile).unwrap_or_else(|error| fail(error));
    }
    report(&profile, output.as_deref());
    if let Some(incomplete) = incomplete {
        fail(format!("{recording} is incomplete: {incomplete}"));
    }
}

fn report(profile: &Profile, output: Option<&Path>) {
    let output = output.map_or_else(String::new, |output| format!("{}\n", output.display()));
    print(format_args!("{}\n{}\n{output}", Table::new(profile).rows(15), profile.summary()));
}
