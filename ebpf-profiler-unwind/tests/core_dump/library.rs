//! A library with nothing in it but its build id.

/// One segment of code, which is the whole file, and the note in it.
pub(crate) fn library(build_id: [u8; 2]) -> Vec<u8> {
    const NOTE: u64 = 64 + 2 * 56;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3u16, crate::file::X86_64].map(u16::to_le_bytes).as_flattened());
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].map(u64::to_le_bytes).as_flattened());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 2, 64, 0, 0].map(u16::to_le_bytes).as_flattened());
    for (kind, flags, offset, size) in [(1u32, 5u32, 0, NOTE + 32), (4, 4, NOTE, 20)] {
        file.extend([kind, flags].map(u32::to_le_bytes).as_flattened());
        file.extend([offset, offset, offset, size, size, 4096].map(u64::to_le_bytes).as_flattened());
    }
    file.extend([4u32, 2, 3].map(u32::to_le_bytes).as_flattened());
    file.extend(b"GNU\0");
    file.extend(build_id);
    file.extend([0; 2 + 12]);
    file
}
