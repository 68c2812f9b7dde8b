//! Line tables against the interpreter that created them.

use std::path::Path;

use super::*;

#[path = "../../../tests/live/interpreters.rs"]
mod interpreters;

/// Returns the lines of positions.
fn steps(version: Version, table: &[u8], first: u32, positions: &[u32]) -> Vec<u32> {
    let lines = lines(version, table, first, 0);
    positions.iter().map(|&position| lines.at(position)).collect()
}

#[test]
fn increments_are_signed_from_3_6_on() {
    let table = [6, 1, 4, 250, 2, 1];
    assert_eq!(steps(Version(2, 7), &table, 10, &[0, 5, 6, 9, 10, 12]), [10, 10, 11, 11, 261, 262]);
    assert_eq!(steps(Version(3, 6), &table, 10, &[0, 5, 6, 9, 10, 12]), [10, 10, 11, 11, 5, 6]);
}

#[test]
fn position_before_first_instruction_is_on_first_line() {
    let table = [6, 1, 4, 1];
    for version in [Version(2, 7), Version(3, 9), Version(3, 10)] {
        assert_eq!(steps(version, &table, 10, &[u32::MAX]), [10], "{version}");
    }
    // A position before the first instruction, and one outside of the function.
    let lines = lines(Version(3, 12), &[0x80 | 13 << 3, 2], 10, 192);
    assert_eq!([190, 192, 193, 194, u32::MAX].map(|position| lines.at(position)), [10, 11, 11, 0, 0]);
}

#[test]
fn ranges_of_3_10_may_lack_a_line() {
    // Six bytes on the second line, four without a line, two on the fifth line.
    let table = [6, 1, 4, 0x80, 0, 2, 2, 1];
    assert_eq!(steps(Version(3, 10), &table, 10, &[0, 2, 3, 4, 5]), [11, 11, 0, 0, 14]);
}

#[test]
fn truncated_tables_do_not_panic() {
    let table: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    for version in [Version(2, 7), Version(3, 9), Version(3, 10), Version(3, 11), Version(3, 14)] {
        for len in 0..table.len() {
            lines(version, &table[..len], u32::MAX, u32::MAX);
            lines(version, &table[len..], 0, 0);
        }
    }
}

#[test]
#[ignore = "needs interpreters"]
fn lines_match_interpreter() {
    test_needs::programs!("python3");
    let interpreters = interpreters::all();
    assert!(!interpreters.is_empty(), "no interpreter found");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/line_tables.py");
    for python in interpreters {
        let output = python.run(Path::new(script)).output().unwrap();
        assert!(output.status.success(), "{}: {}", python.name(), String::from_utf8_lossy(&output.stderr));
        let (mut tables, mut positions) = (0, 0);
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            positions += compare(line);
            tables += 1;
        }
        eprintln!("{}: {tables} tables, {positions} positions", python.name());
        assert!(tables > 1000);
    }
}

/// Compares the lines of all positions of a code object, and returns their number.
fn compare(line: &str) -> u32 {
    let cells: Vec<&str> = line.split('\t').collect();
    let [version, first, table, length, steps] = cells[..] else { panic!("{line}") };
    let (major, minor) = version.split_once('.').unwrap();
    let version = Version(major.parse().unwrap(), minor.parse().unwrap());
    let table: Vec<u8> =
        (0..table.len()).step_by(2).map(|at| u8::from_str_radix(&table[at..at + 2], 16).unwrap()).collect();
    let steps: Vec<(u32, u32)> = steps
        .split_whitespace()
        .map(|step| step.split_once(':').unwrap())
        .map(|(at, line)| (at.parse().unwrap(), line.parse().unwrap()))
        .collect();
    let (first, length): (u32, u32) = (first.parse().unwrap(), length.parse().unwrap());
    let found = lines(version, &table, first, 0);
    let each = if version >= Version(3, 6) { 2 } else { 1 };
    let unit = if version == Version(3, 10) { 2 } else { 1 };
    for at in (0..length).step_by(each) {
        let step = steps.partition_point(|&(from, _)| from <= at).checked_sub(1);
        let expected = step.map_or(first, |step| steps[step].1);
        assert_eq!(found.at(at / unit), expected, "{version}: position {at} of {length}: {line:.2000}");
    }
    length / each as u32
}
