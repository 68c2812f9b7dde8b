//! Files with code of the process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ElfError, ReadAt as _};
use ebpf_profiler_core::process::LoadBias;

use super::image::Image;
use crate::table::Table;

/// A file that held code of the process.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Path as the process saw it; `[vdso]` for the vDSO.
    pub path: Box<str>,
    /// Build id in the dump; empty without one.
    pub build_id: Box<[u8]>,
    /// Source of its unwind data.
    pub origin: Origin,
    /// Problems with this file, and with others that were tried in its place.
    pub problems: Vec<Problem>,
    /// Its contents in the dump, and their headers.
    image: Image,
    in_dump: Option<Arc<Elf>>,
    elf: Option<Arc<Elf>>,
    table: Option<Arc<Table>>,
}

/// Source of a file's unwind data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// This file. Its build id equals that in the dump, or its first bytes without a build id.
    Path(PathBuf),
    /// This file. The dump does not contain enough to verify it.
    Unproved(PathBuf),
    /// The memory in the dump, which has unwind data but hardly any symbol names.
    Memory,
    /// No contents of the file were found, so it has no unwind table: frames in it are found by
    /// frame pointers, if at all.
    Nowhere,
}

/// A problem with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A candidate is another file: its build id, or its first bytes, differ from the dump.
    Different(PathBuf),
    /// A candidate cannot be read.
    Unreadable(PathBuf, io::ErrorKind),
    /// A candidate is no usable ELF file.
    Elf(PathBuf, ElfError),
    /// The dump does not contain its unwind data either.
    NotInDump(ElfError),
}

/// Number of bytes that are compared without a build id: the headers and the data behind them.
const HEAD: u64 = 1024;

impl File {
    pub(super) fn new(path: &str, image: Image) -> File {
        let in_dump = Elf::open(image.clone()).ok().map(Arc::new);
        let build_id = in_dump.as_ref().and_then(|elf| elf.build_id()).unwrap_or_default().into();
        let (origin, problems) = (Origin::Nowhere, Vec::new());
        File { path: path.into(), build_id, origin, problems, image, in_dump, elf: None, table: None }
    }

    /// Returns its unwind table, or `None` if it has no unwind data.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_deref()
    }

    /// Returns the parts of the mapped file that the dump contains.
    pub fn image(&self) -> &Image {
        &self.image
    }

    pub(super) fn elf(&self) -> Option<&Arc<Elf>> {
        self.elf.as_ref()
    }

    /// Returns the load bias if byte `offset` is mapped at `start`.
    pub(super) fn load_bias(&self, start: u64, offset: u64) -> Option<LoadBias> {
        Some(LoadBias::between(start, self.elf.as_ref()?.code_address(offset)?))
    }

    /// Uses the file at `path`, unless it is another one.
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

    /// Returns `Some(true)` if a file is the mapped one, or `None` if that cannot be determined.
    fn is_same(&self, elf: &Elf) -> Option<bool> {
        if !self.build_id.is_empty() {
            return Some(elf.build_id().as_deref() == Some(&*self.build_id));
        }
        let size = elf.size().min(HEAD);
        let mut ours = vec![0; size as usize];
        self.image.fill(0, &mut ours)?;
        Some(elf.bytes(0, size).ok()? == ours)
    }

    /// Returns the number of bytes that the dump claims to contain of it.
    pub(super) fn image_size(&self) -> u64 {
        self.image.size().unwrap_or(u64::MAX)
    }

    /// Builds the table from the contents in the dump.
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
