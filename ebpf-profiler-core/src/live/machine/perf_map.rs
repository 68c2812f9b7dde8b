//! Perf maps of running processes.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::clock;
use crate::files::target::{Links, TargetFile};

/// Opens `/tmp/perf-PID.map` below the root folder of a process, by its number in its own PID
/// namespace.
///
/// Links are resolved inside that root, never outside.
pub(super) fn open(pid: u32, any_file_system: bool) -> io::Result<File> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = own_number(&status).ok_or(io::ErrorKind::NotFound)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
    let path = format!("tmp/perf-{number}.map");
    let found = TargetFile::find(Some(root.as_fd()), Path::new(&path), Links::Folders)?;
    let attributes = found.attributes()?;
    let owner = attributes.st_uid;
    if owner != 0 && Some(owner) != effective_user(&status) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let written = i128::from(attributes.st_mtime) * SECOND + attributes.st_mtime_nsec as i128;
    // In containers numbers are low and folders outlive processes: the map may be that of an earlier
    // one.
    if started(pid)?.is_some_and(|started| written < started - SECOND) {
        return Err(io::ErrorKind::NotFound.into());
    }
    found.open(any_file_system)
}

/// Nanoseconds of a second. A file's time may be as much older: its clock ticks, and clocks are
/// set.
const SECOND: i128 = 1_000_000_000;

/// Returns the time at which a process started, in nanoseconds since 1970.
fn started(pid: u32) -> io::Result<Option<i128>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let since_boot = start_ticks(&stat)
        .map(|ticks| i128::from(ticks) * SECOND / i128::from(procfs::ticks_per_second().max(1)));
    let clock = |clock| i128::from(clock::read(clock));
    Ok(since_boot.map(|since_boot| clock(libc::CLOCK_REALTIME) - clock(libc::CLOCK_BOOTTIME) + since_boot))
}

/// Returns the time at which a process started, in ticks since boot. The name before it may hold
/// anything.
fn start_ticks(stat: &str) -> Option<u64> {
    const INDEX: usize = 19;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(INDEX)?.parse().ok()
}

/// Returns the number of the process in its innermost PID namespace.
fn own_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns the effective user of the process.
fn effective_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_number_and_effective_user_count() {
        let status = "Name:\tnode\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4711\t12\n";
        assert_eq!((own_number(status), effective_user(status)), (Some(12), Some(1001)));
        assert_eq!((own_number(""), effective_user("")), (None, None));
    }

    #[test]
    fn start_follows_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 8192 1";
        assert_eq!(start_ticks(stat), Some(4711));
        assert_eq!(start_ticks("7 (a"), None);
    }

    #[test]
    fn opens_map_of_this_process_but_no_older_one_and_no_link() {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        fs::write(&path, "1000 10 main\n").unwrap();
        assert_eq!(open(std::process::id(), false).unwrap().metadata().unwrap().len(), 13);
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(open(std::process::id(), false).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        let linked = open(std::process::id(), false);
        fs::remove_file(&path).unwrap();
        assert!(linked.is_err());
    }
}
