//! Symbolic values of registers.

use super::{Location, Origin};

/// A symbolic value of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    #[default]
    Unknown,
    Number(i64),
    Address(Location),
    /// The eight bytes at a location.
    Word64(Location),
    /// The four bytes at a location.
    Word32(Location),
    /// The thread pointer plus a number.
    ThreadPointer(i64),
    /// The distance from the thread pointer that a TLS descriptor resolves to.
    DescriptorOffset(u64),
    /// The address of a word of the running thread.
    ThreadAddress(Origin),
    /// A word of the running thread.
    ThreadWord(Origin),
}

impl Value {
    /// Returns the value plus `distance`.
    pub(super) fn add(self, distance: i64) -> Value {
        match self {
            Value::Number(number) => Value::Number(number.wrapping_add(distance)),
            Value::Address(location) => Value::Address(location.add(distance)),
            // An address in the global offset table.
            Value::Word64(Location { pointer: None, plus }) => {
                Value::Address(Location { pointer: Some(plus), plus: 0 }.add(distance))
            }
            Value::ThreadPointer(offset) => Value::ThreadPointer(offset.wrapping_add(distance)),
            Value::ThreadAddress(origin) => Value::ThreadAddress(displace(origin, distance)),
            _ => Value::Unknown,
        }
    }

    /// Returns the sum of two values.
    pub(super) fn plus(self, other: Value) -> Value {
        match (self, other) {
            (Value::ThreadPointer(plus), Value::Word64(Location { pointer: None, plus: slot }))
            | (Value::Word64(Location { pointer: None, plus: slot }), Value::ThreadPointer(plus)) => {
                Value::ThreadAddress(Origin::Slot { slot, plus })
            }
            (Value::ThreadPointer(plus), Value::DescriptorOffset(pair))
            | (Value::DescriptorOffset(pair), Value::ThreadPointer(plus)) => {
                Value::ThreadAddress(Origin::Descriptor { pair, plus })
            }
            (Value::Number(number), other) | (other, Value::Number(number)) => other.add(number),
            _ => Value::Unknown,
        }
    }

    /// Returns the value loaded from memory at this value plus `distance`: eight bytes if
    /// `is_wide`, else four.
    pub(super) fn load(self, distance: i64, is_wide: bool) -> Value {
        match self.add(distance) {
            Value::ThreadPointer(offset) => Value::ThreadWord(Origin::Static { offset }),
            Value::ThreadAddress(origin) => Value::ThreadWord(origin),
            Value::Address(location) if is_wide => Value::Word64(location),
            Value::Address(location) => Value::Word32(location),
            _ => Value::Unknown,
        }
    }

    /// Returns the origin if this value, as the argument of a call, is a key or the address of one.
    pub(super) fn key(self, created: Option<Location>, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
        let key = match self {
            Value::Word32(number) => return Some(Origin::Key { number, created }),
            Value::Address(key) if key.pointer.is_some() || is_key(key.plus) => key,
            // Code that isn't position-independent: the address is a number.
            Value::Number(key) => Location::at(u64::try_from(key).ok().filter(|&key| is_key(key))?),
            _ => return None,
        };
        // Py_tss_t {is_initialized, key}
        Some(Origin::Key { number: key.add(4), created: Some(key) })
    }

    /// Returns the result of a call with this value as its argument: the address of a thread-local
    /// variable, if the callee is `__tls_get_addr`.
    pub(super) fn called(self) -> Value {
        match self {
            Value::Address(Location { pointer: None, plus: pair }) => {
                Value::ThreadAddress(Origin::Module { pair, plus: 0 })
            }
            _ => Value::Unknown,
        }
    }
}

fn displace(origin: Origin, distance: i64) -> Origin {
    let add = |plus: i64| plus.wrapping_add(distance);
    match origin {
        Origin::Static { offset } => Origin::Static { offset: add(offset) },
        Origin::Slot { slot, plus } => Origin::Slot { slot, plus: add(plus) },
        Origin::Module { pair, plus } => Origin::Module { pair, plus: add(plus) },
        Origin::Descriptor { pair, plus } => Origin::Descriptor { pair, plus: add(plus) },
        key @ Origin::Key { .. } => key,
    }
}
