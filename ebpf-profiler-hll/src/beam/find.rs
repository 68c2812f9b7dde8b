//! Recognizes files that hold BEAM, by the functions that it exports for modules in C.
//!
//! ```text
//!   enif_get_atom_length:   mov rax, [rip + atoms]        the array of atoms
//!   enif_thread_type:       call scheduler_data           mov edi, [rip + key]; jmp …
//!                           mov eax, [rax + type]         behind the current process
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf, segment_type};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;

/// A function of the interface that reads an atom.
const READS_ATOM: &str = "enif_get_atom_length";

/// A function of the interface that asks for the thread's scheduler.
const ASKS_SCHEDULER: &str = "enif_thread_type";

/// Number of bytes of a function that are read.
const CODE: usize = 96;

/// Maximum size of the file's data, in bytes.
const MAX_DATA: u64 = 4 << 20;

/// A file that holds BEAM.
#[derive(Debug)]
pub(super) struct File {
    /// `None` if its code is unknown.
    facts: Option<Facts>,
}

/// Facts that are read once from the file.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Virtual address of the pointer to the array of atoms.
    pub(super) atoms: u64,
    /// Virtual address of the number of the key for a thread's scheduler.
    pub(super) key: u64,
    /// Offset of the thread's kind in the data of its scheduler.
    pub(super) kind: u64,
    /// The file's data, virtual addresses.
    pub(super) data: Range<u64>,
    /// Virtual address of the pointer to the outermost return address of a process; `None` if it
    /// has no symbol.
    pub(super) normal_exit: Option<u64>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let reads_atom = exports.get(READS_ATOM)?.address;
    let asks_scheduler = exports.get(ASKS_SCHEDULER)?.address;
    if elf.arch() != Arch::X86_64 {
        return Some(File { facts: None });
    }
    let normal_exit = exports.get("beam_normal_exit").map(|symbol| symbol.address);
    let facts = || {
        let (key, kind) = scheduler(elf, asks_scheduler)?;
        Some(Facts { atoms: atoms(elf, reads_atom)?, key, kind, data: data(elf)?, normal_exit })
    };
    Some(File { facts: facts() })
}

/// Returns the virtual address of the pointer to the atoms, from the code of a function that reads
/// one.
fn atoms(elf: &Elf, function: u64) -> Option<u64> {
    let code = code(elf, function)?;
    // mov reg, [rip + distance]
    let at = code.windows(7).position(|bytes| bytes[..2] == [0x48, 0x8b] && bytes[2] & 0xc7 == 0x05)?;
    Some(target(function, &code, at + 3))
}

/// Returns the virtual address of the number of the key for the scheduler, and the offset of the
/// thread's kind in its data.
fn scheduler(elf: &Elf, function: u64) -> Option<(u64, u64)> {
    let asks = code(elf, function)?;
    let call = asks.iter().position(|&byte| byte == 0xe8)?;
    let getter = target(function, &asks, call + 1);
    // mov eax, [rax + offset]
    let load = asks.windows(6).skip(call).find(|bytes| bytes[..2] == [0x8b, 0x80])?;
    let kind = u32::from_le_bytes([load[2], load[3], load[4], load[5]]);
    let gets = code(elf, getter)?;
    // mov edi, [rip + distance]
    let at = gets.windows(6).take(16).position(|bytes| bytes[..2] == [0x8b, 0x3d])?;
    Some((target(getter, &gets, at + 2), kind.into()))
}

/// Returns the address that four bytes of the code at `start` lead to, counted from their end.
fn target(start: u64, code: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 4];
    bytes.iter_mut().zip(code.iter().skip(at)).for_each(|(to, from)| *to = *from);
    let distance = i64::from(i32::from_le_bytes(bytes));
    start.wrapping_add(at as u64 + 4).wrapping_add_signed(distance)
}

fn code(elf: &Elf, function: u64) -> Option<[u8; CODE]> {
    let mut code = [0; CODE];
    elf.read(function, &mut code).ok()?;
    Some(code)
}

/// Returns the virtual addresses of the data that the program may change.
fn data(elf: &Elf) -> Option<Range<u64>> {
    let is_data = |segment: &&ebpf_profiler_core::elf::Segment| {
        segment.kind == segment_type::PT_LOAD && segment.flags & 2 != 0
    };
    let segment = elf.segments().iter().filter(is_data).max_by_key(|segment| segment.memory_size)?;
    let start = segment.address.checked_next_multiple_of(8)?;
    let end = segment.address.checked_add(segment.memory_size)?;
    (start < end && end - start <= MAX_DATA).then_some(start..end)
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.facts.is_some()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(self.facts.as_ref().ok_or(Reason::Unsupported)?, target)
    }
}
