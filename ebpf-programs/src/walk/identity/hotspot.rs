//! Checks of HotSpot's interpreted methods.
//!
//! The metaspace of a class loader that is unloaded is used again soon: a class of the same shape has its methods at the same addresses.
//! So the check covers the names of class and method.
//!
//! ```text
//!   ConstMethod ──► ConstantPool ──► Klass ──► Symbol "Plugin"
//!    └ size, index of the name ──► entry ──► Symbol "run"
//! ```

use super::{LastText, bytes, check, mix};
use crate::machine::Machine;

/// Words of a symbol that are covered, with its length.
const SYMBOL: usize = 12;

/// Bytes of a `ConstMethod` that hold the fields.
const HEAD: u32 = 64;

/// Offsets of the fields that lead from a method to its names.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Offset of the constant pool in a `ConstMethod`: in its first 64 bytes, as the two that follow.
    pub constants: u16,
    /// Offset of the size of the bytecode.
    pub code_size: u16,
    /// Offset of the index of the name.
    pub name: u16,
    /// Offset of the class in a `ConstantPool`.
    pub holder: u16,
    /// Size of a `ConstantPool`, which its entries follow.
    pub entries: u16,
    /// Offset of the name in a `Klass`.
    pub class_name: u16,
    /// Offset of the length in a `Symbol`: two bytes of the first eight.
    pub length: u16,
    /// Offset of the text in a `Symbol`, at most 8.
    pub text: u16,
}

impl Fields {
    /// Packs them into two parameters of the walker.
    pub const fn pack(self) -> [u64; 2] {
        [
            pack([self.constants, self.code_size, self.name, self.holder]),
            pack([self.entries, self.class_name, self.length, self.text]),
        ]
    }

    /// Unpacks two parameters of the walker.
    #[inline(always)]
    pub const fn unpack(words: [u64; 2]) -> Fields {
        let [first, second] = words;
        Fields {
            constants: first as u16,
            code_size: (first >> 16) as u16,
            name: (first >> 32) as u16,
            holder: (first >> 48) as u16,
            entries: second as u16,
            class_name: (second >> 16) as u16,
            length: (second >> 32) as u16,
            text: (second >> 48) as u16,
        }
    }
}

/// Packs four numbers of 16 bits, the first one lowest.
const fn pack(numbers: [u16; 4]) -> u64 {
    let [first, second, third, fourth] = numbers;
    first as u64 | (second as u64) << 16 | (third as u64) << 32 | (fourth as u64) << 48
}

/// Returns the check of the method with a `ConstMethod`. Returns `None` if that is unreadable; what it refers to counts as 0 then.
#[inline(always)]
pub fn method<M: Machine>(
    machine: &mut M,
    const_method: u64,
    fields: Fields,
    last: &mut LastText,
) -> Option<u32> {
    let words = machine.read_object(const_method, HEAD)?;
    let word = |at: u16| words[(at >> 3) as usize & 7];
    let half = |at: u16| word(at) >> ((at & 6) << 3) & 0xffff;
    let (pool, size, name) = (word(fields.constants), half(fields.code_size), half(fields.name));
    if pool != last.address || pool == 0 {
        let class = machine.read_memory(pool.wrapping_add(fields.holder as u64)).unwrap_or(0);
        let hash = symbol_at(machine, class.wrapping_add(fields.class_name as u64), fields);
        *last = LastText { address: pool, hash };
    }
    let entry = pool.wrapping_add(fields.entries as u64).wrapping_add(name << 3);
    let name = symbol_at(machine, entry, fields);
    Some(check(mix(mix(mix(mix(0, const_method), size), last.hash), name)))
}

