//! Compilation of a file's unwind table: the part that needs no other state, so that any thread can do it.

use std::sync::Arc;

use super::pace::{Pace, Paced};
use super::until::{IsOver, Until};
use crate::elf::{Elf, ElfError};
use crate::process::Opener;
use crate::unwind::{BareFunction, Compiled, UnwindCompiler};

/// Everything that the compilation of a table needs.
#[derive(Clone)]
pub(crate) struct Job {
    pub(super) compiler: Arc<dyn UnwindCompiler>,
    pub(super) opener: Option<Arc<dyn Opener>>,
    /// Functions without unwind data that a runtime in the file names.
    pub(super) bare: Vec<BareFunction>,
    pub(super) is_over: IsOver,
    /// Derives rules of code without unwind data, at this pace.
    pub(super) derive: Option<Arc<Pace>>,
}

/// The reason why a file has no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(super) reason: &'static str,
    /// `true` if it concerns the way to the file and not its contents: another process, or another time, may succeed.
    pub(super) is_transient: bool,
}

impl Failure {
    pub(super) const fn lasting(reason: &'static str) -> Failure {
        Failure { reason, is_transient: false }
    }

    pub(super) const fn transient(reason: &'static str) -> Failure {
        Failure { reason, is_transient: true }
    }

    /// Returns the failure for an error of the file; `reason` if its contents are to blame.
    fn of(error: &ElfError, reason: &'static str) -> Failure {
        match error {
            ElfError::Read(_) => Failure::transient("files that could not be read"),
            _ => Failure::lasting(reason),
        }
    }
}

impl Job {
    /// Compiles the table. Its image is empty if the file has no unwind data.
    pub(crate) fn run(&self) -> Result<Compiled, Failure> {
        let elf = self.open()?;
        let compiled = match &self.derive {
            None => self.compiler.compile_with(&elf, &self.bare),
            Some(pace) => {
                let compiled = self.compiler.compile_derived(&elf, &self.bare);
                pace.end();
                compiled.unwrap_or_else(|| Ok(Compiled::default()))
            }
        };
        compiled.map_err(|error| Failure::of(&error, "files with implausible unwind data"))
    }

    fn open(&self) -> Result<Elf, Failure> {
        let opener = self.opener.as_ref().ok_or(Failure::lasting("files without a way to open them"))?;
        let source = opener.open().map_err(|_| Failure::transient("files that could not be opened"))?;
        let source = match self.derive.clone() {
            None => source,
            Some(pace) => Box::new(Paced { source, pace, is_over: self.is_over.clone() }),
        };
        let source = Until { source, is_over: self.is_over.clone() };
        Elf::open(source).map_err(|error| Failure::of(&error, "files that are no ELF files"))
    }
}
