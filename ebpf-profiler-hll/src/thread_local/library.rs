//! The numbers of a C library.
//!
//! glibc describes itself to debuggers, in variables of three numbers: `{bits of an element, elements, offset}`. They
//! are in libc.so.6 from 2.34 on, before in libpthread, there among the symbols that aren't exported; strip leaves
//! them, or no debugger would find a thread. musl's place of the keys is read from the code of its
//! `pthread_getspecific`; all else of it is the same everywhere.
//!
//! What glibc calls a thread begins at the thread pointer on x86_64, and ends there on arm64.

use ebpf_profiler_core::elf::{Arch, Elf, Exports};
use ebpf_profiler_core::language::{LoadedFile, Reason, Target};

use super::MAX_OFFSET;
use crate::code;

/// The numbers of a C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
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
        /// From the thread pointer to the address of its vector of modules.
        vector: i64,
    },
}

/// What glibc says of itself on x86_64, the same in 2.31 and in 2.36: for one that was stripped of it.
const GLIBC_X86_64: Library =
    Library::Glibc { specific: 0x510, key_size: 16, value: 8, vector: 8, element: 16, pointer: 0 };

impl Library {
    /// Finds the C library among the files of a process.
    ///
    /// # Errors
    ///
    /// [`Reason::Implausible`] where there is none.
    pub(super) fn of(target: &Target<'_>) -> Result<Library, Reason> {
        // Those that are called so first: a process has hundreds of files.
        let likely = |file: &&LoadedFile| {
            let name = file.name();
            ["libc.", "libc-", "libpthread", "ld-musl"].iter().any(|start| name.starts_with(start))
        };
        let files = target.files();
        let mut is_glibc = false;
        let mut ask = |file: &LoadedFile| {
            let elf = file.open().ok()?;
            let exports = elf.exports();
            is_glibc |= elf.arch() == Arch::X86_64
                && exports.is_some_and(|exports| exports.get("gnu_get_libc_version").is_some());
            glibc(&elf, exports.as_ref()).or_else(|| musl(&elf, &exports?))
        };
        let found = files.iter().filter(likely).find_map(&mut ask);
        let found = found.or_else(|| files.iter().filter(|file| !likely(file)).find_map(&mut ask));
        // It may be on its way: what a process has mapped is heard of a while after its memory has changed.
        found.or(is_glibc.then_some(GLIBC_X86_64)).ok_or(Reason::Implausible)
    }
}

fn glibc(elf: &Elf, exports: Option<&Exports<'_>>) -> Option<Library> {
    let mut places =
        NAMES.map(|name| exports.and_then(|exports| exports.get(name)).map(|symbol| symbol.address));
    if places[0].is_none() && elf.has_symbol(&NAMES[..1]) {
        elf.for_each_symbol(|name, symbol| {
            if let Some(index) = NAMES.iter().position(|wanted| wanted.as_bytes() == name) {
                places[index] = Some(symbol.address);
            }
        });
    }
    let [specific, block, value, vector, element, pointer, thread] = places;
    let before = match elf.arch() {
        Arch::X86_64 => 0,
        // One number, not three.
        _ => number(elf, thread)?.into(),
    };
    let size = |place| Some(i64::from(described(elf, place)?[0] / 8));
    let offset = |place| Some(i64::from(described(elf, place)?[2]));
    Some(Library::Glibc {
        specific: offset(specific)? - before,
        key_size: size(block)?,
        value: offset(value)?,
        vector: offset(vector)? - before,
        element: size(element)?,
        pointer: offset(pointer)?,
    })
}

/// What of glibc's description is of use.
const NAMES: [&str; 7] = [
    "_thread_db_pthread_specific",
    "_thread_db_pthread_key_data_level2_data",
    "_thread_db_pthread_key_data_data",
    "_thread_db_pthread_dtvp",
    "_thread_db_dtv_dtv",
    "_thread_db_dtv_t_pointer_val",
    "_thread_db_sizeof_pthread",
];

/// One variable of the description.
fn described(elf: &Elf, at: Option<u64>) -> Option<[u32; 3]> {
    let mut bytes = [0; 12];
    elf.read(at?, &mut bytes).ok()?;
    Some(std::array::from_fn(|index| bytes[4 * index..].first_chunk().copied().map_or(0, u32::from_le_bytes)))
}

fn number(elf: &Elf, at: Option<u64>) -> Option<u32> {
    let mut bytes = [0; 4];
    elf.read(at?, &mut bytes).ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// musl is its own loader, and exports where that begins.
fn musl(elf: &Elf, exports: &Exports<'_>) -> Option<Library> {
    exports.get("_dlstart")?;
    let keys = code::field(elf, exports.get("pthread_getspecific")?.address)?;
    // Its thread, too, ends there on arm64; the vector is the last of it.
    let vector = if elf.arch() == Arch::X86_64 { 8 } else { -8 };
    (keys.abs() < MAX_OFFSET).then_some(Library::Musl { keys, vector })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs gcc for arm64, and its C library"]
    fn glibc_of_arm64() {
        let file = std::fs::File::open("/usr/aarch64-linux-gnu/lib/libc.so.6").unwrap();
        let elf = Elf::open(file).unwrap();
        // Its pthread_getspecific, 2.36: sub x0, x0, #0x440; ldr x2, [x0, #16]; add …, lsl #4; ldr x0, [x2, #8]
        let Some(Library::Glibc { specific, key_size, value, vector, element, pointer }) =
            glibc(&elf, elf.exports().as_ref())
        else {
            panic!("not described");
        };
        assert_eq!((key_size, value, vector, element, pointer), (16, 8, 0, 16, 0));
        assert!((-4096..0).contains(&specific), "{specific}");
    }
}