/// Returns the hash of the first bytes of the symbol to which the word at an address points, and of its length. Returns 0 if it is
/// unreadable.
#[inline(always)]
fn symbol_at<M: Machine>(machine: &mut M, at: u64, fields: Fields) -> u64 {
    let Some(symbol) = machine.read_memory(at) else { return 0 };
    let (length, text) = ((fields.length as u64 & 7) * 8, fields.text as u64);
    // The number of its users is between them.
    let kept = 0xffff << length | if text < 8 { u64::MAX << (text * 8) } else { 0 };
    let Some(words) = machine.read_object(symbol, SYMBOL as u32 * 8) else {
        // It may be the last object of a mapping.
        return mix(0, machine.read_memory(symbol).unwrap_or(0) & kept);
    };
    let first = words[0];
    let end = text + (first >> length & 0xffff);
    let (end, most) = (if end < 8 { 8 } else { end }, SYMBOL as u64 * 8);
    let taken = if end < most { end - 8 } else { most - 8 };
    let hash = bytes::<{ SYMBOL - 1 }>(mix(0, first & kept), words, 1, taken);
    if end <= most {
        return hash;
    }
    // Generated names end with a number.
    mix(hash, machine.read_memory(symbol.wrapping_add(end - 8)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::interpreter::FRAME_BYTES;

    const FIELDS: Fields = Fields {
        constants: 8,
        code_size: 34,
        name: 38,
        holder: 24,
        entries: 72,
        class_name: 16,
        length: 4,
        text: 6,
    };

    const CONST_METHOD: u64 = 0x40;
    const POOL: u64 = 0x100;
    const CLASS: u64 = 0x200;
    const CLASS_NAME: u64 = 0x280;
    const NAME: u64 = 0x400;

    /// Memory from address 0, and its end.
    struct Memory([u8; 0x600], usize, [u64; FRAME_BYTES / 8]);

    impl Memory {
        fn put(&mut self, address: u64, bytes: &[u8]) {
            self.0[address as usize..][..bytes.len()].copy_from_slice(bytes);
        }

        fn put_symbol(&mut self, address: u64, users: u16, text: &[u8]) {
            self.put(address, &[0xab; 0x100]);
            self.put(address, &users.to_le_bytes());
            self.put(address + 4, &(text.len() as u16).to_le_bytes());
            self.put(address + 6, text);
        }

        fn check(&mut self) -> u32 {
            method(self, CONST_METHOD, FIELDS, &mut LastText::default()).unwrap()
        }
    }

    impl Machine for Memory {
        fn read_stack(&mut self, address: u64) -> Option<u64> {
            self.read_memory(address)
        }

        fn read_memory(&mut self, address: u64) -> Option<u64> {
            let bytes = self.0[..self.1].get(address as usize..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        }

        fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
            for index in 0..size as usize / 8 {
                self.2[index] = self.read_memory(address + index as u64 * 8)?;
            }
            Some(&self.2)
        }

        fn push_frame(&mut self, _: u64) {}
    }

    fn memory(class: &[u8], name: &[u8]) -> Memory {
        let mut memory = Memory([0; 0x600], 0x600, [0; FRAME_BYTES / 8]);
        memory.put(CONST_METHOD + 8, &POOL.to_le_bytes());
        memory.put(CONST_METHOD + 34, &7u16.to_le_bytes());
        memory.put(CONST_METHOD + 38, &3u16.to_le_bytes());
        memory.put(POOL + 24, &CLASS.to_le_bytes());
        memory.put(POOL + 72 + 3 * 8, &NAME.to_le_bytes());
        memory.put(CLASS + 16, &CLASS_NAME.to_le_bytes());
        memory.put_symbol(CLASS_NAME, 1, class);
        memory.put_symbol(NAME, 1, name);
        memory
    }

    #[test]
    fn fields_are_packed_into_two_words() {
        assert_eq!(Fields::unpack(FIELDS.pack()), FIELDS);
    }

    #[test]
    fn methods_differ_by_names_and_sizes() {
        let check = |class: &[u8], name: &[u8]| memory(class, name).check();
        assert_eq!(check(b"Plugin", b"run"), check(b"Plugin", b"run"));
        assert_ne!(check(b"Plugin", b"run"), check(b"Plugon", b"run"));
        assert_ne!(check(b"Plugin", b"run"), check(b"Plugin", b"ran"));
        // At the end of a name that is longer than what is read at once, and in a name within the first word.
        let (mut one, mut two) = ([b'x'; 120], [b'x'; 120]);
        (one[119], two[119]) = (b'1', b'2');
        assert_ne!(check(&one, b"run"), check(&two, b"run"));
        assert_ne!(check(b"A", b"f"), check(b"B", b"f"));
        let mut other_size = memory(b"Plugin", b"run");
        other_size.put(CONST_METHOD + 34, &8u16.to_le_bytes());
        assert_ne!(other_size.check(), check(b"Plugin", b"run"));
    }

    #[test]
    fn users_of_a_symbol_and_what_follows_it_do_not_count() {
        let before = memory(b"Plugin", b"run").check();
        let mut memory = memory(b"Plugin", b"run");
        memory.put_symbol(NAME, 0x1234, b"run");
        memory.put_symbol(CLASS_NAME, 0x4321, b"Plugin");
        memory.put(NAME + 6 + 3, &[0xcd; 64]);
        memory.put(CLASS_NAME + 6 + 6, &[0xcd; 64]);
        assert_eq!(memory.check(), before);
    }

    #[test]
    fn a_symbol_may_be_the_last_object_of_a_mapping() {
        let mut memory = memory(b"Plugin", b"run");
        memory.1 = NAME as usize + 16;
        assert_ne!(memory.check(), 0);
        assert_eq!(method(&mut memory, 0x10_0000, FIELDS, &mut LastText::default()), None);
    }
}
