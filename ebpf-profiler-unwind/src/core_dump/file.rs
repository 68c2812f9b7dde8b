//! What became of a file that held code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ElfError, ReadAt as _};

use super::image::Image;
use crate::table::Table;

/// A file that held code of the process.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Its path as the process saw it; `[vdso]` for the kernel's own library.
    pub path: Box<str>,
    /// The build id in the dump; empty where there is none.
    pub build_id: Box<[u8]>,
    /// Where it was read from.
    pub origin: Origin,
    /// What was wrong with it, or with files that claimed to be it.
    pub problems: Vec<Problem>,
    /// What the dump holds of it, and the headers of that.
    image: Image,
    in_dump: Option<Arc<Elf>>,
    elf: Option<Arc<Elf>>,
    table: Option<Arc<Table>>,
}

/// Where a file was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// From this file, which has the build id that is in the dump, or begins with the same bytes where there is none.
    Path(PathBuf),
    /// From this file, although the dump doesn't hold what would tell whether it is the same.
    Unproved(PathBuf),
    /// From the memory in the dump: hardly any names, but unwind data.
    Memory,
    /// From nowhere: its frames are found through frame pointers, if they are.
    Nowhere,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A file of that name is another one: its build id, or its first bytes, are not those in the dump.
    Different(PathBuf),
    /// It can't be read.
    Unreadable(PathBuf, io::ErrorKind),
    /// It is no ELF file that can be used.
    Elf(PathBuf, ElfError),
    /// The dump doesn't hold its unwind data either.
    NotInDump(ElfError),
}

/// How many bytes tell one file from another where there is no build id: the headers, and what is behind them.
const HEAD: u64 = 1024;

impl File {
    pub(super) fn new(path: &str, image: Image) -> File {
        let in_dump = Elf::open(image.clone()).ok().map(Arc::new);
        let build_id = in_dump.as_ref().and_then(|elf| elf.build_id()).unwrap_or_default().into();
        let (origin, problems) = (Origin::Nowhere, Vec::new());
        File { path: path.into(), build_id, origin, problems, image, in_dump, elf: None, table: None }
    }

    /// Its unwind table; none where nothing describes its code.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_deref()
    }

    /// What the dump holds of it.
    pub fn image(&self) -> &Image {
        &self.image
    }

    pub(super) fn elf(&self) -> Option<&Arc<Elf>> {
        self.elf.as_ref()
    }

    /// Returns the load bias if byte `offset` is mapped at `start`.
    pub(super) fn load_bias(&self, start: u64, offset: u64) -> Option<u64> {
        Some(start.wrapping_sub(self.elf.as_ref()?.code_address(offset)?))
    }

    /// Takes the file at `path` for it, unless it is another one.
    pub(super) fn accept(&mut self, path: &Path, elf: Arc<Elf>, table: Arc<Table>) -> bool {
        self.origin = match self.is_same(&elf) {
            Some(true) => Origin::Path(path.into()),
            None => Origin::Unproved(path.into()),
            Some(false) => {
                self.problems.push(Problem::Different(path.into()));
                return false;
            }
        };
        (self.elf, self.table) = (Some(elf), Some(table));
        true
    }

    /// Whether a file is the one that was mapped, if that can be told.
    fn is_same(&self, elf: &Elf) -> Option<bool> {
        if !self.build_id.is_empty() {
            return Some(elf.build_id().as_deref() == Some(&*self.build_id));
        }
        let size = elf.size().min(HEAD);
        let mut ours = vec![0; size as usize];
        self.image.fill(0, &mut ours)?;
        Some(elf.bytes(0, size).ok()? == ours)
    }

    /// How many bytes the dump says that it holds of it.
    pub(super) fn image_size(&self) -> u64 {
        self.image.size().unwrap_or(u64::MAX)
    }

    /// Builds the table from what the dump holds.
    pub(super) fn read_image(&mut self) {
        let Some(elf) = &self.in_dump else { return };
        self.elf = Some(elf.clone());
        match Table::of(elf) {
            Ok(table) => {
                self.table = Some(Arc::new(table));
                self.origin = Origin::Memory;
            }
            Err(error) => self.problems.push(Problem::NotInDump(error)),
        }
    }
}
