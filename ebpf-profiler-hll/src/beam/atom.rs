//! Atoms: an array of arrays of pointers, by index.
//!
//! ```text
//!   term = index << 6 | 001011        Atom: … | length 24, two bytes | … | text 32
//!
//!   text   up to OTP 27 the address of the characters; from 28 on a binary: address | 10 ──► header | size in bits | characters
//! ```
//!
//! Atoms are never freed.

use std::collections::HashMap;

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::beam::{ATOM, ATOM_MASK};

/// Maximum length of an atom, in bytes: 255 characters.
const MAX_LENGTH: u16 = 255 * 4;

/// Maximum number of atoms that are kept.
const MAX_KNOWN: usize = 1 << 14;

/// The first atoms, which are built in.
const FIRST: [&str; 2] = ["false", "true"];

/// The text of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Its address.
    Address,
    /// A tagged binary.
    Binary,
}

/// The atoms of a process.
pub(super) struct Atoms {
    /// Address of the pointer to the array.
    array: u64,
    text: Text,
    known: HashMap<u64, Box<str>>,
}

impl Atoms {
    /// Finds out how the text of an atom is stored, by the first ones.
    pub(super) fn new(array: u64, memory: &dyn Memory) -> Result<Atoms, Reason> {
        if memory.u64(array)? == 0 {
            return Err(Reason::NotReady);
        }
        let is_right = |text| {
            let read = |index: u64| read(array, text, index << 6 | ATOM, memory);
            (0..).zip(FIRST).all(|(index, name)| read(index).is_ok_and(|read| &*read == name))
        };
        let text = [Text::Address, Text::Binary].into_iter().find(|text| is_right(*text));
        Ok(Atoms { array, text: text.ok_or(Reason::Implausible)?, known: HashMap::new() })
    }

    /// Returns the text of an atom.
    pub(super) fn text(&mut self, term: u64, memory: &dyn Memory) -> Result<Box<str>, Reason> {
        if let Some(text) = self.known.get(&term) {
            return Ok(text.clone());
        }
        let text = read(self.array, self.text, term, memory)?;
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(term, text.clone());
        Ok(text)
    }
}

fn read(array: u64, text: Text, term: u64, memory: &dyn Memory) -> Result<Box<str>, Reason> {
    if term & ATOM_MASK != ATOM || term >> 32 != 0 {
        return Err(Reason::Implausible);
    }
    let part = memory.u64(memory.u64(array)?.wrapping_add((term >> 16) * 8))?;
    let atom = memory.u64(part.wrapping_add((term >> 6 & 1023) * 8))?;
    let length = u16::from_le_bytes(memory.array(atom.wrapping_add(24))?);
    let word = memory.u64(atom.wrapping_add(32))?;
    let address = match text {
        Text::Address => word,
        Text::Binary if word & 3 == 2 => {
            let binary = word - 2;
            if memory.u64(binary.wrapping_add(8))? != u64::from(length) * 8 {
                return Err(Reason::Implausible);
            }
            binary.wrapping_add(16)
        }
        Text::Binary => return Err(Reason::Implausible),
    };
    if length > MAX_LENGTH {
        return Err(Reason::Implausible);
    }
    let bytes = memory.bytes(address, length.into(), MAX_LENGTH.into())?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Reason::Implausible),
    }
}
