//! Perf maps of running processes.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::files::target::{Links, TargetFile};

/// Opens `/tmp/perf-PID.map` below the root folder of a process, by its number in its own PID namespace.
///
/// Links are resolved inside that root, never outside.
pub(super) fn open(pid: u32, any_file_system: bool) -> io::Result<File> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = own_number(&status).ok_or(io::ErrorKind::NotFound)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
    let path = format!("tmp/perf-{number}.map");
    let found = TargetFile::find(Some(root.as_fd()), Path::new(&path), Links::Folders)?;
    let owner = found.attributes()?.st_uid;
    if owner != 0 && Some(owner) != effective_user(&status) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    found.open(any_file_system)
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
    fn opens_map_of_this_process_but_no_link() {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        fs::write(&path, "1000 10 main\n").unwrap();
        assert_eq!(open(std::process::id(), false).unwrap().metadata().unwrap().len(), 13);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        let linked = open(std::process::id(), false);
        fs::remove_file(&path).unwrap();
        assert!(linked.is_err());
    }
}
