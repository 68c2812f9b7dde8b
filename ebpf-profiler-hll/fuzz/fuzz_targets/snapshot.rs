//! Shared by the fuzz targets of languages with snapshots: changes to a process, and the readers on it.

#[path = "../../tests/snapshot/mod.rs"]
pub(crate) mod process;

use ebpf_profiler_core::language::{Memory, Unreadable};

use process::{Snapshot, Sparse};

/// Attaches to the process of a snapshot and names its frames, with memory and files changed by `data`.
///
/// Each eight bytes are a change: of memory or of a file, by replacing a byte, a word by a number or an address.
pub(crate) fn read(text: &str, data: &[u8]) {
    let Ok(mut snapshot) = text.parse::<Snapshot>() else { return };
    let honest = snapshot.memory.clone();
    for change in data.as_chunks::<8>().0 {
        apply(&mut snapshot, &honest, *change);
    }
    let Some(runtime) = snapshot.find() else { return };
    let changed = std::mem::take(&mut snapshot.memory);
    // Other memory repeats the changes.
    let memory = |address: u64, buffer: &mut [u8]| {
        if changed.read(address, buffer).is_err() {
            if data.is_empty() || address >> 47 != 0 || data[0] % 2 == 0 {
                return Err(Unreadable);
            }
            for (index, byte) in (0..).zip(buffer) {
                *byte = data[(address.wrapping_add(index) % data.len() as u64) as usize];
            }
        }
        Ok(())
    };
    let Ok(mut attachment) = snapshot.attach(&*runtime, &memory) else { return };
    for frame in &snapshot.frames {
        if let Ok(names) = frame.read(attachment.names(), &memory) {
            assert!(names.iter().all(|name| name.len() < 64 << 10));
        }
    }
}

fn apply(snapshot: &mut Snapshot, honest: &Sparse, change: [u8; 8]) {
    let [kind, piece, low, high, fine, first, second, third] = change;
    let number = usize::from(u16::from_le_bytes([low, high])) << 3 | usize::from(fine & 7);
    let of = |memory: &Sparse, piece: u8| match memory.0.len() {
        0 => None,
        pieces => Some(usize::from(piece) % pieces),
    };
    if kind >= 0xc0 {
        // A byte of a file.
        let Some(file) = snapshot.files.first_mut() else { return };
        let contents = std::sync::Arc::make_mut(&mut file.contents);
        let Some(piece) = of(contents, piece) else { return };
        let bytes = &mut contents.0[piece].1;
        let at = number % bytes.len().max(1);
        bytes[at..].iter_mut().take(1).for_each(|byte| *byte = first);
        return;
    }
    let Some(target) = of(honest, first) else { return };
    let Some(piece) = of(&snapshot.memory, piece) else { return };
    let (start, bytes) = &mut snapshot.memory.0[piece];
    let at = number % bytes.len().max(1);
    let word = match kind % 8 {
        0 => honest.0[target].0 + u64::from(second) * 8 + u64::from(third & 7),
        // Refers to itself.
        1 => *start + at as u64 + u64::from(first),
        2 => u64::MAX,
        3 => u64::from(u32::MAX),
        4 => i64::MAX as u64,
        5 => 1 << (first % 64),
        _ => u64::from_le_bytes([first, second, third, 0, 0, 0, 0, 0]),
    };
    let size = if kind & 8 == 0 { 8 } else { 4 };
    let bytes = &mut bytes[at..];
    let size = size.min(bytes.len());
    bytes[..size].copy_from_slice(&word.to_le_bytes()[..size]);
}
