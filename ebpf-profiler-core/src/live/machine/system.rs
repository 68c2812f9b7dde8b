//! The processes of the running machine, through /proc.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;

use super::describe;
use super::helpers::Helpers;
use super::mapped_file::MappedFile;
use super::memory::ProcessMemory;
use super::other_thread;
use super::reservation::Reservation;
use super::{perf_map, processes};
use crate::elf::ReadAt;
use crate::process::{Description, Opener, System};
use crate::sample::{FileId, MapEvent};

/// The processes of the running machine, for a [`Registry`](crate::registry::Registry) or a
/// [`Pipeline`](crate::pipeline::Pipeline).
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::LiveSystem;
/// use ebpf_profiler_core::internal::process::System;
///
/// let (system, mut word) = (LiveSystem::default(), [0; 8]);
/// system.read(std::process::id(), &raw const word as u64, &mut word)?;
/// assert!(!system.mappings(std::process::id())?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "proc")]
#[derive(Clone, Debug)]
pub struct LiveSystem {
    helpers: Helpers,
    memory: ProcessMemory,
    any_file_system: bool,
    command_lines: bool,
    /// Names of environment variables.
    environment: Arc<[String]>,
}

impl Default for LiveSystem {
    fn default() -> LiveSystem {
        let helpers = Helpers::default();
        let memory = ProcessMemory::new(helpers.clone(), false);
        LiveSystem {
            helpers,
            memory,
            any_file_system: false,
            command_lines: false,
            environment: Arc::default(),
        }
    }
}

impl LiveSystem {
    /// Describes processes with their command lines, too.
    pub(in crate::live) fn with_command_lines(self, command_lines: bool) -> LiveSystem {
        LiveSystem { command_lines, ..self }
    }

    /// Describes processes with these environment variables, too.
    pub(in crate::live) fn with_environment(self, names: &[String]) -> LiveSystem {
        LiveSystem { environment: names.into(), ..self }
    }

    /// Lets the threads that open and read take part in a reservation.
    pub(in crate::live) fn reserved(self, reservation: Option<Reservation>) -> LiveSystem {
        self.helpers.reserve(reservation);
        self
    }

    /// Opens files of file systems that another program or machine serves, too.
    pub(in crate::live) fn with_any_file_system(self, any_file_system: bool) -> LiveSystem {
        let memory = ProcessMemory::new(self.helpers.clone(), any_file_system);
        LiveSystem { memory, any_file_system, ..self }
    }
}

impl System for LiveSystem {
    fn processes(&self) -> Vec<u32> {
        processes::busiest_first()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        // The kernel waits while the process changes its mappings.
        self.helpers.call(pid, move || mappings_of_process(pid))
    }

    fn describe(&self, pid: u32) -> Description {
        self.complete(pid, describe::describe(pid))
    }

    fn complete(&self, pid: u32, mut description: Description) -> Description {
        if self.command_lines {
            // They are in the memory of the process, as its environment is.
            let read = self.helpers.call(pid, move || describe::command_line(pid));
            description.command_line = read.unwrap_or_default();
        }
        if !self.environment.is_empty() {
            let names = self.environment.clone();
            let read = self.helpers.call(pid, move || describe::environment(pid, &names));
            description.environment = read.unwrap_or_default();
        }
        description
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        Arc::new(MappedFile::new(pid, mapping, self.helpers.clone(), self.any_file_system))
    }

    fn perf_map(&self, pid: u32) -> io::Result<Box<dyn ReadAt>> {
        let any_file_system = self.any_file_system;
        Ok(Box::new(self.helpers.call(pid, move || perf_map::open(pid, any_file_system))?))
    }

    fn abandoned(&self) -> u64 {
        self.helpers.abandoned()
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.read(pid, address, buffer)
    }
}

/// Bytes of `/proc/PID/maps` that are read at most: some 40,000 lines. The kernel takes up to 10 ns
/// for each byte.
const MAX_MAPS: usize = 4 << 20;

