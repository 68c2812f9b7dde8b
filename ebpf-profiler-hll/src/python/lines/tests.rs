//! Line tables against what the interpreter that made them reads out of them.

use std::path::Path;

use super::*;

#[path = "../../../tests/live/interpreters.rs"]
mod interpreters;

/// All steps of a table.
fn steps(version: Version, table: &[u8], first: u32, positions: &[u32]) -> Vec<u32> {
    let lines = lines(version, table, first, 0);
    positions.iter().map(|&position| lines.at(position)).collect()
}

#[test]
fn increments_have_a_sign_from_3_6_on() {
    let table = [6, 1, 4, 250, 2, 1];
    assert_eq!(steps(Version(2, 7), &table, 10, &[0, 5, 6, 9, 10, 12]), [10, 10, 11, 11, 261, 262]);
    assert_eq!(steps(Version(3, 6), &table, 10, &[0, 5, 6, 9, 10, 12]), [10, 10, 11, 11, 5, 6]);
}

#[test]
fn what_has_not_begun_is_on_its_first_line() {
    let table = [6, 1, 4, 1];
    for version in [Version(2, 7), Version(3, 9), Version(3, 10)] {
        assert_eq!(steps(version, &table, 10, &[u32::MAX]), [10], "{version}");
    }
    // One instruction before the first, and one that is elsewhere altogether.
    let lines = lines(Version(3, 12), &[0x80 | 13 << 3, 2], 10, 192);
    assert_eq!([190, 192, 193, 194, u32::MAX].map(|position| lines.at(position)), [10, 11, 11, 0, 0]);
}

#[test]
fn ranges_of_3_10_may_have_no_line() {
    // Six bytes on the line behind the first, four without, two on the line after that.
    let table = [6, 1, 4, 0x80, 0, 2, 2, 1];
    assert_eq!(steps(Version(3, 10), &table, 10, &[0, 2, 3, 4, 5]), [11, 11, 0, 0, 14]);
}

#[test]
fn tables_cut_anywhere_do_no_harm() {
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
fn lines_are_what_the_interpreter_reads() {
    let interpreters = interpreters::all();
    assert!(!interpreters.is_empty(), "no interpreter here");
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

/// Compares the lines of every position of a code object; how many there are.
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
        let said = step.map_or(first, |step| steps[step].1);
        assert_eq!(found.at(at / unit), said, "{version}: position {at} of {length}: {line:.2000}");
    }
    length / each as u32
}
