//! A machine with given processes, files and memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::elf::ReadAt;
use crate::process::{Description, Opener, System};
use crate::sample::{FileId, MapEvent};

/// A machine with given processes, files and memory.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::internal::process::System;
/// use ebpf_profiler_core::internal::sample::{FileId, MapEvent};
/// use ebpf_profiler_core::internal::testing::FakeSystem;
///
/// let file = FileId::Inode { device: (8, 1), inode: 42 };
/// let map = MapEvent::new(0x1000..0x2000, 0, file, "/bin/cat");
/// let system = FakeSystem::default().process(7, "/bin/cat", vec![map.clone()]).file("/bin/cat", b"meow");
///
/// assert_eq!(system.mappings(7)?, [map.clone()]);
/// assert_eq!(system.opener(7, &map).open()?.size()?, 4);
/// assert!(system.mappings(8).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FakeSystem {
    processes: BTreeMap<u32, (Description, Vec<MapEvent>)>,
    files: BTreeMap<Box<str>, FakeFile>,
    memory: Vec<(u32, u64, Vec<u8>)>,
    /// The process with real files and memory.
    own: Option<u32>,
}

#[derive(Clone, Debug)]
struct FakeFile {
    contents: Arc<[u8]>,
    /// Device and inode if another user than root may write it.
    foreign: Option<(u64, u64)>,
}

impl FakeSystem {
    /// Creates a machine with this process alone, with its real files and memory. Needs no
    /// privileges.
    ///
    /// # Errors
    ///
    /// Fails if `/proc/self` cannot be read.
    pub fn this_process() -> io::Result<FakeSystem> {
        let pid = std::process::id();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let executable = fs::read_link("/proc/self/exe")?;
        let maps = maps.lines().filter_map(executable_mapping).collect();
        let system = FakeSystem { own: Some(pid), ..FakeSystem::default() };
        Ok(system.process(pid, &executable.to_string_lossy(), maps))
    }

    /// Adds a process.
    #[must_use = "returns the changed system"]
    pub fn process(mut self, pid: u32, executable: &str, maps: Vec<MapEvent>) -> FakeSystem {
        let description = Description { executable: executable.into(), ..Description::default() };
        self.processes.insert(pid, (description, maps));
        self
    }

    /// Adds a process without mappings, with its description.
    #[must_use = "returns the changed system"]
    pub fn described(mut self, pid: u32, description: Description) -> FakeSystem {
        self.processes.insert(pid, (description, Vec::new()));
        self
    }

    /// Adds a file.
    #[must_use = "returns the changed system"]
    pub fn file(mut self, path: &str, contents: &[u8]) -> FakeSystem {
        self.files.insert(path.into(), FakeFile { contents: contents.into(), foreign: None });
        self
    }

    /// Adds a file that another user than root may write.
    #[must_use = "returns the changed system"]
    pub fn foreign_file(mut self, path: &str, contents: &[u8], inode: u64) -> FakeSystem {
        self.files.insert(path.into(), FakeFile { contents: contents.into(), foreign: Some((1, inode)) });
        self
    }

    /// Adds memory of a process at an address.
    #[must_use = "returns the changed system"]
    pub fn memory(mut self, pid: u32, address: u64, contents: &[u8]) -> FakeSystem {
        self.memory.push((pid, address, contents.to_vec()));
        self
    }
}

impl System for FakeSystem {
    fn processes(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        let found = self.processes.get(&pid).map(|(_, maps)| maps.clone());
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn describe(&self, pid: u32) -> Description {
        self.processes.get(&pid).map(|(description, _)| description.clone()).unwrap_or_default()
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        if let Some(file) = self.files.get(&*mapping.path) {
            return Arc::new(file.clone());
        }
        let real = self.own == Some(pid);
        let path = mapping.path.clone();
        Arc::new(move || match real {
            true => Ok(Box::new(File::open(&*path)?) as Box<dyn ReadAt>),
            false => Err(io::ErrorKind::NotFound.into()),
        })
    }

    /// Returns the addresses of memory that begins as a context does.
    fn contexts(&self, pid: u32) -> Vec<u64> {
        let is_context = |(of, _, bytes): &&(u32, u64, Vec<u8>)| *of == pid && bytes.starts_with(b"OTEL_CTX");
        self.memory.iter().filter(is_context).map(|&(_, address, _)| address).collect()
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.own == Some(pid) {
            return File::open("/proc/self/mem")?.read_exact_at(buffer, address);
        }
        let piece = |(of, start, bytes): &(u32, u64, Vec<u8>)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            let found = bytes.get(at..)?.get(..buffer.len())?.to_vec();
            (*of == pid).then_some(found)
        };
        let found = self.memory.iter().find_map(piece).ok_or(io::ErrorKind::NotFound)?;
        buffer.copy_from_slice(&found);
        Ok(())
    }
}

impl Opener for FakeFile {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Cursor::new(self.contents.clone())))
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        self.foreign
    }
}

/// Parses an executable mapping of `/proc/self/maps`: `start-end permissions offset device inode
/// path`.
fn executable_mapping(line: &str) -> Option<MapEvent> {
    let (fields, path) = line.split_at_checked(73).unwrap_or((line, ""));
    let mut fields = fields.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hexadecimal(start)?, hexadecimal(end)?, hexadecimal(fields.next()?)?);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
    let file = FileId::of(path, device, fields.next()?.parse().ok()?);
    let is_user_code = permissions.contains('x') && start >> 63 == 0;
    is_user_code.then(|| MapEvent { start, end, offset, file, path: path.into() })
}
