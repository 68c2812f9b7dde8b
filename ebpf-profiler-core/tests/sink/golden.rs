//! Small profiles in every format, compared with files.
//!
//! After a change that is meant, run with `BLESS=1` in the environment and look at the difference.

use std::fs;
use std::path::Path;

use ebpf_profiler_core::sink::{Format, Svg, Table};
use ebpf_profiler_core::testing;

use crate::written;

/// One of everything.
pub(crate) const KINDS: &str = "
    server;_start;main;serve;parse::request;core::str::find_[i] 20
    server;_start;main;serve;std::map<int, int>::find(int) 10
    server;_start;main;serve;libc.so.6`read;entry_[k];vfs_read_[k] 50
    server;_start;main;guess_[g];[anonymous]_[j];handler.js_[j] 15
    server;[truncated: stack not readable];lonely 3
    server`worker-1;start_thread;[… 976 frames left out];work 3
    server`worker-2;start_thread;[… 976 frames left out];work 2
    kworker/0:1;ret_from_fork_[k];worker_thread_[k] 4
    cat;main;libc.so.6`read;entry_[k];vfs_read_[k] 100";

#[test]
fn folded() {
    compare("kinds.folded", &written(&testing::profile(KINDS), Format::FOLDED));
}

#[test]
fn svg() {
    compare("kinds.svg", &written(&testing::profile(KINDS), Format::SVG));
    let profile = testing::profile("");
    let mut out = Vec::new();
    Svg::new(&profile).title("Nothing & nobody").width(500).write(&mut out).expect("memory takes everything");
    compare("empty.svg", &String::from_utf8_lossy(&out));
}

#[test]
fn table() {
    compare("kinds.txt", &Table::new(&testing::profile(KINDS)).to_string());
}

#[test]
fn viewers() {
    let profile = testing::profile(KINDS);
    // The version in the files changes with each release.
    let plain = |format| written(&profile, format).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    compare("kinds.json", &plain(Format::FIREFOX));
    compare("kinds.speedscope.json", &plain(Format::SPEEDSCOPE));
}

fn compare(name: &str, ours: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sink/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, ours).expect("the folder is there");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(ours == golden, "{} differs; now it is:\n{ours}", path.display());
}
