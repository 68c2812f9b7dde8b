//! State of the garbage collector, from the code of an exported function.
//!
//! ```text
//!   rb_during_gc:
//!     mov   …,%rax                   ────►   variable: the address of the virtual machine
//!     mov   0x450(%rax),%rax         ────►   heap: 0x450
//!     movzbl 0x10(%rax),%eax         ────►   flags: 0x10
//!     shr   $5,%al                   ────►   bit: 5
//! ```

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Reason, Target};

/// Maximum number of bytes of the function.
const FUNCTION: usize = 64;

/// `endbr64`.
const BRANCH_TARGET: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// `mov rax, [rip + …]` and `lea rax, [rip + …]`, with four bytes of distance.
const VARIABLE: &[u8] = &[0x48, 0x8b, 0x05];
const ADDRESS: &[u8] = &[0x48, 0x8d, 0x05];

/// `mov rax, [rax]`.
const DEREFERENCE: &[u8] = &[0x48, 0x8b, 0x00];

/// `mov rax, [rax + …]`, with four bytes of distance.
const LOAD: &[u8] = &[0x48, 0x8b, 0x80];

/// `movzx eax, byte [rax + …]`, with one byte of distance, and `shr al, …`.
const FLAGS: &[u8] = &[0x0f, 0xb6, 0x40];
const SHIFT: &[u8] = &[0xc0, 0xe8];

/// Place of the flag that is set while the collector runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collection {
    /// Virtual address of the variable, or of a pointer to it.
    variable: u64,
    /// Number of reads from there to the virtual machine.
    reads: u32,
    /// In the virtual machine: the address of the heap.
    heap: u32,
    /// In the heap: the byte with the flag.
    flags: u8,
    bit: u8,
}

impl Collection {
    /// Derives the place from the function at an address; `None` if its code is not as expected.
    pub(super) fn find(elf: &Elf, address: u64) -> Option<Collection> {
        let mut code = [0; FUNCTION];
        let is_read = elf.arch() == Arch::X86_64 && elf.read(address, &mut code).is_ok();
        is_read.then(|| decode(&code, address)).flatten()
    }

    /// Returns the address of the word with the flag, and the flag's mask.
    pub(super) fn flag(&self, target: &Target<'_>) -> Result<[u64; 2], Reason> {
        let memory = target.memory();
        let mut machine = target.address(self.variable);
        for _ in 0..self.reads {
            machine = memory.u64(machine)?;
        }
        let heap = memory.u64(machine.wrapping_add(self.heap.into()))?;
        if heap == 0 || !heap.is_multiple_of(8) {
            return Err(Reason::NotReady);
        }
        let shift = u32::from(self.flags % 8) * 8 + u32::from(self.bit);
        Ok([heap.wrapping_add(u64::from(self.flags & !7)), 1 << shift])
    }
}

/// Decodes the function, which begins at `start`.
fn decode(code: &[u8], start: u64) -> Option<Collection> {
    let begin = if code.starts_with(BRANCH_TARGET) { BRANCH_TARGET.len() } else { 0 };
    let first = code.get(begin..)?;
    let is_address = first.starts_with(ADDRESS);
    if !is_address && !first.starts_with(VARIABLE) {
        return None;
    }
    let distance = i32::from_le_bytes(*first.get(VARIABLE.len()..)?.first_chunk()?);
    let next = begin + VARIABLE.len() + 4;
    let variable = start.wrapping_add(next as u64).wrapping_add_signed(distance.into());
    let rest = code.get(next..)?;
    let reads = u32::from(!is_address) + u32::from(rest.starts_with(DEREFERENCE));
    let rest = after(rest, LOAD)?;
    let heap = u32::from_le_bytes(*rest.first_chunk()?);
    let rest = after(rest, FLAGS)?;
    let flags = *rest.first()?;
    let bit = *after(rest, SHIFT)?.first()?;
    (bit < 8 && flags < 0x80).then_some(Collection { variable, reads, heap, flags, bit })
}

/// Returns the code behind the first occurrence of a pattern.
fn after<'c>(code: &'c [u8], pattern: &[u8]) -> Option<&'c [u8]> {
    let at = code.windows(pattern.len()).position(|window| window == pattern)?;
    code.get(at + pattern.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_place_from_instructions() {
        let tail = b"\x48\x8b\x80\x50\x04\0\0\x0f\xb6\x40\x10\xc0\xe8\x05\x83\xe0\x01\xc3";
        let found = |head: &[u8]| decode(&[head, tail].concat(), 0x1000);
        let expected = Collection { variable: 0x1107, reads: 1, heap: 0x450, flags: 0x10, bit: 5 };
        // The variable itself, by a pointer in the global offset table, by its address; with a check
        // before.
        assert_eq!(found(b"\x48\x8b\x05\0\x01\0\0"), Some(expected));
        assert_eq!(found(b"\x48\x8b\x05\0\x01\0\0\x48\x8b\0"), Some(Collection { reads: 2, ..expected }));
        let address = b"\xf3\x0f\x1e\xfa\x48\x8d\x05\0\x01\0\0\x48\x8b\0\x48\x85\xc0\x74\x12";
        assert_eq!(found(address), Some(Collection { variable: 0x110b, ..expected }));
    }

    #[test]
    fn rejects_other_code() {
        for code in [&b"\x31\xc0\xc3"[..], b"\x48\x8b\x05\0\x01\0\0\xc3", b"\x48\x8b\x05", b""] {
            assert_eq!(decode(code, 0), None);
        }
    }
}
