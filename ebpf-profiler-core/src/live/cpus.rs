//! Which CPUs there are.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The CPUs that are switched on.
pub(super) fn online() -> io::Result<Vec<u32>> {
    Ok(parse(&fs::read_to_string("/sys/devices/system/cpu/online")?))
}

/// A number that is another one each time that a CPU comes, even if nobody saw it go.
///
/// The kernel makes this folder anew then, and what it makes has a new number.
pub(super) fn life(cpu: u32) -> u64 {
    fs::metadata(format!("/sys/devices/system/cpu/cpu{cpu}/topology")).map_or(0, |folder| folder.ino())
}

/// One more than the highest number that a CPU of this machine can ever have.
pub(super) fn possible() -> io::Result<u32> {
    let list = parse(&fs::read_to_string("/sys/devices/system/cpu/possible")?);
    Ok(list.into_iter().max().map_or(1, |highest| highest + 1))
}

/// Reads a list as the kernel writes it: `0-3,8,10-11`.
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
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("0\n"), [0]);
        assert_eq!(parse("\n"), []);
    }
}
