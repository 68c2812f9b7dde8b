//! Mappings of files that another program or machine serves.
//!
//! A thread that waits for such a server cannot be ended, not even by the end of this program. So
//! the mapping and the type of its file system are looked up in `/proc`, which asks no server:
//!
//! ```text
//!   address ──► /proc/PID/maps: device ──► mountinfo of the process, of process 1, of this one: type
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};

use super::access::{Access, ProcFile};
use super::mapping_query::query;

/// A device as `/proc` prints it: major and minor number.
type Device = (u32, u32);

/// Returns `true` if the mapping at an address is of a file that another program or machine may
/// serve.
pub(super) fn is_served(access: &Access, pid: u32, address: u64) -> bool {
    let maps = access.proc_file(pid, ProcFile::Maps).ok();
    maps.and_then(|maps| device_at(maps, address)).is_some_and(|device| {
        let lists =
            [format!("/proc/{pid}/mountinfo"), "/proc/1/mountinfo".into(), "/proc/self/mountinfo".into()];
        let mut types = lists.iter().filter_map(|list| file_system(&fs::read_to_string(list).ok()?, device));
        match types.next() {
            Some(name) => is_remote(&name),
            // Unmounted, though mapped still. Devices without a number of their own are those of FUSE and of
            // networks, too.
            None => device.0 == 0 && shared_memory() != Some(device),
        }
    })
}

/// Returns the device of the file that a process maps at an address; `None` for other memory.
fn device_at(maps: File, address: u64) -> Option<Device> {
    match query(&maps, address) {
        Ok(mapping) => (mapping.inode != 0).then_some(mapping.device),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
        Err(_) => listed_device_at(maps, address),
    }
}

/// The same by the list of all mappings, which takes as long as there are mappings, and locks them
/// meanwhile.
fn listed_device_at(maps: File, address: u64) -> Option<Device> {
    for line in BufReader::new(maps).split(b'\n').map_while(Result::ok) {
        let Some(mapping) = parse(&line) else { continue };
        if address < mapping.end {
            return (mapping.start <= address && mapping.inode != 0).then_some(mapping.device);
        }
    }
    None
}

struct Mapping {
    start: u64,
    end: u64,
    device: Device,
    inode: u64,
}

/// Parses a line of `maps`: `start-end permissions offset device inode path`.
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields =
        line.split(|&byte| byte == b' ').map(|field| std::str::from_utf8(field).unwrap_or_default());
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let device = fields.nth(2)?.split_once(':')?;
    let device = (hexadecimal(device.0)? as u32, hexadecimal(device.1)? as u32);
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        device,
        inode: fields.next()?.parse().ok()?,
    })
}

/// Returns the type of the file system of a device in `mountinfo`.
fn file_system(list: &str, device: Device) -> Option<String> {
    let device = format!("{}:{}", device.0, device.1);
    let line = list.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let (_, name) = line.split_once(" - ")?;
    Some(name.split(' ').next().unwrap_or_default().to_owned())
}

/// Returns `true` for the types of file systems that another program or machine serves.
fn is_remote(name: &str) -> bool {
    const STARTS: [&str; 12] =
        ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "coda", "lustre", "gpfs", "autofs", "virtiofs"];
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Returns the device of shared anonymous memory, which is mounted nowhere.
fn shared_memory() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let device = File::from(memfd_create("device", MemfdFlags::CLOEXEC).ok()?).metadata().ok()?.dev();
        Some((libc::major(device), libc::minor(device)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_is_served_by_nobody() {
        let here = own_code_is_served_by_nobody as *const () as u64;
        let maps = || File::open("/proc/self/maps").unwrap();
        assert!(device_at(maps(), here).is_some());
        assert!(!is_served(&Access::Own, std::process::id(), here));
        let stack = 0_u8;
        let addresses = [here, &raw const stack as u64, 0];
        for address in addresses {
            assert_eq!(device_at(maps(), address), listed_device_at(maps(), address));
        }
        assert_eq!(device_at(maps(), &raw const stack as u64), None);
        assert!(!is_served(&Access::Own, std::process::id(), 0));
    }

    #[test]
    fn types_are_found_by_device() {
        let list = "36 35 98:0 / / rw master:1 - ext4 /dev/root rw\n\
                    40 36 0:52 / /mnt/a\\040-\\040b rw,nosuid shared:3 - fuse.sshfs host: rw,user_id=0\n";
        assert_eq!(file_system(list, (98, 0)).as_deref(), Some("ext4"));
        assert_eq!(file_system(list, (0, 52)).as_deref(), Some("fuse.sshfs"));
        assert_eq!(file_system(list, (0, 5)), None);
        assert!(["fuse.sshfs", "fuseblk", "nfs4", "smb3"].map(is_remote).iter().all(|&it| it));
        assert!(!["ext4", "overlay", "tmpfs", "btrfs"].map(is_remote).iter().any(|&it| it));
    }

    #[test]
    fn lines_of_maps_have_device_and_inode() {
        let line =
            b"7f0000000000-7f0000001000 r-xp 00001000 fe:01 4711                       /usr/lib/a b.so";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.start, mapping.device, mapping.inode), (0x7f00_0000_0000, (0xfe, 1), 4711));
        assert!(parse(b"").is_none() && parse(b"x-y r").is_none());
    }
}
