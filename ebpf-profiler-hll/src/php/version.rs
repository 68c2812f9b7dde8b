//! Detects the version of a runtime.

use std::fmt;

use ebpf_profiler_core::elf::{Elf, segment_type};

/// A version of PHP: 8.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version(pub(super) u8, pub(super) u8);

/// The header that PHP sends, which precedes its version in the file.
const MARK: &[u8] = b"X-Powered-By: PHP/";

/// Number of bytes of a file that are searched at once.
const CHUNK: u64 = 1 << 16;

/// Number of bytes of a version behind the mark: `8.2.`, `10.12.`.
const DIGITS: usize = 6;

/// Maximum number of bytes of a file that are searched.
const MAX_SEARCHED: u64 = 64 << 20;

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// Detects the version of a file, by a string in its read-only data.
    pub(super) fn detect(elf: &Elf) -> Option<Version> {
        const WRITE: u32 = 2;
        let mut segments: Vec<_> = elf
            .segments()
            .iter()
            .filter(|it| it.kind == segment_type::PT_LOAD && it.flags & WRITE == 0)
            .collect();
        // Strings are rarely in a segment of code.
        segments.sort_by_key(|segment| segment.is_code());
        segments.iter().find_map(|segment| search(elf, segment.offset, segment.file_size.min(MAX_SEARCHED)))
    }
}

fn search(elf: &Elf, offset: u64, size: u64) -> Option<Version> {
    let overlap = (MARK.len() + DIGITS) as u64;
    let mut buffer = vec![0; (CHUNK + overlap) as usize];
    let mut at = 0;
    while at < size {
        let len = (CHUNK + overlap).min(size - at) as usize;
        elf.fill(offset.checked_add(at)?, &mut buffer[..len]).ok()?;
        if let Some(version) = occurrences(&buffer[..len]).find_map(parse) {
            return Some(version);
        }
        at += CHUNK;
    }
    None
}

/// Returns the bytes behind each mark.
fn occurrences(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            // One byte first, which is faster.
            at += bytes[at..].iter().position(|&byte| byte == MARK[0])? + 1;
            if let Some(behind) = bytes[at - 1..].strip_prefix(MARK) {
                return Some(behind);
            }
        }
    })
}

/// Parses `8.2.36`.
fn parse(bytes: &[u8]) -> Option<Version> {
    let mut numbers = bytes[..bytes.len().min(DIGITS)].split(|&byte| byte == b'.');
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    let version = Version(number()?, number()?);
    // Without a third number the second may be cut off.
    numbers.next().map(|_| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_versions_and_rejects_truncated_ones() {
        assert_eq!(parse(b"8.2.36\0"), Some(Version(8, 2)));
        assert_eq!(parse(b"10.12.0"), Some(Version(10, 12)));
        for bad in [&b"8.2"[..], b"", b"8..1", b"x.2.1", b"8.2\0.1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn skips_marks_without_a_version() {
        let bytes = b"X-Powered-By: PHP/%s\0X-Powered-By: PHP/7.4.33\0";
        assert_eq!(occurrences(bytes).find_map(parse), Some(Version(7, 4)));
    }
}
