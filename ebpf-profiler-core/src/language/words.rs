//! Memory of a process as the walkers of the kernel side read it.

use ebpf_programs::abi::interpreter::FRAME_BYTES;
use ebpf_programs::machine::Machine;

use super::Memory;

/// Memory of a process, for [checks of functions](ebpf_programs::walk::identity).
#[expect(missing_debug_implementations, reason = "memory of a process has no form to print")]
pub struct Words<'m> {
    memory: &'m dyn Memory,
    object: [u64; FRAME_BYTES / 8],
}

impl Words<'_> {
    /// Returns the memory of a process.
    pub fn new(memory: &dyn Memory) -> Words<'_> {
        Words { memory, object: [0; FRAME_BYTES / 8] }
    }
}

impl Machine for Words<'_> {
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.read_memory(address)
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        self.memory.u64(address).ok()
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let mut bytes = [0; FRAME_BYTES];
        self.memory.read(address, bytes.get_mut(..size as usize)?).ok()?;
        for (word, bytes) in self.object.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(&self.object)
    }

    fn push_frame(&mut self, _: u64) {}
}
