//! The processes of the running machine, through /proc.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use procfs::process::{MMapPath, Process};

use super::{memory, perf_map};
use crate::elf::{Elf, ReadAt};
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
/// let mut word = [0; 8];
/// LiveSystem.read(std::process::id(), &raw const word as u64, &mut word)?;
/// assert!(!LiveSystem.mappings(std::process::id())?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSystem;

impl System for LiveSystem {
    fn processes(&self) -> Vec<u32> {
        let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
        folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        let maps = mappings(pid)?;
        if !maps.is_empty() {
            return Ok(maps);
        }
        other_thread(pid).map_or(Ok(maps), mappings)
    }

    fn describe(&self, pid: u32) -> Description {
        let mut description = Description::default();
        let Ok(process) = process_of(pid) else { return description };
        let by_thread = || process_of(other_thread(pid)?).ok()?.exe().ok();
        if let Some(path) = process.exe().ok().or_else(by_thread) {
            description.executable = ending(&path.to_string_lossy()).into();
        }
        if let Ok(stat) = process.stat() {
            let per_second = procfs::ticks_per_second().max(1);
            description.created = stat.starttime * (1_000_000_000 / per_second);
            description.parent = u32::try_from(stat.ppid).unwrap_or_default();
        }
        description.command_line = command_line(pid).unwrap_or_default();
        if let Ok(groups) = process.cgroups() {
            let id = groups.into_iter().find_map(|group| container_id(&group.pathname));
            description.container = id.unwrap_or_default();
        }
        description
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        Arc::new(MappedFile {
            pid,
            range: (mapping.start, mapping.end),
            file: mapping.file.clone(),
            path: mapping.path.clone(),
            held: OnceLock::new(),
            is_proven: OnceLock::new(),
        })
    }

    fn perf_map(&self, pid: u32) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(perf_map::open(pid)?))
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        memory::read(pid, address, buffer).or_else(|error| match other_thread(pid) {
            Some(thread) => memory::read(thread, address, buffer),
            None => Err(error),
        })
    }
}

/// Bytes of the path of an executable that are kept, from its end.
const MAX_PATH: usize = 512;

/// Returns the last 512 bytes of a path.
fn ending(path: &str) -> &str {
    let start = path.len().saturating_sub(MAX_PATH);
    (start..).find_map(|start| path.get(start..)).unwrap_or_default()
}

/// Bytes of `/proc/PID/maps` that are read at most: some 40,000 lines. The kernel takes up to 10 ns for each byte.
const MAX_MAPS: usize = 4 << 20;

/// Executable mappings that are returned at most: more than any process may have in a registry.
const MAX_MAPPINGS: usize = (1 << 14) + 1;

/// Reads the executable mappings of a process, line by line.
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

/// Parses a line, `start-end permissions offset device inode path`, of executable user memory. A path like that of the
/// mapping `before` shares its memory.
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

/// Returns a running thread of a process whose first thread has exited.
///
/// `/proc/PID` shows nothing of such a process; `/proc/TID` of another thread does.
fn other_thread(pid: u32) -> Option<u32> {
    let is_there = |id: u32| std::fs::read_link(format!("/proc/{id}/exe")).is_ok();
    if is_there(pid) {
        return None;
    }
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let threads = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    threads.filter(|&thread| thread != pid).find(|&thread| is_there(thread))
}

fn process_of(pid: u32) -> io::Result<Process> {
    Process::new(pid as i32).map_err(io::Error::other)
}

/// Returns the arguments of a process, which end with zero bytes, separated by spaces.
fn command_line(pid: u32) -> io::Result<Box<str>> {
    const MAX: u64 = 1024;
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/cmdline"))?.take(MAX).read_to_end(&mut bytes)?;
    let arguments = bytes.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    let arguments: Vec<_> = arguments.map(String::from_utf8_lossy).collect();
    Ok(arguments.join(" ").into())
}

/// Returns the container id in the path of a control group: 64 hexadecimal digits.
fn container_id(path: &str) -> Option<Box<str>> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    path.rsplit(['/', '-', '.', ':']).find(is_id).map(Into::into)
}

/// The file behind a mapping.
struct MappedFile {
    pid: u32,
    range: (u64, u64),
    file: FileId,
    path: Arc<str>,
    /// Kept open after the first time if its path no longer leads to it: deleted, or in another mount namespace.
    held: OnceLock<HeldFile>,
    /// Set once a file that only root may write was found; no other is opened from then on.
    is_proven: OnceLock<()>,
}

/// A file that stays open.
struct HeldFile(File);

/// Files that stay open at most; further ones can be opened only as long as their process has them mapped.
const MAX_HELD: usize = 256;

static HELD: AtomicUsize = AtomicUsize::new(0);

