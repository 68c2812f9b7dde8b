//! Recognizes files that hold CoreCLR, by the tables and functions that it exports.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf, segment_type};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;

/// The table of the runtime's variables, for debuggers.
const VARIABLES: &str = "g_dacTable";

/// A function that starts the runtime; a version that exports it alone is unsupported.
const STARTS: &str = "coreclr_initialize";

/// Text before the version.
const VERSION: &[u8] = b"@(#)Version ";

/// Beginning of the function that replaces return addresses: it pushes room for the original, the
/// registers that a function keeps, and those of its result.
const HIJACK: &[u8] = &[0x50, 0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54];

/// The instructions after it, in versions 3 to 9 and in 10: pushes, and `mov rdi, rsp`.
const HIJACK_ENDS: [&[u8]; 2] = [&[0x52, 0x50, 0x48, 0x89, 0xe7], &[0x51, 0x52, 0x50, 0x48, 0x89, 0xe7]];

/// Maximum number of bytes of segments that are searched.
const MAX_SEARCHED: u64 = 64 << 20;

/// Size of one read, in bytes.
const CHUNK: u64 = 1 << 20;

/// Bytes that two reads share: longer than each pattern.
const OVERLAP: u64 = 32;

/// A file that holds CoreCLR.
#[derive(Debug)]
pub(super) struct File {
    /// Virtual address of the table of variables; `None` if it is unsupported.
    variables: Option<u64>,
    /// Major version, if the file says it.
    major: Option<u32>,
    /// Virtual address of the function that replaces return addresses, if there is one.
    hijack: Option<u64>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let variables = exports.get(VARIABLES).map(|symbol| symbol.address);
    if variables.is_none() && exports.get(STARTS).is_none() {
        return None;
    }
    let variables = variables.filter(|_| elf.arch() == Arch::X86_64);
    let mut file = File { variables, major: None, hijack: None };
    if variables.is_some() {
        file.search(elf);
    }
    Some(file)
}

impl File {
    /// Searches the loaded bytes for the version and for the function that replaces return addresses.
    fn search(&mut self, elf: &Elf) {
        let mut left = MAX_SEARCHED;
        let mut functions = Vec::new();
        for segment in elf.segments().iter().filter(|segment| segment.kind == segment_type::PT_LOAD) {
            let size = segment.file_size.min(left);
            left -= size;
            let mut at = 0;
            while at < size {
                let Ok(bytes) = elf.bytes(segment.offset + at, CHUNK.min(size - at)) else { break };
                self.major = self.major.or_else(|| version(&bytes));
                if segment.is_code() {
                    let found = hijacks(&bytes).map(|offset| segment.address + at + offset as u64);
                    functions.extend(found);
                }
                at += CHUNK - OVERLAP;
            }
        }
        functions.dedup();
        self.hijack = match functions[..] {
            [function] => Some(function),
            _ => None,
        };
    }
}

/// Returns the major version in a part of a file.
fn version(bytes: &[u8]) -> Option<u32> {
    let at = positions(bytes, VERSION).next()?;
    let digits = bytes[at + VERSION.len()..].iter().take(4).take_while(|byte| byte.is_ascii_digit());
    let number = |sum: u32, digit: &u8| sum * 10 + u32::from(digit - b'0');
    Some(digits.fold(0, number)).filter(|&major| major != 0)
}

/// Returns the offsets of functions that replace return addresses.
fn hijacks(bytes: &[u8]) -> impl Iterator<Item = usize> {
    positions(bytes, HIJACK).filter(|at| {
        let rest = &bytes[at + HIJACK.len()..];
        HIJACK_ENDS.iter().any(|end| rest.starts_with(end))
    })
}

/// Returns the offsets of a pattern.
fn positions<'b>(bytes: &'b [u8], pattern: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    let first = pattern.first().copied();
    let starts = bytes.iter().enumerate().filter(move |&(_, &byte)| Some(byte) == first);
    starts.map(|(at, _)| at).filter(|&at| bytes[at..].starts_with(pattern))
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.variables.is_some()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let variables = self.variables.ok_or(Reason::Unsupported)?;
        attach::attach(variables, self.major, self.hijack, target)
    }
}

#[test]
fn reads_versions_and_functions_that_replace_return_addresses() {
    assert_eq!(version(b"..@(#)Version 8.0.824.36612 @Commit: 08"), Some(8));
    assert_eq!(version(b"@(#)Version 10.0"), Some(10));
    assert_eq!(version(b"@(#)Version x"), None);
    assert_eq!(version(b"@(#)Version 99999999999"), Some(9999));
    for end in HIJACK_ENDS {
        let code = [&[0x50, 0x50][..], HIJACK, end].concat();
        assert_eq!(hijacks(&code).collect::<Vec<_>>(), [2]);
        assert_eq!(hijacks(&code[..code.len() - 1]).count(), 0);
    }
}
