//! The mapping of a process at an address, without a list of all (`PROCMAP_QUERY`, Linux 6.11).

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct procmap_query` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MappingQuery {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    /// Number of the file's inode; 0 for memory without a file.
    pub(super) inode: u64,
    /// Major and minor number of the file's device.
    pub(super) device: (u32, u32),
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;

/// Returns the mapping at an address, from an open `/proc/PID/maps`.
///
/// # Errors
///
/// `ENOENT` if nothing is mapped there, `ENOTTY` before Linux 6.11.
pub(super) fn query(maps: &File, address: u64) -> io::Result<MappingQuery> {
    let size = size_of::<MappingQuery>() as u64;
    let mut query = MappingQuery { size, address, ..MappingQuery::default() };
    // SAFETY: the request reads and writes `size` bytes, and neither a name nor a build id, whose sizes
    // are 0.
    let error = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
    if error == 0 { Ok(query) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn mapping_has_the_inode_of_its_file() {
    use std::os::unix::fs::MetadataExt;
    let maps = File::open("/proc/self/maps").unwrap();
    let here = mapping_has_the_inode_of_its_file as *const () as u64;
    match query(&maps, here) {
        Ok(mapping) => {
            assert_eq!(mapping.inode, std::fs::metadata("/proc/self/exe").unwrap().ino());
            assert!((mapping.start..mapping.end).contains(&here));
            let nothing = query(&maps, 0).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::NotFound);
        }
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "an older kernel"),
    }
}
