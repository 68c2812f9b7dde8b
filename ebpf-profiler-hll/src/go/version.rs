//! The version of Go in the build information of a program.
//!
//! ```text
//!   ff " Go buildinf:" | size of a pointer | flags | 16 bytes | length of the version, varint | "go1.25.5" | …
//! ```

use ebpf_profiler_core::elf::Elf;

const MAGIC: &[u8] = b"\xff Go buildinf:";

/// Offset of the flags, and the flag of a version that follows at [`TEXT`].
const FLAGS: usize = 15;
const INLINE: u8 = 2;

/// Offset of the length of the version; it has one byte.
const TEXT: usize = 32;

/// Returns the minor version, 25 of Go 1.25.5; `None` if there is no build information, or none of
/// Go 1.18 or later.
pub(super) fn minor(elf: &Elf) -> Option<u32> {
    let section = elf.section(".go.buildinfo")?;
    parse(&elf.bytes(section.offset, section.size.min(256)).ok()?)
}

fn parse(bytes: &[u8]) -> Option<u32> {
    if !bytes.starts_with(MAGIC) || bytes.get(FLAGS)? & INLINE == 0 {
        return None;
    }
    let (&length, text) = bytes.get(TEXT..)?.split_first()?;
    let text = std::str::from_utf8(text.get(..length.into())?).ok()?;
    // Those of development have "devel " before it.
    let digits = text.split_once("go1.")?.1;
    digits.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(version: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([8, INLINE]);
        bytes.resize(TEXT, 0);
        bytes.push(version.len() as u8);
        bytes.extend(version.as_bytes());
        bytes
    }

    #[test]
    fn versions_are_those_of_releases_and_of_development() {
        let versions = ["go1.25.5", "go1.19", "go1.26rc1", "devel go1.27-6c83e45 Tue", "go1.24.0-X:swissmap"];
        let minors = versions.map(|version| parse(&bytes(version)));
        assert_eq!(minors, [25, 19, 26, 27, 24].map(Some));
        assert_eq!(
            ["devel +abc", "", "go2.1", "go1.", "go1.99999999999"].map(|it| parse(&bytes(it))),
            [None; 5]
        );
        let whole = bytes("go1.25.5");
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), None, "{len}");
        }
    }
}
