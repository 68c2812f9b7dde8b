//! Build ids of the files of mappings.
//!
//! | id | source |
//! | --- | --- |
//! | GNU | the linker's note, from the module |
//! | Go | the note of Go's linker |
//! | htlhash | hash of head, tail and length of the file; every file has one |
//!
//! The last two are read from the file once and cached while the file's opener exists.

mod sha256;

use std::io;
use std::sync::{Arc, Weak};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::process::{Module, Opener};
use hashbrown::HashMap;

use sha256::sha256;

/// The encoded build ids of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildIds {
    /// Hexadecimal; empty if the file has none.
    pub(crate) gnu: String,
    /// Text; empty if the file has none.
    pub(crate) go: String,
    /// Hexadecimal, never empty.
    pub(crate) htlhash: String,
}

impl BuildIds {
    /// Returns the ids of a mapping whose file cannot be read: its htlhash is computed from the GNU
    /// build id, or from `name` if there is none.
    ///
    /// Some consumers reject a whole request for a mapping without htlhash.
    pub(crate) fn without_file(gnu: &[u8], name: &str) -> BuildIds {
        let gnu = hex(gnu);
        let contents = if gnu.is_empty() { name } else { &gnu };
        BuildIds { htlhash: hex(&sha256(contents.as_bytes())[..16]), go: String::new(), gnu }
    }

    fn read(module: &Module, file: Box<dyn ReadAt>) -> io::Result<BuildIds> {
        let htlhash = htlhash(&*file)?;
        let go = Elf::open(File(file)).ok().and_then(|elf| elf.note(b"Go\0\0", GO_BUILD_ID));
        let go = go.and_then(|id| String::from_utf8(id).ok()).unwrap_or_default();
        Ok(BuildIds { gnu: hex(&module.build_id), go, htlhash })
    }
}

/// The type of the note with Go's build id.
const GO_BUILD_ID: u32 = 4;

/// A cache of build ids by file.
#[derive(Default)]
pub(crate) struct Identities {
    /// By the address of the opener, which the weak pointer keeps from being reused.
    known: HashMap<usize, (Weak<dyn Opener>, Arc<BuildIds>)>,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities").field("known", &self.known.len()).finish()
    }
}

impl Identities {
    /// Returns the build ids of a module's file.
    pub(crate) fn of(&mut self, module: &Module) -> Arc<BuildIds> {
        let Some(opener) = &module.opener else {
            return Arc::new(BuildIds::without_file(&module.build_id, &module.path));
        };
        let key = Arc::as_ptr(opener) as *const () as usize;
        if let Some((_, ids)) = self.known.get(&key) {
            return ids.clone();
        }
        let ids = opener.open().and_then(|file| BuildIds::read(module, file));
        let ids = ids.unwrap_or_else(|_| BuildIds::without_file(&module.build_id, &module.path));
        self.insert(key, opener, Arc::new(ids))
    }

    fn insert(&mut self, key: usize, opener: &Arc<dyn Opener>, ids: Arc<BuildIds>) -> Arc<BuildIds> {
        if self.known.len() >= MAX_CACHED {
            self.known.retain(|_, (opener, _)| opener.strong_count() > 0);
        }
        if self.known.len() < MAX_CACHED {
            self.known.insert(key, (Arc::downgrade(opener), ids.clone()));
        }
        ids
    }
}

/// Maximum number of cached files, of some 300 bytes each.
const MAX_CACHED: usize = 1 << 14;

/// Size in bytes of the head and the tail that are hashed.
const HEAD_AND_TAIL: u64 = 4096;

/// Returns the hash of a file's head, tail and length in hexadecimal, the build id that every file
/// has.
///
/// ```text
/// htlhash = first 16 bytes of SHA-256(first 4096 bytes ++ last 4096 bytes ++ length as 8 bytes, big endian)
/// ```
///
/// Head and tail overlap in a file of less than 8,192 bytes; one of less than 4,096 is hashed
/// twice.
///
/// # Errors
///
/// Fails if the file cannot be read.
///
/// # Examples
///
/// ```
/// use std::io::Cursor;
///
/// let hash = ebpf_profiler_otlp::htlhash(&Cursor::new("hello"))?;
/// assert_eq!(hash, "b2c90e0c61910efa8c079b70039694de");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn htlhash(file: &dyn ReadAt) -> io::Result<String> {
    let len = file.size()?;
    let part = len.min(HEAD_AND_TAIL);
    let mut content = vec![0; 2 * part as usize];
    let (head, tail) = content.split_at_mut(part as usize);
    file.read_at(0, head)?;
    file.read_at(len - part, tail)?;
    content.extend_from_slice(&len.to_be_bytes());
    Ok(hex(&sha256(&content)[..16]))
}

/// Returns lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// An opened file that [`Elf`] owns.
struct File(Box<dyn ReadAt>);

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn module(opener: impl Opener + 'static) -> Module {
        let mut module = Module::new("/usr/bin/some");
        module.build_id = [0xab, 0xcd].into();
        module.opener = Some(Arc::new(opener));
        module
    }

    #[test]
    fn file_is_read_once() {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let module = module(|| {
            OPENED.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Cursor::new(vec![1u8; 10_000])) as Box<dyn ReadAt>)
        });
        let mut identities = Identities::default();
        let ids = identities.of(&module);
        assert_eq!(identities.of(&module), ids);
        assert_eq!((OPENED.load(Ordering::Relaxed), &*ids.gnu, ids.htlhash.len()), (1, "abcd", 32));
    }

    #[test]
    fn missing_file_has_an_htlhash() {
        let module = module(|| Err(io::ErrorKind::NotFound.into()));
        let ids = Identities::default().of(&module);
        assert_eq!(*ids, BuildIds::without_file(&[0xab, 0xcd], "whatever"));
    }

    #[test]
    fn this_program_has_no_go_build_id() {
        let module = module(|| Ok(Box::new(std::fs::File::open("/proc/self/exe")?) as Box<dyn ReadAt>));
        assert_eq!(Identities::default().of(&module).go, "");
    }

    #[test]
    fn head_and_tail_overlap_in_small_files() {
        let twice = [&[7; 100][..], &[7; 100], &100u64.to_be_bytes()].concat();
        assert_eq!(htlhash(&Cursor::new(vec![7u8; 100])).unwrap(), hex(&sha256(&twice)[..16]));
    }
}
