//! Functions of Perl's operations, which newer versions don't export: by its tables of operations,
//! read once per file.
//!
//! ```text
//!   PL_op_name   address of the name of each operation: "nextstate", …
//!   PL_ppaddr    address of its function
//!
//!   entertry:    lea  entertry(%rip),%rsi     runs itself again, in another loop
//!                call S_docatch               or jmp
//! ```

use std::ops::Range;
use std::sync::OnceLock;

use ebpf_profiler_core::elf::{Elf, Exports};
use ebpf_profiler_core::language::{Reason, Target};

use crate::fde::Fdes;

/// Maximum number of operations.
const MAX_OPERATIONS: u64 = 1024;

/// Number of bytes of an operation's function that are searched.
const CODE: u64 = 160;

/// Virtual addresses of the tables, and the number of their entries.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    names: u64,
    functions: u64,
    count: u64,
    /// The function that begins a statement, in versions that export it.
    next_state: Option<u64>,
    /// The same in each process, once the loader has written the addresses into the tables.
    found: OnceLock<Operations>,
}

/// Virtual addresses in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operations {
    /// The function that begins a statement.
    pub(super) next_state: u64,
    /// The function that begins a loop for `eval`, `S_docatch`; empty if unknown.
    pub(super) catch: Range<u64>,
}

impl Tables {
    /// Finds the tables, or the exported function alone.
    pub(super) fn find(exports: Exports<'_>) -> Option<Tables> {
        let next_state = exports.get("Perl_pp_nextstate").map(|it| it.address);
        let tables = exports.get("PL_ppaddr").zip(exports.get("PL_op_name"));
        let (functions, names, count) = match tables {
            Some((functions, names)) => {
                (functions.address, names.address, (functions.size / 8).min(MAX_OPERATIONS))
            }
            None => next_state.map(|_| (0, 0, 0))?,
        };
        Some(Tables { names, functions, count, next_state, found: OnceLock::new() })
    }

    /// Returns the operations, which it reads in the first process.
    pub(super) fn operations(&self, target: &Target<'_>) -> Result<&Operations, Reason> {
        match self.found.get() {
            Some(found) => Ok(found),
            None => self.read(target).map(|found| self.found.get_or_init(|| found)),
        }
    }

    fn read(&self, target: &Target<'_>) -> Result<Operations, Reason> {
        let bias = target.bias();
        let found = match self.count {
            0 => Err(Reason::Unsupported),
            _ => self.functions([b"nextstate\0", b"entertry\0\0"], target),
        };
        let [next_state, enter_try] = match (found, self.next_state) {
            (Err(_), Some(next_state)) => {
                return Ok(Operations { next_state, catch: 0..0 });
            }
            (found, _) => found?,
        };
        if next_state == 0 {
            return Err(Reason::NotReady);
        }
        let code = target.memory().bytes(enter_try, CODE, CODE as usize).unwrap_or_default();
        let catch = caller(&code, bias.in_file(enter_try)).and_then(|catch| {
            let file = target.files().iter().find(|file| file.bias == bias)?;
            function_at(&file.open().ok()?, catch)
        });
        Ok(Operations { next_state: bias.in_file(next_state), catch: catch.unwrap_or_default() })
    }

    /// Returns the functions of operations, 0 for those that aren't found.
    fn functions(&self, wanted: [&[u8; 10]; 2], target: &Target<'_>) -> Result<[u64; 2], Reason> {
        let memory = target.memory();
        let table = |at| memory.bytes(target.address(at), self.count * 8, MAX_OPERATIONS as usize * 8);
        let (names, functions) = (table(self.names)?, table(self.functions)?);
        let mut found = [0; 2];
        for (name, function) in names.as_chunks().0.iter().zip(functions.as_chunks().0) {
            let name: [u8; 10] = memory.array(u64::from_le_bytes(*name)).unwrap_or_default();
            for (found, _) in
                found.iter_mut().zip(wanted).filter(|(_, wanted)| name.starts_with(name_of(wanted)))
            {
                *found = u64::from_le_bytes(*function);
            }
        }
        Ok(found)
    }
}

/// Returns a name with one zero byte behind it.
fn name_of(bytes: &[u8; 10]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).map_or(bytes.len(), |at| at + 1);
    &bytes[..end]
}

/// Returns the function to which the code at `start` passes its own address.
fn caller(code: &[u8], start: u64) -> Option<u64> {
    let relative = |at: usize| {
        let distance = i32::from_le_bytes(*code.get(at..)?.first_chunk()?);
        Some(start.wrapping_add(at as u64 + 4).wrapping_add_signed(distance.into()))
    };
    // lea address(%rip),%rsi, or %rdi
    let is_own =
        |at: &usize| matches!(code[*at..], [0x48, 0x8d, 0x35 | 0x3d, ..]) && relative(at + 3) == Some(start);
    let at = (0..code.len()).find(is_own)? + 7;
    let next = (at..code.len()).take(8).find(|&at| matches!(code[at], 0xe8 | 0xe9))?;
    relative(next + 1)
}

fn function_at(elf: &Elf, address: u64) -> Option<Range<u64>> {
    Fdes::open(elf)?.at(address).map(|fde| fde.range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_function_that_gets_the_own_address() {
        // Perl 5.36 of Debian 12, at 48: lea -0x37(%rip),%rsi; pop %rbx; jmp; and 5.40 of Debian 13, with a
        // call.
        let code = |tail: &[u8]| [&[0x90; 48][..], tail].concat();
        let jump = code(b"\x48\x8d\x35\xc9\xff\xff\xff\x5b\xe9\x53\x01\xff\xff");
        assert_eq!(caller(&jump, 0x17_0880), Some(0x16_0a10));
        let call = code(b"\x48\x8d\x35\xc9\xff\xff\xff\xe8\x84\xe8\xfe\xff\xc3");
        assert_eq!(caller(&call, 0xf_7ac0), Some(0xe_6380));
        assert_eq!(caller(&code(b"\x48\x8d\x35\xc9\xff\xff\x00\xe8\x84\xe8\xfe\xff"), 0xf_7ac0), None);
        assert_eq!(caller(&call[..54], 0xf_7ac0), None);
        assert_eq!(caller(&call[..57], 0xf_7ac0), None);
    }
}
