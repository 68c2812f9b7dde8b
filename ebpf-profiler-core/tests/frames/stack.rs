//! The native stack of the tests, its unwind table, and walked frames as text.

use std::ops::Range;

use ebpf_programs::abi::VERSION;
use ebpf_programs::abi::record::frame::{ADDRESS, CHECK, DETAIL, INTERPRETED, INTERPRETER_SHIFT, LOOP};

/// Start of the program's code.
pub(crate) const CODE: u64 = 0x40_0000;

/// Code of the interpreter's loop.
pub(crate) const LOOP_CODE: Range<u64> = CODE + 0x200..CODE + 0x300;

/// Stack pointer of the leaf.
pub(crate) const STACK: u64 = 0x7fff_0000;

/// Return addresses as code offsets: into the loop, a helper, the loop again, and the outermost
/// function. Each native frame has 16 bytes.
pub(crate) const RETURNS: [u64; 4] = [0x210, 0x110, 0x220, 0x401];

/// Returns a table of one page with two rows: from 0x400 on is the outermost frame, everything
/// before is not.
pub(crate) fn table() -> Vec<u32> {
    let mut words = vec![0, 0, 1, 3, 2, 108, 16 << 16 | VERSION, 0];
    words.extend([1 << 16, 2 << 16 | 0x400]);
    words.resize(16, 0); // rule 0: no data
    words.extend([0x0703, 16, 0, 0]); // rule 1: cfa = rsp + 16, ra = [cfa - 8]
    words.extend([2, 0, 0, 0]); // rule 2: the outermost frame
    words.extend([8, 52, 10 << 16 | 8]);
    words
}

/// Returns frames as text: native ones by their distance from `base`, `*` for a loop's, script
/// frames as `function@position/check`.
pub(crate) fn text(words: &[u64], base: u64) -> String {
    let mut parts = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let address = word & ADDRESS & !(3 << INTERPRETER_SHIFT);
        if word & INTERPRETED == 0 {
            parts.push(format!("{:x}{}", address - base, if word & LOOP != 0 { "*" } else { "" }));
            continue;
        }
        let detail = words.next().unwrap();
        assert_eq!(detail >> 56, DETAIL >> 56);
        let check = match detail >> 32 & CHECK {
            0 => String::new(),
            check => format!("/{check:x}"),
        };
        parts.push(format!("{address:x}@{}{check}", detail as u32));
    }
    parts.join(" ")
}
