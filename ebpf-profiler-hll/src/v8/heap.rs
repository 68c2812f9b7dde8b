//! Reads objects of V8's heap.
//!
//! ```text
//!   object     map | fields …                 pointers to objects are tagged: the lowest bit is 1
//!   map        … | type u16 at 12 | …
//!   small int  value shifted by 32            the lowest bit is 0
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::layout::Layout;

/// Offset of the type in a map.
const TYPE: u64 = 12;

/// Offset of the length of an array.
const LENGTH: u32 = 8;

/// Offset of the elements of an array.
pub(super) const ELEMENTS: u32 = 16;

/// The objects of a process.
#[derive(Clone, Copy)]
pub(super) struct Heap<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) layout: &'a Layout,
}

/// A tagged pointer to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object(u64);

impl Object {
    /// Decodes a word of an object; `None` for a small int and for an address that no object has. A
    /// weak pointer is followed.
    pub(super) fn from_word(word: u64) -> Option<Object> {
        let word = word & !2;
        (word & 7 == 1 && word < 1 << 47 && word > 1 << 12).then_some(Object(word))
    }

    /// Returns the object at an address without tag.
    pub(super) fn at(address: u64) -> Result<Object, Reason> {
        Object::from_word(address.wrapping_add(1)).ok_or(Reason::Implausible)
    }

    /// Returns the tagged pointer.
    pub(super) fn tagged(self) -> u64 {
        self.0
    }

    /// Returns the address of a field.
    pub(super) fn field(self, offset: u32) -> u64 {
        self.0.wrapping_sub(1).wrapping_add(offset.into())
    }
}

/// Returns the value of a small int, `None` for a pointer.
pub(super) fn small_int(word: u64) -> Option<i32> {
    (word & 0xffff_ffff == 0).then_some((word >> 32) as i32)
}

impl<'a> Heap<'a> {
    pub(super) fn word(&self, object: Object, offset: u32) -> Result<u64, Reason> {
        Ok(self.memory.u64(object.field(offset))?)
    }

    pub(super) fn number(&self, object: Object, offset: u32) -> Result<u32, Reason> {
        Ok(self.memory.u32(object.field(offset))?)
    }

    /// Returns the object that a field refers to.
    pub(super) fn object(&self, object: Object, offset: u32) -> Result<Object, Reason> {
        Object::from_word(self.word(object, offset)?).ok_or(Reason::Implausible)
    }

    /// Returns the number of an object's type.
    pub(super) fn kind(&self, object: Object) -> Result<u16, Reason> {
        self.kind_in(self.object(object, 0)?)
    }

    /// Returns the number in a map.
    pub(super) fn kind_in(&self, map: Object) -> Result<u16, Reason> {
        let bytes = self.memory.array(map.field(TYPE as u32))?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Fails unless an object has this type.
    pub(super) fn ensure_kind(&self, object: Object, kind: u16) -> Result<(), Reason> {
        if self.kind(object)? == kind { Ok(()) } else { Err(Reason::Implausible) }
    }

    /// Returns element `index` of an array.
    pub(super) fn element(&self, array: Object, index: u32) -> Result<u64, Reason> {
        if index >= self.length(array)? {
            return Err(Reason::Implausible);
        }
        self.word(array, ELEMENTS.saturating_add(index.saturating_mul(8)))
    }

    /// Returns the length of an array.
    pub(super) fn length(&self, array: Object) -> Result<u32, Reason> {
        let word = self.word(array, LENGTH)?;
        let length = small_int(word).ok_or(Reason::Implausible)?;
        u32::try_from(length).map_err(|_| Reason::Implausible)
    }

    /// Returns the contents of an array of bytes, empty if the object is another one; at most
    /// `limit` bytes.
    pub(super) fn bytes(&self, array: Object, limit: usize) -> Result<Vec<u8>, Reason> {
        if !self.layout.types.bytes.contains(&self.kind(array)?) {
            return Ok(Vec::new());
        }
        Ok(self.memory.bytes(array.field(ELEMENTS), self.length(array)?.into(), limit)?)
    }
}
