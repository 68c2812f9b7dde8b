//! Opens a recorded file on the machine of the replay.

use std::fs::File;
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::record::Facts;
use super::skeleton::Skeleton;
use crate::elf::{Elf, ReadAt};
use crate::files;
use crate::process::Opener;

/// A recorded file.
pub(super) struct RecordedFile {
    /// Path at the time of the recording.
    path: Box<str>,
    facts: Facts,
    /// Contents, if the recording holds them.
    image: Option<Arc<[u8]>>,
    /// The file of a matching fingerprint, which takes time to compute.
    compared: OnceLock<File>,
}

impl RecordedFile {
    pub(super) fn new(path: &str, facts: Facts, image: Option<Arc<[u8]>>) -> RecordedFile {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).into();
        RecordedFile { path, facts, image, compared: OnceLock::new() }
    }

    /// Opens the file at the recorded path; `None` if it is another one.
    fn open_matching(&self) -> io::Result<Option<File>> {
        if let Some(file) = self.compared.get() {
            return file.try_clone().map(Some);
        }
        // The path may name a device or a pipe on this machine.
        let file = files::open(Path::new(&*self.path))?;
        if file.metadata()?.len() != self.facts.size {
            return Ok(None);
        }
        let Ok(elf) = Elf::open(file.try_clone()?) else { return Ok(None) };
        if !self.facts.matches(&elf) {
            return Ok(None);
        }
        if elf.build_id().is_none() {
            let _ = self.compared.set(file.try_clone()?);
        }
        Ok(Some(file))
    }
}

impl Opener for RecordedFile {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        if let Some(image) = &self.image {
            return Ok(Box::new(Cursor::new(image.clone())));
        }
        if self.facts.code.is_none() {
            return Ok(Box::new(Cursor::new([])));
        }
        match self.open_matching() {
            Ok(Some(file)) => Ok(Box::new(file)),
            _ => Ok(Box::new(Skeleton::new(&self.facts))),
        }
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        self.facts.foreign
    }
}
