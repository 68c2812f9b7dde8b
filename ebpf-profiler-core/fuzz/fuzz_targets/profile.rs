//! Any bytes as an encoded profile: an error, or a profile that can be walked, in bounded memory.
#![no_main]

use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::folded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The right checksum, so that it is the only part that need not be found.
    let bytes = [data, &checksum(data).to_le_bytes()].concat();
    let Ok(profile) = Profile::decode(&bytes[..]) else { return };
    let _ = folded::write(&profile, &mut std::io::sink());
    let merged = Profile::merge([&profile, &profile]).map(|merged| merged.count());
    assert!(merged.is_err() || merged == Ok(2 * profile.count()));
    let mut again = Vec::new();
    if profile.encode(&mut again).is_ok() {
        let again = Profile::decode(&again[..]).expect("what was encoded");
        assert_eq!(again.count(), profile.count());
    }
});

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
