//! The code blobs of a Java virtual machine, by the blocks of its code heaps.

use ebpf_profiler_core::language::{FrameWalker, Memory};
use ebpf_programs::abi::hotspot::parameter;

/// Returns the addresses of the blobs, each with the check of its frames.
///
/// ```text
///   heap: block, block, …, 0      block: length in segments, then a byte that is 1 unless it is free | blob
/// ```
pub(crate) fn blobs(walker: &FrameWalker, memory: &dyn Memory) -> Vec<(u64, u32)> {
    let parameters = walker.abi().parameters;
    let sizes = parameters[parameter::SIZES];
    let (header, log2) = (sizes & 0xff, sizes >> 8 & 0xff);
    let check = (parameters[parameter::PARTS] >> 32 & 0xffff) + (parameters[parameter::DEOPTIMIZATION] >> 48);
    let mut blobs = Vec::new();
    for heap in parameters[parameter::HEAP..parameter::COUNT].as_chunks::<3>().0 {
        let [low, high, _] = *heap;
        let mut block = low;
        while block < high {
            let (Ok(length), Ok(used)) = (memory.u32(block), memory.u32(block + header / 2)) else { break };
            if length == 0 {
                break;
            }
            let blob = block + header;
            if used & 0xff == 1
                && let Ok(check) = memory.u32(blob + check)
            {
                blobs.push((blob, check & 0xff_ffff));
            }
            block += u64::from(length) << log2;
        }
    }
    blobs
}
