//! Probes at functions of programs and libraries.

use std::fs::File;
use std::path::{Path, PathBuf};

use ebpf_programs::abi::cookie;

use crate::elf::{Elf, Symbol, SymbolKind};
use crate::profile::{SampleKind, Unit};

/// The trigger of calls or returns of a function of a program or library, in all processes that have the file mapped, now or
/// later.
///
/// Each event traps into the kernel, which takes 1 to 2 µs: choose functions that are not called millions of times a second.
///
/// # Examples
///
/// ```no_run
/// use ebpf_profiler_core::{Profiler, live::Uprobe};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder().on(Uprobe::entry("libc.so.6", "getaddrinfo")).start()?;
/// println!("{} look-ups", profiler.run_for(Duration::from_secs(10))?.total());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Uprobe {
    pub(super) file: PathBuf,
    pub(super) function: String,
    pub(super) is_return: bool,
    /// Number of the register of the value, as in the [cookie].
    pub(super) register: u64,
    /// The value is the time until the function returns.
    pub(super) is_time: bool,
    /// Name and unit of its kind of samples; by default its text and a count.
    pub(super) named: Option<(&'static str, Unit)>,
}

impl Uprobe {
    /// Returns the trigger of calls of `function`. `file` is a path, or the name of a library in a folder of this system.
    pub fn entry(file: impl Into<PathBuf>, function: impl Into<String>) -> Uprobe {
        let (file, function) = (file.into(), function.into());
        Uprobe { file, function, is_return: false, register: 0, is_time: false, named: None }
    }

    /// Returns the trigger of returns of `function`; as [`entry`](Uprobe::entry).
    pub fn exit(file: impl Into<PathBuf>, function: impl Into<String>) -> Uprobe {
        Uprobe { is_return: true, ..Uprobe::entry(file, function) }
    }

    /// Takes argument `index`, from 0 to 5, as the value of a call: an integer or pointer in a register. Other indices leave the
    /// value at 1.
    #[must_use = "returns the changed trigger"]
    pub fn argument(self, index: u32) -> Uprobe {
        let register = if !self.is_return && index < 6 { u64::from(index) + 1 } else { 0 };
        Uprobe { register, ..self }
    }

    /// Takes the result of the function as the value of a return.
    #[must_use = "returns the changed trigger"]
    pub fn result(self) -> Uprobe {
        let register = if self.is_return { cookie::RESULT } else { 0 };
        Uprobe { register, ..self }
    }

    /// Takes the time from a call to its return as the value, in nanoseconds. The sample is taken at the return, with the stack of
    /// the caller. Calls that began before the profiler are not counted, nor those that are left by a jump.
    #[must_use = "returns the changed trigger"]
    pub fn time(self) -> Uprobe {
        Uprobe { is_time: !self.is_return, register: 0, ..self }
    }

    /// Returns the trigger of allocations of the C library, by bytes.
    pub(super) fn malloc() -> Uprobe {
        let probe = Uprobe::entry("libc.so.6", "malloc").argument(0);
        Uprobe { named: Some(("malloc", Unit::Bytes)), ..probe }
    }

    pub(super) fn kind(&self) -> SampleKind {
        match self.named {
            Some((name, unit)) => SampleKind::new(name, unit),
            None => {
                let unit = if self.is_time { Unit::Nanoseconds } else { Unit::Count };
                SampleKind::new(super::Trigger::from(self.clone()).to_string(), unit)
            }
        }
    }

    /// Returns the path of the file and the offset of the function in it.
    pub(super) fn location(&self) -> Result<(PathBuf, u64), String> {
        let path = find(&self.file)?;
        let opened = File::open(&path).map_err(|error| error.to_string());
        let elf = opened.and_then(|file| Elf::open(file).map_err(|error| error.to_string()));
        let elf = elf.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let function = function(&elf, &self.function)
            .ok_or_else(|| format!("{} has no function {}", path.display(), self.function))?;
        let offset = elf.file_offset(function.address, 1);
        let offset = offset.ok_or_else(|| format!("{} is not in {}", self.function, path.display()))?;
        Ok((path, offset))
    }
}

/// Returns the path of a file, or of a library by its name alone.
fn find(file: &Path) -> Result<PathBuf, String> {
    const FOLDERS: [&str; 7] = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
        "/usr/local/lib",
    ];
    if file.components().count() > 1 {
        return Ok(file.into());
    }
    let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(file));
    let found = paths.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("no library {} in the folders of this system; give its path", file.display()))
}

/// Returns the function with this name: an exported one, or one of the symbol table.
fn function(elf: &Elf, name: &str) -> Option<Symbol> {
    let is_function = |symbol: &Symbol| symbol.kind == SymbolKind::Function && symbol.address != 0;
    if let Some(symbol) = elf.exports().and_then(|exports| exports.get(name)).filter(is_function) {
        return Some(symbol);
    }
    let mut found = None;
    elf.for_each_symbol(|bytes, symbol| {
        if bytes == name.as_bytes() && is_function(&symbol) {
            found = Some(symbol);
        }
    });
    found
}
