//! What is in a register.

use super::{Origin, Place};

/// What is in a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    #[default]
    Unknown,
    Number(i64),
    Address(Place),
    /// The eight bytes at a place.
    Word(Place),
    /// The four bytes at a place.
    Half(Place),
    /// The thread pointer and a number.
    Thread(i64),
    /// The distance from the thread pointer that a descriptor stands for.
    Described(u64),
    /// The address of a word of the running thread.
    OfThread(Origin),
    /// A word of the running thread.
    ThreadWord(Origin),
}

impl Value {
    /// What it is when `distance` is added to it.
    pub(super) fn add(self, distance: i64) -> Value {
        match self {
            Value::Number(number) => Value::Number(number.wrapping_add(distance)),
            Value::Address(place) => Value::Address(place.add(distance)),
            // An address of the global offset table's.
            Value::Word(Place { pointer: None, plus }) => {
                Value::Address(Place { pointer: Some(plus), plus: 0 }.add(distance))
            }
            Value::Thread(offset) => Value::Thread(offset.wrapping_add(distance)),
            Value::OfThread(origin) => Value::OfThread(further(origin, distance)),
            _ => Value::Unknown,
        }
    }

    /// What the sum of two is.
    pub(super) fn plus(self, other: Value) -> Value {
        match (self, other) {
            (Value::Thread(plus), Value::Word(Place { pointer: None, plus: slot }))
            | (Value::Word(Place { pointer: None, plus: slot }), Value::Thread(plus)) => {
                Value::OfThread(Origin::Slot { slot, plus })
            }
            (Value::Thread(plus), Value::Described(pair)) | (Value::Described(pair), Value::Thread(plus)) => {
                Value::OfThread(Origin::Descriptor { pair, plus })
            }
            (Value::Number(number), other) | (other, Value::Number(number)) => other.add(number),
            _ => Value::Unknown,
        }
    }

    /// What is in memory at `distance` behind the address that it is.
    pub(super) fn load(self, distance: i64, is_wide: bool) -> Value {
        match self.add(distance) {
            Value::Thread(offset) => Value::ThreadWord(Origin::Static { offset }),
            Value::OfThread(origin) => Value::ThreadWord(origin),
            Value::Address(place) if is_wide => Value::Word(place),
            Value::Address(place) => Value::Half(place),
            _ => Value::Unknown,
        }
    }

    /// The key that it is, or the address of, as the argument of a function.
    pub(super) fn key(self, made: Option<Place>, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
        let key = match self {
            Value::Half(number) => return Some(Origin::Key { number, made }),
            Value::Address(key) if key.pointer.is_some() || is_key(key.plus) => key,
            // Not position-independent: its address is a number.
            Value::Number(key) => Place::at(u64::try_from(key).ok().filter(|&key| is_key(key))?),
            _ => return None,
        };
        // {whether it is made, its number}
        Some(Origin::Key { number: key.add(4), made: Some(key) })
    }

    /// What a function returns that is called with it: perhaps the address of a thread-local variable.
    pub(super) fn called(self) -> Value {
        match self {
            Value::Address(Place { pointer: None, plus: pair }) => {
                Value::OfThread(Origin::Module { pair, plus: 0 })
            }
            _ => Value::Unknown,
        }
    }
}

fn further(origin: Origin, distance: i64) -> Origin {
    let add = |plus: i64| plus.wrapping_add(distance);
    match origin {
        Origin::Static { offset } => Origin::Static { offset: add(offset) },
        Origin::Slot { slot, plus } => Origin::Slot { slot, plus: add(plus) },
        Origin::Module { pair, plus } => Origin::Module { pair, plus: add(plus) },
        Origin::Descriptor { pair, plus } => Origin::Descriptor { pair, plus: add(plus) },
        key @ Origin::Key { .. } => key,
    }
}
