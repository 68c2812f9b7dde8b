//! The functions that a section describes, as gimli reads them.

use std::collections::HashMap;
use std::io::Read;

use ebpf_profiler_core::elf::{COMPRESSED, Elf, segment_type};
use gimli::{BaseAddresses, CieOrFde, FrameDescriptionEntry, UnwindSection};

use super::machine::Bytes;

pub(crate) type Fde<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// All functions in executable memory, by address, of several at one address the first.
pub(crate) fn functions<'a, S>(section: &S, bases: &BaseAddresses, elf: &Elf) -> Vec<Fde<'a>>
where
    S: UnwindSection<Bytes<'a>>,
    S::Offset: std::hash::Hash + Eq,
{
    let mut cies = HashMap::new();
    let mut functions = Vec::new();
    let mut entries = section.entries(bases);
    loop {
        match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => {
                let cie = |section: &S, bases: &BaseAddresses, offset: S::Offset| {
                    let read = || section.cie_from_offset(bases, offset);
                    cies.entry(offset).or_insert_with(read).clone()
                };
                functions.extend(partial.parse(cie).ok().filter(|fde| is_code(elf, fde)));
            }
            Ok(Some(CieOrFde::Cie(_))) => {}
            Ok(None) | Err(_) => break,
        }
    }
    functions.sort_by_key(Fde::initial_address);
    functions.dedup_by_key(|fde| fde.initial_address());
    functions
}

/// `.debug_frame`, unpacked.
pub(crate) fn debug_frame(elf: &Elf) -> Option<Vec<u8>> {
    let section = elf.section(".debug_frame")?;
    let data = elf.data(section).ok()?;
    if section.flags & COMPRESSED == 0 {
        return Some(data);
    }
    let mut unpacked = Vec::new();
    flate2::read::ZlibDecoder::new(data.get(24..)?).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}

fn is_code(elf: &Elf, fde: &Fde<'_>) -> bool {
    let begin = fde.initial_address();
    let holds = |(start, size): (u64, u64)| begin >= start && begin - start < size;
    let executable = elf.segments().iter().filter(|s| s.kind == segment_type::PT_LOAD && s.flags & 1 != 0);
    fde.len() > 0 && executable.map(|s| (s.address, s.memory_size)).any(holds)
}
