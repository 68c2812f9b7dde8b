//! Identifies a file, so that a replay can find the same one.

use std::io;

use super::record::{Code, Facts, MAX_SEGMENTS};
use crate::elf::{Elf, ElfError, Segment};
use crate::process::Opener;

/// Maximum number of bytes that a fingerprint covers.
const MAX_READ: u64 = 64 << 20;

/// Size of one read in bytes.
const PIECE: u64 = 64 << 10;

impl Facts {
    /// Reads the facts of a file.
    pub(super) fn of(opener: &dyn Opener) -> io::Result<Facts> {
        let foreign = opener.foreign_inode();
        let source = opener.open()?;
        let size = source.size()?;
        Ok(Facts { size, code: Elf::open(source).ok().map(|elf| Code::of(&elf)), foreign })
    }

    /// Returns `true` if `elf` is the recorded file.
    pub(super) fn matches(&self, elf: &Elf) -> bool {
        let same = |code: &Code| {
            let id = elf.build_id().unwrap_or_default();
            code.arch == elf.arch() && code.build_id == id && code.fingerprint == code_fingerprint(elf, &id)
        };
        self.size == elf.size() && self.code.as_ref().is_some_and(same)
    }
}

impl Code {
    fn of(elf: &Elf) -> Code {
        let build_id = elf.build_id().unwrap_or_default();
        let is_valid = |s: &&Segment| s.is_code() && s.offset.checked_add(s.file_size).is_some();
        let segments = elf.segments().iter().filter(is_valid);
        Code {
            arch: elf.arch(),
            fingerprint: code_fingerprint(elf, &build_id),
            build_id,
            segments: segments.take(MAX_SEGMENTS).copied().collect(),
        }
    }
}

/// Returns the fingerprint of a file without build id, otherwise 0.
fn code_fingerprint(elf: &Elf, build_id: &[u8]) -> u64 {
    if build_id.is_empty() { fingerprint(elf).unwrap_or(0) } else { 0 }
}

/// Hashes the contents. It distinguishes builds of a file; collisions can be constructed.
///
/// Of a file larger than 64 MiB it reads pieces at equal distances.
fn fingerprint(elf: &Elf) -> Result<u64, ElfError> {
    let pieces = elf.size().div_ceil(PIECE);
    let step = pieces.div_ceil(MAX_READ / PIECE).max(1);
    let mut buffer = vec![0; PIECE as usize];
    let mut hash = elf.size();
    for at in (0..pieces).step_by(step as usize).map(|piece| piece * PIECE) {
        let piece = &mut buffer[..PIECE.min(elf.size() - at) as usize];
        elf.fill(at, piece)?;
        hash = mix(hash, piece);
    }
    Ok(hash)
}

fn mix(mut hash: u64, piece: &[u8]) -> u64 {
    for word in piece.chunks(8) {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(padded)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash
}
