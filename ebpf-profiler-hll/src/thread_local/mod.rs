//! From a thread to what it calls its own.
//!
//! ```text
//!   pthread key k, glibc      [[tp + specific + 8 * (k / 32)] + 16 * (k % 32) + 8]
//!   pthread key k, musl       [[tp + keys] + 8 * k]
//!   static                    [tp + offset]
//!   module m, offset o        [[[tp + 8] + size * m] + o]         size: 16 in glibc, 8 in musl
//! ```
//!
//! glibc describes its numbers to debuggers, in variables that its library exports; musl's place of the keys is read
//! from the code of its `pthread_getspecific`.

use ebpf_profiler_core::elf::{Elf, Exports};
use ebpf_profiler_core::language::{LoadedFile, Reason, Target};
use ebpf_programs::abi::interpreter::{HOPS, Path, from};

use crate::code::{self, Origin, Place};

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
/// [`Reason::NotReady`] where it isn't set up yet, [`Reason::Unsupported`] where the C library isn't known.
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

/// The way from a list of threads to the entry of this one, and from there over `further`.
///
/// The list begins at the address in `head`; entries hold the next one's address and the thread pointer at these
/// offsets.
pub(crate) fn listed(head: u64, next: u32, thread: u32, further: &[i64]) -> Option<Path> {
    let path = join(&[head as i64], further)?;
    Some(Path { from: from::LIST, next, thread, ..path })
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
    Ok(match library(target)? {
        Library::Glibc { specific, key_size, value, .. } => {
            let block = i64::from(key / BLOCK) * 8;
            vec![specific + block, i64::from(key % BLOCK) * key_size + value]
        }
        Library::Musl { keys } => vec![keys, i64::from(key) * 8],
    })
}

fn of_module(module: u64, offset: i64, target: &Target<'_>) -> Result<Vec<i64>, Reason> {
    let module = match module {
        0 => return Err(Reason::NotReady),
        MAX_MODULE.. => return Err(Reason::Implausible),
        module => module as i64,
    };
    let (vector, size, pointer) = match library(target)? {
        Library::Glibc { vector, element, pointer, .. } => (vector, element, pointer),
        Library::Musl { .. } => (8, 8, 0),
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

/// The numbers of a C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Glibc {
        /// From the thread pointer to the blocks of its keys.
        specific: i64,
        /// Bytes a key takes in a block, and where its value is in them.
        key_size: i64,
        value: i64,
        /// From the thread pointer to the address of its vector of modules.
        vector: i64,
        /// Bytes a module takes in it, and where the address of its storage is in them.
        element: i64,
        pointer: i64,
    },
    Musl {
        /// From the thread pointer to the address of its values.
        keys: i64,
    },
}

/// Finds the C library among the files of a process.
fn library(target: &Target<'_>) -> Result<Library, Reason> {
    // Those that are called so first: a process has hundreds of files.
    let likely = |file: &&LoadedFile| {
        let name = file.name();
        ["libc.", "libc-", "libpthread", "ld-musl"].iter().any(|start| name.starts_with(start))
    };
    let files = target.files();
    let found = files.iter().filter(likely).find_map(of_file);
    found.or_else(|| files.iter().filter(|file| !likely(file)).find_map(of_file)).ok_or(Reason::Unsupported)
}

fn of_file(file: &LoadedFile) -> Option<Library> {
    let elf = file.open().ok()?;
    let exports = elf.exports()?;
    glibc(&elf, &exports).or_else(|| musl(&elf, &exports))
}

fn glibc(elf: &Elf, exports: &Exports<'_>) -> Option<Library> {
    // {bits of an element, elements, offset}
    let field = |name: &str| -> Option<[u32; 3]> {
        let at = exports.get(name)?.address;
        let mut bytes = [0; 12];
        elf.read(at, &mut bytes).ok()?;
        Some(std::array::from_fn(|index| {
            bytes[4 * index..].first_chunk().copied().map_or(0, u32::from_le_bytes)
        }))
    };
    let offset = |name: &str| field(name).map(|[_, _, offset]| i64::from(offset));
    let specific = offset("_thread_db_pthread_specific")?;
    let size = field("_thread_db_pthread_key_data_level2_data")?;
    Some(Library::Glibc {
        specific,
        key_size: i64::from(size[0] / 8),
        value: offset("_thread_db_pthread_key_data_data")?,
        vector: offset("_thread_db_pthread_dtvp")?,
        element: i64::from(field("_thread_db_dtv_dtv")?[0] / 8),
        pointer: offset("_thread_db_dtv_t_pointer_val")?,
    })
}

/// musl is its own loader, and exports where that begins.
fn musl(elf: &Elf, exports: &Exports<'_>) -> Option<Library> {
    exports.get("_dlstart")?;
    let keys = code::field(elf, exports.get("pthread_getspecific")?.address)?;
    (0..MAX_OFFSET).contains(&keys).then_some(Library::Musl { keys })
}

#[cfg(test)]
mod tests;
