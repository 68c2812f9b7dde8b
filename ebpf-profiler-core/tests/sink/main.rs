//! Output of the sinks, compared with reviewed files and, on random profiles, with one another.

mod file;
mod folded;
mod golden;
mod hostile;
mod json;
mod random;
mod table;
mod tree;
mod viewers;

use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Format;

/// Returns a profile in a format, as text.
fn written(profile: &Profile, format: Format) -> String {
    let mut out = Vec::new();
    format.write(profile, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("all formats are text")
}
