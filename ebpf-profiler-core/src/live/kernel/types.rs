//! Offsets of members in structures of the running kernel.
//!
//! The kernel describes its own types (BTF), all numbers in the machine's byte order:
//!
//! ```text
//!   header   magic: u16 = 0xeb9f, version: u8, flags: u8, length: u32,
//!            types at: u32, length: u32, strings at: u32, length: u32      (from the end of the header)
//!   type     name: u32, info: u32 = is_bitfield << 31 | kind << 24 | count, size or type: u32, then by kind
//!   member   name: u32, type: u32, offset in bits: u32
//!   value    name: u32, number: u32
//! ```
//!
//! Types are numbered from 1 in file order; a name is an offset into the strings. The file has
//! megabytes, and the kernel copies it page by page: reading all of it takes 15 ms. So it is read
//! in windows, and only up to the structure, which is near the start for those used here.

mod functions;

use std::fs::File;
use std::io;

pub(in crate::live) use functions::{Integer, KernelFunction};

use crate::elf::ReadAt;

/// Type information of the running kernel.
pub(in crate::live) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Maximum number of types and members that a search visits; a kernel has some 130,000 types.
const MAX_VISITS: u32 = 1 << 20;

/// Maximum depth of nested structures, and maximum number of qualifiers of a type.
const DEPTH: u32 = 16;

const MAGIC: u16 = 0xeb9f;
const HEADER: u64 = 24;
const TYPE: u64 = 12;
const MEMBER: u64 = 12;
const VALUE: u64 = 8;

/// The types that a kernel describes.
pub(in crate::live) struct KernelTypes<R> {
    types: Window<R>,
    strings: Window<R>,
    visits_left: u32,
}

impl KernelTypes<File> {
    /// Opens the type information of the running kernel.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub(in crate::live) fn of_this_kernel() -> io::Result<KernelTypes<File>> {
        let file = File::open(VMLINUX)?;
        KernelTypes::new(file.try_clone()?, file)
    }
}

impl<R: ReadAt> KernelTypes<R> {
    /// Opens the type information in a file, of which two handles are needed.
    ///
    /// # Errors
    ///
    /// Fails if the file has another format.
    pub(super) fn new(types: R, strings: R) -> io::Result<KernelTypes<R>> {
        let mut header = [0; HEADER as usize];
        types.read_at(0, &mut header)?;
        if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let word = |at: usize| u64::from(word(&header, at));
        let base = word(4);
        Ok(KernelTypes {
            types: Window::new(types, base + word(8), word(12)),
            strings: Window::new(strings, base + word(16), word(20)),
            visits_left: MAX_VISITS,
        })
    }

    /// Returns the byte offset of a member, as in `offset("task_struct", "thread.fsbase")`. Members
    /// of an unnamed structure count as members of the structure that contains it.
    ///
    /// Returns `None` if there is no such member, or if it begins within a byte.
    pub(in crate::live) fn offset(&mut self, structure: &str, path: &str) -> Option<u32> {
        self.visits_left = MAX_VISITS;
        if path.split('.').any(str::is_empty) {
            return None;
        }
        let structure = self.structure(structure)?;
        let bits = self.bits(structure, path, DEPTH)?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Returns `true` if an enumeration has a value, as in `has_value("bpf_func_id",
    /// "BPF_FUNC_loop")`; `None` if there is no such enumeration.
    pub(super) fn has_value(&mut self, enumeration: &str, value: &str) -> Option<bool> {
        self.visits_left = MAX_VISITS;
        let found = self.named(kind::ENUM, enumeration)?;
        Some((0..found.count).any(|index| self.value_is_called(found, index, value)))
    }

    /// Returns `true` if there is an unnamed structure that begins with these members.
    pub(super) fn has_unnamed(&mut self, members: &[&str]) -> bool {
        self.visits_left = MAX_VISITS;
        self.find(|types, found| {
            found.kind == kind::STRUCT
                && found.name == 0
                && found.count as usize >= members.len()
                && (0..).zip(members).all(|(index, name)| {
                    types.member(found, index).is_some_and(|member| types.is_called(member.name, name))
                })
        })
        .is_some()
    }

    /// Returns the number of parameters of the functions to which a typedef points.
    pub(in crate::live) fn parameters_of(&mut self, typedef: &str) -> Option<u32> {
        self.visits_left = MAX_VISITS;
        let pointer = self.named(kind::TYPEDEF, typedef)?.of;
        let function = self.type_of(pointer).filter(|found| found.kind == kind::PTR)?.of;
        self.type_of(function).filter(|found| found.kind == kind::FUNC_PROTO).map(|found| found.count)
    }

    /// Finds the structure `name`.
    fn structure(&mut self, name: &str) -> Option<Type> {
        self.named(kind::STRUCT, name)
    }

    /// Finds the type of a kind that is called `name`.
    fn named(&mut self, kind: u32, name: &str) -> Option<Type> {
        self.find(|types, found| found.kind == kind && types.is_called(found.name, name))
    }

    /// Finds a type.
    fn find(&mut self, is_it: impl Fn(&mut KernelTypes<R>, Type) -> bool) -> Option<Type> {
        let mut at = 0;
        loop {
            let found = self.type_at(at)?;
            if is_it(self, found) {
                return Some(found);
            }
            at = found.end()?;
        }
    }

    /// Returns the offset in bits of the member at the end of `path`.
    fn bits(&mut self, structure: Type, path: &str, depth: u32) -> Option<u32> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        for index in 0..structure.count {
            let member = self.member(structure, index)?;
            if !self.is_called(member.name, name) {
                continue;
            }
            return match rest {
                None => member.bits,
                Some(rest) => self.inner(member, rest, depth),
            };
        }
        (0..structure.count).find_map(|index| {
            let member = self.member(structure, index)?;
            if self.is_called(member.name, "") { self.inner(member, path, depth) } else { None }
        })
    }

