//! Paths from a thread to its thread-local data.
//!
//! ```text
//!   pthread key k, glibc      [[tp + specific + 8 * (k / 32)] + 16 * (k % 32) + 8]
//!   pthread key k, musl       [[tp + keys] + 8 * k]
//!   static                    [tp + offset]
//!   module m, offset o        [[[tp + vector] + size * m] + o]    size: 16 in glibc, 8 in musl
//! ```
//!
//! The offsets are those of the [C library](library).

mod library;

use ebpf_profiler_core::language::{Reason, Target};

use crate::accessor::{Location, Origin};
use library::Library;

/// Upper bound of plausible key numbers: no C library has as many keys.
const MAX_KEY: u32 = 4096;

/// Upper bound of plausible module numbers.
const MAX_MODULE: u64 = 1 << 16;

/// Upper bound of plausible distances in thread-local storage, in bytes.
const MAX_OFFSET: i64 = 1 << 24;

/// Number of keys in one block of glibc's.
const BLOCK: u32 = 32;

/// Returns the path from the thread pointer to the word of `origin`, as offsets before each
/// dereference.
///
/// # Errors
///
/// [`Reason::NotReady`] if the word isn't set up yet, [`Reason::Implausible`] if no file is a known
/// C library.
pub(crate) fn path(origin: Origin, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    match origin {
        Origin::Key { number, created } => of_key(key(number, created, target)?, target),
        Origin::Static { offset } => Ok(vec![plausible(offset)?]),
        Origin::Slot { slot, plus } => match target.word(slot)? {
            // Not relocated yet: at this distance is no variable.
            0 => Err(Reason::NotReady),
            distance => Ok(vec![plausible((distance as i64).wrapping_add(plus))?]),
        },
        Origin::Module { pair, plus } => {
            let pair = target.address(pair);
            of_module(
                read(target, pair)?,
                (read(target, pair.wrapping_add(8))? as i64).wrapping_add(plus),
                target,
            )
        }
        Origin::Descriptor { pair, plus } => of_descriptor(target.word(pair.wrapping_add(8))?, plus, target),
    }
}

/// Reads the number of a key.
fn key(number: Location, created: Option<Location>, target: &Target<'_>) -> Result<u32, Reason> {
    if let Some(created) = created
        && target.memory().u32(address(created, target)?)? == 0
    {
        return Err(Reason::NotReady);
    }
    let key = target.memory().u32(address(number, target)?)?;
    match key {
        // The initial value.
        u32::MAX => Err(Reason::NotReady),
        MAX_KEY.. => Err(Reason::Implausible),
        key => Ok(key),
    }
}

/// Returns the address in the process of a location.
///
/// # Errors
///
/// [`Reason::NotReady`] if its pointer is not relocated yet.
pub(crate) fn address(location: Location, target: &Target<'_>) -> Result<u64, Reason> {
    match location.pointer {
        None => Ok(target.address(location.plus)),
        Some(pointer) => match target.word(pointer)? {
            // Not relocated yet.
            0 => Err(Reason::NotReady),
            address => Ok(address.wrapping_add(location.plus)),
        },
    }
}

fn of_key(key: u32, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    Ok(match Library::find(target)? {
        Library::Glibc { specific, key_size, value, .. } => {
            let block = i64::from(key / BLOCK) * 8;
            vec![specific + block, i64::from(key % BLOCK) * key_size + value]
        }
        Library::Musl { keys, .. } => vec![keys, i64::from(key) * 8],
    })
}

fn of_module(module: u64, offset: i64, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    let module = match module {
        0 => return Err(Reason::NotReady),
        MAX_MODULE.. => return Err(Reason::Implausible),
        module => module as i64,
    };
    let (vector, size, pointer) = match Library::find(target)? {
        Library::Glibc { vector, element, pointer, .. } => (vector, element, pointer),
        Library::Musl { vector, .. } => (vector, 8, 0),
    };
    Ok(vec![vector, module * size + pointer, plausible(offset)?])
}

/// The argument of a TLS descriptor is the distance from the thread pointer, or the address of a
/// module and an offset.
fn of_descriptor(argument: u64, plus: i64, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    let distance = argument as i64;
    if distance.unsigned_abs() < MAX_OFFSET as u64 {
        return if distance == 0 { Err(Reason::NotReady) } else { Ok(vec![distance.wrapping_add(plus)]) };
    }
    let offset = (read(target, argument.wrapping_add(8))? as i64).wrapping_add(plus);
    of_module(read(target, argument)?, offset, target)
}

fn plausible(offset: i64) -> Result<i64, Reason> {
    if offset.unsigned_abs() < MAX_OFFSET as u64 { Ok(offset) } else { Err(Reason::Implausible) }
}

fn read(target: &Target<'_>, address: u64) -> Result<u64, Reason> {
    Ok(target.memory().u64(address)?)
}

#[cfg(test)]
mod tests;
