//! Any bytes as a recording: a sentence or profiles, in bounded memory, and no more events than there are bytes.
#![no_main]

use std::io::Cursor;

use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::internal::sample::SourceError;
use ebpf_profiler_core::symbol::NoSymbols;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(replay) = Replay::read(Cursor::new(data.to_vec())) else { return };
    let profiles = match replay.symbolizer(NoSymbols).profiles() {
        Ok(profiles) => profiles,
        Err(error) => panic!("it was opened a moment ago: {error}"),
    };
    let mut samples = 0;
    for profile in profiles {
        match profile {
            Ok(profile) => samples += profile.count(),
            Err(SourceError::Format(_)) => break,
            Err(error) => panic!("memory can always be read: {error}"),
        }
    }
    assert!(samples <= data.len() as u64 / 56);
});