/// Executable mappings that are returned at most: more than any process may have in a registry.
const MAX_MAPPINGS: usize = (1 << 14) + 1;

/// Returns the executable mappings of a process, also if its first thread has exited.
pub(in crate::live) fn mappings_of_process(pid: u32) -> io::Result<Vec<MapEvent>> {
    let maps = mappings(pid)?;
    if !maps.is_empty() {
        return Ok(maps);
    }
    other_thread::of(pid).map_or(Ok(maps), mappings)
}

/// Reads the executable mappings of a process, line by line.
///
/// Not by procfs, which parses the whole file and keeps an allocation for each line: 4,111 in 80 ms
/// for a process half of whose mappings are executable, where this keeps 2,021 in 60 ms. Any
/// program can have 65,530 of them, so bytes and mappings are bounded.
fn mappings(pid: u32) -> io::Result<Vec<MapEvent>> {
    let mut lines = BufReader::with_capacity(64 << 10, File::open(format!("/proc/{pid}/maps"))?);
    let (mut line, mut bytes, mut maps) = (Vec::new(), 0, Vec::<MapEvent>::new());
    while maps.len() < MAX_MAPPINGS {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        bytes += read;
        if bytes > MAX_MAPS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        maps.extend(event(&line, maps.last()));
    }
    Ok(maps)
}

/// Parses a line, `start-end permissions offset device inode path`, of executable user memory. A
/// path like that of the mapping `before` shares its memory.
fn event(line: &[u8], before: Option<&MapEvent>) -> Option<MapEvent> {
    let mut rest = line.trim_ascii_end();
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let field = &rest[..end];
        rest = rest[end..].trim_ascii_start();
        std::str::from_utf8(field).ok()
    };
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    // The vsyscall page has no code to be sampled in.
    let (start, end) = (hexadecimal(start).filter(|start| start >> 63 == 0)?, hexadecimal(end)?);
    if !field()?.contains('x') {
        return None;
    }
    let offset = hexadecimal(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let device = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
    let inode = field()?.parse().ok()?;
    let path = match (rest, before) {
        (b"", _) => "//anon".into(),
        (path, Some(before)) if path == before.path.as_bytes() => before.path.clone(),
        (path, _) => String::from_utf8_lossy(path).replace("\\012", "\n").into(),
    };
    let file = FileId::of(&path, device, inode);
    Some(MapEvent { start, end, offset, file, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Elf;

    /// A process in a container has files whose names lead to others here.
    #[test]
    fn a_file_of_the_same_name_with_another_build_id_is_not_it() {
        let own = Elf::open(File::open("/proc/self/exe").unwrap()).unwrap();
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let of = |id: &[u8]| MapEvent {
            file: FileId::BuildId(id.into()),
            path: (*path).into(),
            start: 0,
            end: 0,
            offset: 0,
        };
        let pid = std::process::id();
        assert!(LiveSystem::default().opener(pid, &of(&own.build_id().unwrap())).open().is_ok());
        assert!(LiveSystem::default().opener(pid, &of(&[7; 20])).open().is_err());
    }

    #[test]
    fn our_own_mappings_are_found_and_opened() {
        let system = LiveSystem::default();
        let pid = std::process::id();
        let maps = system.mappings(pid).unwrap();
        let here = our_own_mappings_are_found_and_opened as *const () as u64;
        let map = maps.iter().find(|map| map.start <= here && here < map.end).unwrap();
        let elf = Elf::open(system.opener(pid, map).open().unwrap()).unwrap();
        assert!(elf.code_address(map.offset).is_some());
        let vdso = maps.iter().find(|map| map.file == FileId::VDSO).unwrap();
        let vdso = Elf::open(system.opener(pid, vdso).open().unwrap()).unwrap();
        assert!(vdso.section(".eh_frame").is_some());
    }
}
