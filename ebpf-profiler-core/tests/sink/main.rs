//! What the sinks write: compared with files that a person has looked at, and with themselves on random profiles.

mod file;
mod folded;
mod golden;
mod hostile;
mod random;
mod table;
mod tree;

use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Format;

/// What a profile looks like in a format.
fn written(profile: &Profile, format: Format) -> String {
    let mut out = Vec::new();
    format.write(profile, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("all formats are text")
}