impl HeldFile {
    fn new(file: &File) -> Option<HeldFile> {
        if HELD.fetch_add(1, Ordering::Relaxed) < MAX_HELD
            && let Ok(file) = file.try_clone()
        {
            return Some(HeldFile(file));
        }
        HELD.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Opener for MappedFile {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        if self.file == FileId::VDSO {
            return Ok(Box::new(Cursor::new(vdso()?)));
        }
        if let Some(file) = self.held.get() {
            return Ok(Box::new(file.0.try_clone()?));
        }
        self.open_file().map(|file| Box::new(file) as Box<dyn ReadAt>)
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        if self.file == FileId::VDSO {
            return None;
        }
        let file = match self.held.get() {
            Some(file) => file.0.try_clone(),
            None => self.open_file(),
        };
        let metadata = file.ok()?.metadata().ok()?;
        if is_foreign(&metadata) {
            return Some((metadata.dev(), metadata.ino()));
        }
        // Its path may lead to another file later.
        let _ = self.is_proven.set(());
        None
    }
}

/// Returns `true` if another user than root may write a file.
fn is_foreign(metadata: &Metadata) -> bool {
    let (is_of_group, is_of_all) = (metadata.mode() & 0o020 != 0, metadata.mode() & 0o002 != 0);
    metadata.uid() != 0 || is_of_all || (is_of_group && metadata.gid() != 0)
}

impl MappedFile {
    fn open_file(&self) -> io::Result<File> {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        let (start, end) = self.range;
        let id = other_thread(self.pid).unwrap_or(self.pid);
        let mapped = PathBuf::from(format!("/proc/{id}/map_files/{start:x}-{end:x}"));
        if let Ok(file) = open_regular(path.as_ref())
            && self.is_it(&file, true)
            && self.is_mapped(&file, &mapped)
        {
            return Ok(file);
        }
        let ways = [mapped, PathBuf::from(format!("/proc/{id}/root{path}"))];
        for way in ways {
            if let Ok(file) = open_regular(&way)
                && self.is_it(&file, false)
            {
                HeldFile::new(&file).and_then(|file| self.held.set(file).ok());
                return Ok(file);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Returns `false` if a file was found by a build id that others than root may have given to it, and another one is
    /// mapped.
    fn is_mapped(&self, file: &File, mapped: &Path) -> bool {
        if !matches!(self.file, FileId::BuildId(_)) {
            return true;
        }
        let Ok(found) = file.metadata() else { return false };
        let is_same = |there: Metadata| (there.dev(), there.ino()) == (found.dev(), found.ino());
        // After the exit of the process there is no better way.
        !is_foreign(&found) || std::fs::metadata(mapped).map_or(true, is_same)
    }

    /// Returns `true` if this is the mapped file, and not another one of the same path.
    ///
    /// Some file systems show another device in a mapping than in the file itself, so a file opened through the process may
    /// differ in it. A file opened by our own path must not: it may be of another mount namespace.
    fn is_it(&self, file: &File, same_device: bool) -> bool {
        let Ok(metadata) = file.metadata() else { return false };
        if self.is_proven.get().is_some() && is_foreign(&metadata) {
            return false;
        }
        match &self.file {
            FileId::Inode { device, inode } => {
                let there = metadata.dev();
                let there = (libc::major(there), libc::minor(there));
                metadata.ino() == *inode && (!same_device || there == *device)
            }
            FileId::BuildId(expected) => {
                let elf = file.try_clone().ok().and_then(|file| Elf::open(file).ok());
                elf.as_ref().and_then(Elf::build_id).is_some_and(|found| *found == **expected)
            }
            _ => true,
        }
    }
}

/// Opens a file of another user without blocking: it may be a pipe or a device by now.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Returns the image of the vDSO, which is the same in every process.
fn vdso() -> io::Result<Vec<u8>> {
    static IMAGE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let maps = Process::myself().and_then(|process| process.maps()).ok()?;
        let map = maps.into_iter().find(|map| map.pathname == MMapPath::Vdso)?;
        let mut image = vec![0; (map.address.1 - map.address.0) as usize];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, map.address.0).ok()?;
        Some(image)
    });
    image.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_parent_and_command_line() {
        let description = LiveSystem.describe(std::process::id());
        assert_eq!(description.parent, std::os::unix::process::parent_id());
        let arguments: Vec<String> = std::env::args().collect();
        assert!(arguments.join(" ").starts_with(&*description.command_line));
        assert!(description.command_line.starts_with(&arguments[0]));
    }

    #[test]
    fn containers_are_found_in_control_groups() {
        let id = "a".repeat(64);
        for path in [format!("/docker/{id}"), format!("/kubepods.slice/x/cri-containerd-{id}.scope")] {
            assert_eq!(container_id(&path).as_deref(), Some(&*id));
        }
        assert_eq!(container_id("/user.slice/session-1.scope"), None);
    }

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
        assert!(LiveSystem.opener(pid, &of(&own.build_id().unwrap())).open().is_ok());
        assert!(LiveSystem.opener(pid, &of(&[7; 20])).open().is_err());
    }

    #[test]
    fn our_own_mappings_are_found_and_opened() {
        let system = LiveSystem;
        let pid = std::process::id();
        let maps = system.mappings(pid).unwrap();
        let here = our_own_mappings_are_found_and_opened as *const () as u64;
        let map = maps.iter().find(|map| map.start <= here && here < map.end).unwrap();
        let elf = crate::elf::Elf::open(system.opener(pid, map).open().unwrap()).unwrap();
        assert!(elf.code_address(map.offset).is_some());
        let vdso = maps.iter().find(|map| map.file == FileId::VDSO).unwrap();
        let vdso = crate::elf::Elf::open(system.opener(pid, vdso).open().unwrap()).unwrap();
        assert!(vdso.section(".eh_frame").is_some());
    }
}
