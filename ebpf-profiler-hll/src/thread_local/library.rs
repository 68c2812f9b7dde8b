//! Offsets of thread-local data in a C library.
//!
//! glibc describes itself to debuggers, in variables of three numbers: `{bits of an element,
//! elements, offset}`. They are in libc.so.6 from 2.34 on, before that in libpthread, there among
//! the symbols that aren't exported; strip keeps them, because debuggers need them to find threads.
//! The offset of musl's keys is read from the code of its `pthread_getspecific`; the rest of its
//! layout is the same in all versions.
//!
//! glibc's `struct pthread` begins at the thread pointer on x86_64, and ends there on arm64.

use ebpf_profiler_core::elf::{Arch, Elf, Exports};
use ebpf_profiler_core::language::{LoadedFile, Reason, Target};

use super::MAX_OFFSET;
use crate::accessor;

/// Offsets of thread-local data in a C library, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    Glibc {
        /// From the thread pointer to the blocks of keys.
        specific: i64,
        /// Size of a key in a block, and the offset of its value in it.
        key_size: i64,
        value: i64,
        /// From the thread pointer to the pointer to the module vector (DTV).
        vector: i64,
        /// Size of a module's element in the DTV, and the offset of the pointer to its storage in
        /// it.
        element: i64,
        pointer: i64,
    },
    Musl {
        /// From the thread pointer to the pointer to the values of keys.
        keys: i64,
        /// From the thread pointer to the pointer to the module vector (DTV).
        vector: i64,
    },
}

/// The description of glibc on x86_64, identical in 2.31 and 2.36: fallback for libraries stripped
/// of theirs.
const GLIBC_X86_64: Library =
    Library::Glibc { specific: 0x510, key_size: 16, value: 8, vector: 8, element: 16, pointer: 0 };

impl Library {
    /// Finds the C library among the files of a process.
    ///
    /// # Errors
    ///
    /// [`Reason::Implausible`] if none of the files is a known C library.
    pub(super) fn find(target: &Target<'_>) -> Result<Library, Reason> {
        // Files with a likely name first: a process may have hundreds of files.
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
        // Not found may be temporary: mappings are reported with a delay after memory has changed.
        found.or(is_glibc.then_some(GLIBC_X86_64)).ok_or(Reason::Implausible)
    }
}

fn glibc(elf: &Elf, exports: Option<&Exports<'_>>) -> Option<Library> {
    let mut places =
        NAMES.map(|name| exports.and_then(|exports| exports.get(name)).map(|symbol| symbol.address));
    if places[0].is_none() && elf.has_symbol(&NAMES[..1]) {
        elf.for_each_symbol_with(&NAMES.map(str::as_bytes), |name, symbol| {
            if let Some(index) = NAMES.iter().position(|wanted| wanted.as_bytes() == name) {
                places[index] = Some(symbol.address);
            }
        });
    }
    let [specific, block, value, vector, element, pointer, thread] = places;
    let thread_size = match elf.arch() {
        Arch::X86_64 => 0,
        // A variable of one number, not three.
        _ => number(elf, thread)?.into(),
    };
    let size = |place| Some(i64::from(described(elf, place)?[0] / 8));
    let offset = |place| Some(i64::from(described(elf, place)?[2]));
    Some(Library::Glibc {
        specific: offset(specific)? - thread_size,
        key_size: size(block)?,
        value: offset(value)?,
        vector: offset(vector)? - thread_size,
        element: size(element)?,
        pointer: offset(pointer)?,
    })
}

/// The variables of glibc's description that are used.
const NAMES: [&str; 7] = [
    "_thread_db_pthread_specific",
    "_thread_db_pthread_key_data_level2_data",
    "_thread_db_pthread_key_data_data",
    "_thread_db_pthread_dtvp",
    "_thread_db_dtv_dtv",
    "_thread_db_dtv_t_pointer_val",
    "_thread_db_sizeof_pthread",
];

/// Reads one variable of the description.
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

/// Returns musl's offsets. musl is its own dynamic loader, and exports its entry point `_dlstart`.
fn musl(elf: &Elf, exports: &Exports<'_>) -> Option<Library> {
    exports.get("_dlstart")?;
    let keys = accessor::field(elf, exports.get("pthread_getspecific")?.address)?;
    // musl's `struct pthread`, too, ends at the thread pointer on arm64; the DTV pointer is its last
    // field.
    let vector = if elf.arch() == Arch::X86_64 { 8 } else { -8 };
    (keys.abs() < MAX_OFFSET).then_some(Library::Musl { keys, vector })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs gcc for arm64, and its C library"]
    fn reads_description_of_arm64_glibc() {
        test_needs::programs!("aarch64-linux-gnu-gcc");
        let file = std::fs::File::open("/usr/aarch64-linux-gnu/lib/libc.so.6").unwrap();
        let elf = Elf::open(file).unwrap();
        // Its pthread_getspecific, 2.36: sub x0, x0, #0x440; ldr x2, [x0, #16]; add …, lsl #4; ldr x0, [x2,
        // #8]
        let Some(Library::Glibc { specific, key_size, value, vector, element, pointer }) =
            glibc(&elf, elf.exports().as_ref())
        else {
            panic!("no description found");
        };
        assert_eq!((key_size, value, vector, element, pointer), (16, 8, 0, 16, 0));
        assert!((-4096..0).contains(&specific), "{specific}");
    }
}
