//! Draws a flame graph for each container.
//!
//! ```text
//! sudo target/release/containers --seconds 10 --folder pictures
//! ```

use std::path::PathBuf;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use examples::{Options, Usage, explain_start_error, fail, print};

const USAGE: Usage = Usage {
    about: "containers: draws a flame graph for each container",
    options: &[
        ("seconds", "N", "length (10)"),
        ("folder", "FOLDER", "folder of the pictures (.)"),
        ("most", "N", "number of pictures; smaller containers share the last one (20)"),
    ],
    arguments: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let folder: PathBuf = options.one("folder").unwrap_or_else(|| ".".into());
    let profiler = Profiler::builder()
        .frequency(97)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    let length = Duration::from_secs(options.one("seconds").unwrap_or(10));
    let profile = profiler.run_for(length).unwrap_or_else(|error| fail(error));

    let most = options.one("most").unwrap_or(20);
    let groups = profile.group_by_at_most(most, |sample| &*sample.process().container);
    let named = groups.iter().map(|(id, part)| (if id.is_empty() { "host" } else { *id }, part));
    for (name, part) in named.chain(groups.other().map(|part| ("other", part))) {
        // An id is from the name of a control group; only its digits and letters get into a file name.
        let name: String =
            name.chars().filter(|character| character.is_ascii_alphanumeric()).take(12).collect();
        let path = folder.join(name + ".svg");
        part.write(&path).unwrap_or_else(|error| fail(error));
        print(format_args!("{:>8} samples  {}\n", part.count(), path.display()));
    }
}
