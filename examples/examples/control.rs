//! Profiles the programs of a name as they come and go, until Enter is pressed.
//!
//! ```text
//! sudo target/release/examples/control php-fpm
//! ```

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;
use std::{fs, io, thread};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Changes, Pids};
use ebpf_profiler_core::profile::Profile;
use examples::{explain_start_error, fail, print, say};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| fail("give the name of a program"));
    let profiler = Profiler::builder()
        .frequency(19)
        .pids(Pids::none())
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    let handle = profiler.handle();
    thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        handle.stop()
    });

    let mut former = BTreeSet::new();
    while profiler.is_running() {
        let pids = pids_of(&name);
        if pids != former {
            // Few processes can be sampled more often.
            let hertz = if pids.len() < 4 { 997 } else { 97 };
            let changes = Changes::new().pids(Pids::Only(pids.clone())).frequency(hertz);
            let changed = profiler.reconfigure(&changes)?;
            changed.skipped.iter().for_each(say);
            show(former.len(), &changed.profile);
            former = pids;
        }
        thread::sleep(Duration::from_millis(200));
    }
    show(former.len(), &profiler.finish()?.0);
    Ok(())
}

fn pids_of(name: &str) -> BTreeSet<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_named =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it.trim() == name);
    pids.filter(is_named).collect()
}

fn show(processes: usize, profile: &Profile) {
    print(format_args!("{processes} processes: {}\n", profile.summary()));
}
