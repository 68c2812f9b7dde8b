//! From a thread to what it calls its own.
//!
//! ```text
//!   pthread key k, glibc      [[tp + specific + 8 * (k / 32)] + 16 * (k % 32) + 8]
//!   pthread key k, musl       [[tp + keys] + 8 * k]
//!   static                    [tp + offset]
//!   module m, offset o        [[[tp + vector] + size * m] + o]    size: 16 in glibc, 8 in musl
//! ```
//!
//! The numbers are the [C library](library)'s.

mod library;

use ebpf_profiler_core::language::{Reason, Target};
use ebpf_programs::abi::interpreter::{HOPS, Path, from};

use crate::code::{Origin, Place};
use library::Library;

/// More keys than a process can have.
const MAX_KEY: u32 = 4096;

/// More modules with thread-local storage than a process has.
const MAX_MODULE: u64 = 1 << 16;

/// More than thread-local storage takes.
const MAX_OFFSET: i64 = 1 << 24;

/// Keys in one block of glibc's.
const BLOCK: u32 = 32;

/// The way from a thread to the word of `origin`, and from there over `further`.
///
/// # Errors
///
/// [`Reason::NotReady`] where it isn't set up yet, [`Reason::Implausible`] where no file is a C library that is known.
pub(crate) fn path(origin: Origin, target: &Target<'_>, further: &[i64]) -> Result<Path, Reason> {
    let hops = match origin {
        Origin::Key { number, made } => of_key(key(number, made, target)?, target)?,
        Origin::Static { offset } => vec![plausible(offset)?],
        Origin::Slot { slot, plus } => vec![plausible((target.word(slot)? as i64).wrapping_add(plus))?],
        Origin::Module { pair, plus } => {
            let pair = target.address(pair);
            of_module(
                read(target, pair)?,
                (read(target, pair.wrapping_add(8))? as i64).wrapping_add(plus),
                target,
            )?
        }
        Origin::Descriptor { pair, plus } => of_descriptor(target.word(pair.wrapping_add(8))?, plus, target)?,
    };
    join(&hops, further).ok_or(Reason::Unsupported)
}

/// The number of a key.
fn key(number: Place, made: Option<Place>, target: &Target<'_>) -> Result<u32, Reason> {
    if let Some(made) = made
        && target.memory().u32(address(made, target)?)? == 0
    {
        return Err(Reason::NotReady);
    }
    let key = target.memory().u32(address(number, target)?)?;
    match key {
        // As it is before it is made.
        u32::MAX => Err(Reason::NotReady),
        MAX_KEY.. => Err(Reason::Implausible),
        key => Ok(key),
    }
}

/// The way to the entry in use, if it is this thread's, or else to that of `origin`, and from there over `further`; without
/// an origin the entry is looked for among all.
///
/// The address of the entry in use is at `head`; entries hold the thread pointer at offset `thread`.
///
/// # Errors
///
/// As of [`path`].
pub(crate) fn current(
    head: u64,
    thread: u32,
    origin: Option<Origin>,
    target: &Target<'_>,
    further: &[i64],
) -> Result<Path, Reason> {
    let otherwise = origin.map(|origin| path(origin, target, &[])).transpose()?.unwrap_or_default();
    let hops = [&[head as i64], &otherwise.offsets[..otherwise.hops as usize]].concat();
    let path = join(&hops, further).ok_or(Reason::Unsupported)?;
    Ok(Path { from: from::CURRENT, next: otherwise.hops, thread, ..path })
}

pub(crate) fn address(place: Place, target: &Target<'_>) -> Result<u64, Reason> {
    match place.pointer {
        None => Ok(target.address(place.plus)),
        Some(pointer) => match target.word(pointer)? {
            // The loader hasn't been there yet.
            0 => Err(Reason::NotReady),
            address => Ok(address.wrapping_add(place.plus)),
        },
    }
}

fn of_key(key: u32, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    Ok(match Library::of(target)? {
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
    let (vector, size, pointer) = match Library::of(target)? {
        Library::Glibc { vector, element, pointer, .. } => (vector, element, pointer),
        Library::Musl { vector, .. } => (vector, 8, 0),
    };
    Ok(vec![vector, module * size + pointer, plausible(offset)?])
}

/// A descriptor's argument is the distance from the thread pointer, or leads to a module and an offset.
fn of_descriptor(argument: u64, plus: i64, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    let distance = argument as i64;
    if distance.abs() < MAX_OFFSET {
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

fn join(hops: &[i64], further: &[i64]) -> Option<Path> {
    let mut offsets = [0; HOPS];
    let all = hops.iter().chain(further);
    let count = hops.len() + further.len();
    if count > HOPS {
        return None;
    }
    offsets.iter_mut().zip(all).for_each(|(to, &hop)| *to = hop);
    Some(Path { from: from::THREAD, hops: count as u32, offsets, ..Path::default() })
}

#[cfg(test)]
mod tests;
