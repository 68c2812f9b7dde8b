//! The code blobs of a Java virtual machine, by the segment maps of its code heaps.

use ebpf_profiler_core::language::{FrameWalker, Memory};
use ebpf_programs::abi::hotspot::parameter;

/// Returns the addresses of the blobs, each with the check of its frames.
pub(crate) fn blobs(walker: &FrameWalker, memory: &dyn Memory) -> Vec<(u64, u32)> {
    let parameters = walker.abi().parameters;
    let sizes = parameters[parameter::SIZES];
    let (header, log2) = (sizes & 0xff, sizes >> 8 & 0xff);
    let check = (parameters[parameter::PARTS] >> 32 & 0xffff) + (parameters[parameter::DEOPTIMIZATION] >> 48);
    let mut blobs = Vec::new();
    for heap in parameters[parameter::HEAP..parameter::COUNT].as_chunks::<3>().0 {
        let [low, high, map] = *heap;
        // In pages, as they are committed.
        for start in (0..(high - low) >> log2).step_by(4096) {
            let Ok(tags) = memory.array::<4096>(map + start) else { break };
            for (segment, _) in (start..).zip(tags).filter(|&(_, tag)| tag == 0) {
                let blob = low + (segment << log2) + header;
                if let Ok(check) = memory.u32(blob + check) {
                    blobs.push((blob, check & 0xff_ffff));
                }
            }
        }
    }
    blobs
}
