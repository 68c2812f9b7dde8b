//! The version of the running kernel.

use std::fs;

/// Returns the release of the running kernel, such as `6.18.44-cloud-amd64`; empty if `/proc` is
/// not mounted.
pub(in crate::live) fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Parses the first two numbers of a release.
pub(super) fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[test]
fn parses_first_two_numbers_of_release() {
    assert_eq!(parse("6.18.44-cloud-amd64"), Some((6, 18)));
    assert_eq!(parse("5.10-rc1"), Some((5, 10)));
    assert_eq!(parse("unknown"), None);
}
