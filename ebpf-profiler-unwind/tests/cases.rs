//! Stacks of real programs, walked again: each file in `tests/cases` says what is in it and what
//! should be found.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

use std::fs;
use std::path::{Path, PathBuf};

use ebpf_profiler_unwind::case::Case;

fn paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn texts() -> impl Iterator<Item = (String, String)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths().into_iter().map(move |path| (name(&path), fs::read_to_string(&path).unwrap()))
}

#[test]
fn each_is_walked_as_it_should_be() {
    let mut count = 0;
    for (name, text) in texts() {
        let case: Case = text.parse().unwrap_or_else(|error| unreachable!("{name}: {error}"));
        let (found, expected) = (case.walk(), case.expected());
        assert!(found == *expected, "{name}, {}: found\n{found}expected\n{expected}", case.about());
        assert!(text.len() < 20_000, "{name} is large");
        count += 1;
    }
    assert!(count >= 10, "only {count} cases");
}

#[test]
fn each_is_written_as_it_was_read() {
    for (name, text) in texts() {
        let case: Case = text.parse().unwrap();
        assert!(case.to_string() == text, "{name} is written as\n{case}");
    }
}

/// Each word that was read matters: without it a walk finds fewer frames.
#[test]
fn without_one_of_its_words_a_stack_is_another() {
    let (_, text) = texts().find(|(name, _)| name == "bash.case").unwrap();
    let memory: Vec<&str> = text.lines().filter(|line| line.starts_with("memory")).collect();
    let mut other = 0;
    for line in &memory {
        let case: Case = text.replace(&format!("{line}\n"), "").parse().unwrap();
        other += usize::from(case.walk() != *case.expected());
    }
    // Of saved frame pointers only few are ever needed.
    assert!(other * 2 >= memory.len(), "{other} of {}", memory.len());
}

#[test]
fn what_is_no_case_is_refused() {
    for (text, line, what) in [
        ("", 0, "the end is missing"),
        ("case 2\n", 1, "not a case of version 1"),
        ("case 1\nstop 0\npc 1\n", 3, "something behind the end"),
        ("case 1\nrow 1 2 0 0 0 0 0 0\n", 2, "a row without a mapping that has a table"),
        (
            "case 1\nmapping 0 1 0 bare -\nrow 1 2 0 0 0 0 0 0\n",
            3,
            "a row without a mapping that has a table",
        ),
        (
            "case 1\nmapping 0 1 0 table -\nrow 2 2 0 0 0 0 0 0\nrow 1 2 0 0 0 0 0 0\n",
            4,
            "rows that are not in order",
        ),
        (
            "case 1\nmapping 0 1 0 table -\nrow 2 2 0 0 0 0 0 0\nrow 100000002 2 0 0 0 0 0 0\n",
            4,
            "rows that are too far apart",
        ),
        ("case 1\nregister 32 0\n", 2, "an unknown register"),
        ("case 1\nmemory 7 0\n", 2, "an address that is not a multiple of eight"),
        ("case 1\nmemory fffffffffffffff8 0 0\n", 2, "memory behind the last address"),
        ("case 1\npc 1 2\n", 2, "a line with too many words"),
        ("case 1\nstop 200\n", 2, "an unknown reason"),
        ("case 1\nmapping 0 1 0 table xyz\n", 2, "not a build id"),
    ] {
        let error = text.parse::<Case>().unwrap_err();
        assert_eq!((error.line, error.what), (line, what), "{text}");
    }
}

#[test]
fn changed_cases_are_read_or_refused() {
    let mut random = 1u64;
    for (_, text) in texts() {
        let mut bytes = text.into_bytes();
        for _ in 0..40 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % bytes.len();
            let before =
                std::mem::replace(&mut bytes[at], b" 0123456789abcdef-\n"[(random >> 20) as usize % 19]);
            if let Ok(case) = String::from_utf8_lossy(&bytes).parse::<Case>() {
                case.walk();
                assert_eq!(
                    case.to_string().parse::<Case>().map(|again| again.to_string()),
                    Ok(case.to_string())
                );
            }
            bytes[at] = before;
        }
    }
}
