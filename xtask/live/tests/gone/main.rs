//! Files that are deleted or replaced while the profile goes on: their frames have names, lines and
//! inlined functions.
//!
//! Each file is a copy of one that was compiled, with names and a build id of its own.
//!
//! Needs root: `cargo test -p live-suite --test gone -- --ignored --test-threads=1`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copies;

mod seen;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::copies::Copies;
use crate::seen::profile;

/// Programs of the test that CI runs.
const CI_PROGRAMS: usize = 200;

/// User id of nobody.
const NOBODY: u32 = 65534;

#[test]
#[ignore = "needs root"]
fn programs_that_are_deleted_have_names() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (seen, count) = profile(Duration::from_secs(600), || programs(CI_PROGRAMS));
    seen.require(count);
}

#[test]
#[ignore = "needs root"]
fn programs_that_are_deleted_have_names_in_short_windows() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (seen, count) = profile(Duration::from_secs(2), || programs(CI_PROGRAMS / 2));
    seen.require(count);
}

#[test]
#[ignore = "needs root"]
fn libraries_that_are_closed_and_deleted_have_names() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let (seen, count) = profile(Duration::from_secs(600), || libraries(CI_PROGRAMS / 8, false));
    seen.require(count);
}

/// Takes longer than CI has.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "takes minutes"]
    fn ten_thousand_programs_that_are_deleted_have_names() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let (seen, count) = profile(Duration::from_secs(3600), || programs(10_000));
        seen.require(count);
    }

    #[test]
    #[ignore = "needs root"]
    fn plugins_that_are_replaced_have_names() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let (seen, count) = profile(Duration::from_secs(600), || libraries(CI_PROGRAMS / 8, true));
        seen.require(count);
    }
}

/// Runs programs, two at a time, and deletes each once it ended. Returns their number.
fn programs(count: usize) -> usize {
    let copies = Copies::compile(&["-DPROGRAM"]);
    let mut running: Vec<(Child, String)> = Vec::new();
    for number in 0..count {
        if running.len() == 2 {
            end(running.remove(0));
        }
        let path = copies.make(number, &format!("gone{number}"));
        if number % 2 == 1 {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        running.push((Command::new(&path).spawn().unwrap(), path));
    }
    running.into_iter().for_each(end);
    settle();
    count
}

fn end((mut child, path): (Child, String)) {
    assert!(child.wait().unwrap().success());
    fs::remove_file(path).unwrap();
}

/// Calls libraries in one process, each of which is closed and deleted, or replaced by the next
/// one. Returns their number.
fn libraries(count: usize, has_one_name: bool) -> usize {
    // A library at the addresses of an earlier one is looked at within 250 ms: the kernel side knows
    // the mapping.
    let copies = Copies::compile(&["-fPIC", "-shared", "-DSECONDS=0.5"]);
    let mut host = Command::new(copies.host()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut lines) =
        (host.stdin.take().unwrap(), BufReader::new(host.stdout.take().unwrap()).lines());
    for number in 0..count {
        let name = if has_one_name { "plugin.so".to_owned() } else { format!("library{number}.so") };
        let path = copies.make(number, &name);
        writeln!(input, "{path}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "done");
        if !has_one_name {
            fs::remove_file(path).unwrap();
        }
    }
    drop(input);
    assert!(host.wait().unwrap().success());
    settle();
    count
}

/// The profiler looks for files that nobody maps any more some time after their processes.
fn settle() {
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
}
