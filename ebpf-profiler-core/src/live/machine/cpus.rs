//! The CPUs of the machine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Returns the CPUs that are online.
pub(in crate::live) fn online() -> io::Result<Vec<u32>> {
    Ok(parse(&fs::read_to_string("/sys/devices/system/cpu/online")?))
}

/// Returns the generation of a CPU, which changes each time that it comes online.
///
/// It is the inode of a folder that the kernel creates each time.
pub(in crate::live) fn life(cpu: u32) -> u64 {
    fs::metadata(format!("/sys/devices/system/cpu/cpu{cpu}/topology")).map_or(0, |folder| folder.ino())
}

/// Returns one more than the highest number that a CPU of this machine can have.
pub(in crate::live) fn possible() -> io::Result<u32> {
    let list = parse(&fs::read_to_string("/sys/devices/system/cpu/possible")?);
    Ok(list.into_iter().max().map_or(1, |highest| highest + 1))
}

/// Parses a list of the kernel such as `0-3,8,10-11`.
fn parse(list: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(1 << 16)));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn parses_lists_of_the_kernel() {
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("0\n"), [0]);
        assert_eq!(parse("\n"), []);
    }
}
