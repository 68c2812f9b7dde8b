//! The processes of the running machine, through /proc.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;

use super::access::{Access, ProcFile};
use super::broker::Broker;
use super::describe;
use super::helpers::Helpers;
use super::mapped_file::MappedFile;
use super::memory::ProcessMemory;
use super::processes;
use super::reservation::Reservation;
use crate::elf::ReadAt;
use crate::process::{Description, Opener, System, context};
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
    access: Access,
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
        let memory = ProcessMemory::new(Access::Own, helpers.clone(), false);
        LiveSystem {
            access: Access::Own,
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
        let memory = ProcessMemory::new(self.access.clone(), self.helpers.clone(), any_file_system);
        LiveSystem { memory, any_file_system, ..self }
    }

    /// Confines the threads that open and read.
    pub(in crate::live) fn confined(self, is_confined: bool) -> LiveSystem {
        self.helpers.confine(is_confined);
        self
    }

    /// Opens what belongs to other processes through a broker.
    pub(in crate::live) fn with_broker(self, broker: Option<&Broker>) -> LiveSystem {
        let Some(broker) = broker else { return self };
        self.helpers.answered_by(broker);
        let access = Access::Broker(broker.client());
        let memory = ProcessMemory::new(access.clone(), self.helpers.clone(), self.any_file_system);
        LiveSystem { access, memory, ..self }
    }
}

impl System for LiveSystem {
    fn processes(&self) -> Vec<u32> {
        processes::busiest_first()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        let access = self.access.clone();
        // The kernel waits while the process changes its mappings.
        self.helpers.call(pid, move || mappings(access.proc_file(pid, ProcFile::Maps)?))
    }

    fn contexts(&self, pid: u32) -> Vec<u64> {
        let access = self.access.clone();
        self.helpers.call(pid, move || contexts(access.proc_file(pid, ProcFile::Maps)?)).unwrap_or_default()
    }

    fn describe(&self, pid: u32) -> Description {
        self.complete(pid, describe::describe(pid))
    }

    fn complete(&self, pid: u32, mut description: Description) -> Description {
        let access = self.access.clone();
        if description.executable.is_empty() && matches!(access, Access::Broker(_)) {
            let access = access.clone();
            description.executable =
                self.helpers.call(pid, move || access.executable(pid)).unwrap_or_default();
        }
        if self.command_lines {
            // They are in the memory of the process, as its environment is.
            let read = self.helpers.call(pid, move || describe::command_line(pid));
            description.command_line = read.unwrap_or_default();
        }
        if !self.environment.is_empty() {
            let names = self.environment.clone();
            let environ = move || access.proc_file(pid, ProcFile::Environment);
            let read = self.helpers.call(pid, move || describe::environment(environ()?, &names));
            description.environment = read.unwrap_or_default();
        }
        description
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        let (access, helpers) = (self.access.clone(), self.helpers.clone());
        Arc::new(MappedFile::new(pid, mapping, access, helpers, self.any_file_system))
    }

    fn perf_map(&self, pid: u32) -> io::Result<Box<dyn ReadAt>> {
        let (access, any_file_system) = (self.access.clone(), self.any_file_system);
        Ok(Box::new(self.helpers.call(pid, move || access.perf_map(pid, any_file_system))?))
    }

    fn abandoned(&self) -> u64 {
        self.helpers.abandoned()
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.read(pid, address, buffer)
    }

    fn forget(&self, pid: u32) {
        self.memory.forget(pid);
    }
}

/// Bytes of `/proc/PID/maps` that are read at most: some 40,000 lines. The kernel takes up to 10 ns
/// for each byte.
const MAX_MAPS: usize = 4 << 20;

/// Executable mappings that are returned at most: more than any process may have in a registry.
const MAX_MAPPINGS: usize = (1 << 14) + 1;

/// Mappings that may be a process context that are returned at most.
const MAX_CONTEXTS: usize = 4;

/// Reads the executable mappings of this process.
pub(in crate::live) fn own_mappings() -> io::Result<Vec<MapEvent>> {
    mappings(File::open("/proc/self/maps")?)
}

/// Finds the mappings that may be a process context in `maps`.
fn contexts(maps: File) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for_each_line(maps, &mut |line| {
        found.extend(context::mapping(line));
        found.len() < MAX_CONTEXTS
    })?;
    Ok(found)
}

/// Reads the executable mappings of a process from its `maps`, line by line.
///
/// Not by procfs, which parses the whole file and keeps an allocation for each line: 4,111 in 80 ms
/// for a process half of whose mappings are executable, where this keeps 2,021 in 60 ms. Any
/// program can have 65,530 of them, so bytes and mappings are bounded.
fn mappings(maps: File) -> io::Result<Vec<MapEvent>> {
    let mut found = Vec::<MapEvent>::new();
    for_each_line(maps, &mut |line| {
        found.extend(event(line, found.last()));
        found.len() < MAX_MAPPINGS
    })?;
    Ok(found)
}

/// Calls `each` with lines of `maps`, until it returns `false`.
fn for_each_line(maps: File, each: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 << 10, maps);
    let (mut line, mut bytes) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        bytes += read;
        if bytes > MAX_MAPS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if read == 0 || !each(&line) {
            return Ok(());
        }
    }
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