    /// Returns the offset of the member at the end of `path` if `path` begins in `member`.
    fn inner(&mut self, member: Member, path: &str, depth: u32) -> Option<u32> {
        let inner = self.unqualified(member.of)?;
        if !matches!(inner.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        let within = self.bits(inner, path, depth.checked_sub(1)?)?;
        member.bits?.checked_add(within)
    }

    /// Returns type `id` without typedefs and qualifiers.
    fn unqualified(&mut self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH {
            let found = self.type_of(id)?;
            if !found.is_qualifier() {
                return Some(found);
            }
            id = found.of;
        }
        None
    }

    /// Returns type `id`.
    fn type_of(&mut self, id: u32) -> Option<Type> {
        let mut found = self.type_at(0)?;
        for _ in 1..id {
            found = self.type_at(found.end()?)?;
        }
        (id != 0).then_some(found)
    }

    /// Returns the type at byte `at`.
    fn type_at(&mut self, at: u64) -> Option<Type> {
        self.visits_left = self.visits_left.checked_sub(1)?;
        let bytes: [u8; TYPE as usize] = self.types.array(at)?;
        let info = word(&bytes, 4);
        Some(Type {
            at,
            name: word(&bytes, 0),
            kind: info >> 24 & 0x1f,
            has_bitfields: info >> 31 != 0,
            count: info & 0xffff,
            of: word(&bytes, 8),
        })
    }

    /// Returns member `index` of a structure.
    fn member(&mut self, structure: Type, index: u32) -> Option<Member> {
        self.visits_left = self.visits_left.checked_sub(1)?;
        let at = structure.at + TYPE + u64::from(index) * MEMBER;
        let bytes: [u8; MEMBER as usize] = self.types.array(at)?;
        let place = word(&bytes, 8);
        let bits = match (structure.has_bitfields, place >> 24) {
            (false, _) => Some(place),
            (true, 0) => Some(place),
            (true, _) => None,
        };
        Some(Member { name: word(&bytes, 0), of: word(&bytes, 4), bits })
    }

    /// Returns `true` if value `index` of an enumeration is called `name`.
    fn value_is_called(&mut self, enumeration: Type, index: u32, name: &str) -> bool {
        let at = enumeration.at + TYPE + u64::from(index) * VALUE;
        let bytes: Option<[u8; VALUE as usize]> = self.types.array(at);
        bytes.is_some_and(|bytes| self.is_called(word(&bytes, 0), name))
    }

    /// Returns `true` if the string at `at` is `name`.
    fn is_called(&mut self, at: u32, name: &str) -> bool {
        self.strings.bytes(u64::from(at), name.len() + 1).is_some_and(|bytes| {
            bytes.split_last().is_some_and(|(&last, bytes)| last == 0 && bytes == name.as_bytes())
        })
    }
}

/// The head of a type, without the part that depends on its kind.
#[derive(Clone, Copy)]
struct Type {
    at: u64,
    name: u32,
    kind: u32,
    has_bitfields: bool,
    /// Number of members, values or parameters.
    count: u32,
    /// Number of the underlying type; a size for some kinds.
    of: u32,
}

impl Type {
    /// Returns `true` for a typedef or qualifier of another type.
    fn is_qualifier(&self) -> bool {
        matches!(self.kind, kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
    }

    /// Returns the position of the next type.
    fn end(&self) -> Option<u64> {
        let each = match self.kind {
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12,
            kind::ENUM | kind::FUNC_PROTO => 8,
            _ => 0,
        };
        let fixed = match self.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            // A later kind: its size is unknown.
            kind if kind > kind::ENUM64 => return None,
            _ => 0,
        };
        Some(self.at + TYPE + fixed + each * u64::from(self.count))
    }
}

#[derive(Clone, Copy)]
struct Member {
    name: u32,
    of: u32,
    /// Returns its offset in bits; `None` for a bit field.
    bits: Option<u32>,
}

/// Kinds of type.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// A section of a file with one buffered piece.
struct Window<R> {
    file: R,
    base: u64,
    len: u64,
    at: u64,
    piece: Vec<u8>,
}

impl<R: ReadAt> Window<R> {
    fn new(file: R, base: u64, len: u64) -> Window<R> {
        Window { file, base, len, at: 0, piece: Vec::new() }
    }

    fn array<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        self.bytes(at, N)?.try_into().ok()
    }

    /// Returns the string at `at`, without the zero byte at its end.
    fn string(&mut self, at: u64) -> Option<&[u8]> {
        /// Maximum length of a name in bytes.
        const LENGTH: u64 = 512;
        let count = self.len.checked_sub(at)?.min(LENGTH) as usize;
        let bytes = self.bytes(at, count)?;
        bytes.split(|&byte| byte == 0).next().filter(|name| name.len() < count)
    }

    /// Returns `count` bytes at `at`, at most one piece.
    fn bytes(&mut self, at: u64, count: usize) -> Option<&[u8]> {
        /// Size that the kernel copies at once.
        const PIECE: u64 = 4096;
        let end = at.checked_add(count as u64).filter(|&end| end <= self.len && count as u64 <= PIECE)?;
        if at < self.at || end > self.at + self.piece.len() as u64 {
            self.at = at;
            self.piece.resize((self.len - at).min(PIECE) as usize, 0);
            if self.file.read_at(self.base + at, &mut self.piece).is_err() {
                self.piece.clear();
                return None;
            }
        }
        let from = (at - self.at) as usize;
        self.piece.get(from..from + count)
    }
}

/// Returns the number at byte `at`, which must be in bounds.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests;
