//! Checks of functions by their contents, as the kernel side reads them.

use ebpf_programs::abi::interpreter::FRAME_BYTES;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::identity::{LastText, texts};

use super::CHECK_BITS;

/// Returns the check of a function with [contents](ebpf_programs::abi::contents) from `start` on.
/// `hashed` are the texts whose hashes are used, a bit for each. Fails with the error of `read` if
/// words of the function are unreadable.
pub(super) fn of_contents<E>(
    start: u64,
    contents: u32,
    hashed: u32,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<u32, E> {
    let mut reader = Reader { read, object: [0; FRAME_BYTES / 8], error: None };
    match (texts::check(&mut reader, start, contents, hashed, &mut LastText::default()), reader.error) {
        (None, Some(error)) => Err(error),
        (check, _) => Ok(check.unwrap_or(0) & CHECK_BITS),
    }
}

/// Memory of a process. Each read may be a system call.
struct Reader<E, F: FnMut(u64, &mut [u8]) -> Result<(), E>> {
    read: F,
    object: [u64; FRAME_BYTES / 8],
    /// The last error.
    error: Option<E>,
}

impl<E, F: FnMut(u64, &mut [u8]) -> Result<(), E>> Machine for Reader<E, F> {
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.read_memory(address)
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        self.read_object(address, 8).map(|words| words[0])
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let mut bytes = [0; FRAME_BYTES];
        let read = (self.read)(address, bytes.get_mut(..size as usize)?);
        read.map_err(|error| self.error = Some(error)).ok()?;
        for (word, bytes) in self.object.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(&self.object)
    }

    fn push_frame(&mut self, _: u64) {}
}
