//! The table of CPython's offsets against the debug information of CPython.
//!
//! `OFFSETS=write cargo test -p ebpf-profiler-hll --test offsets -- --ignored` rewrites the table.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/python/offsets.tsv");

const VERSIONS: [&str; 8] = ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12"];

/// Indices of the first and the last of [`VERSIONS`] that have a field.
type Span = (usize, usize);

const ALL: Span = (0, 7);
const ONLY_2: Span = (0, 0);
const ONLY_3: Span = (1, 7);
const FROM_3_7_TO_3_11: Span = (2, 6);
const TO_3_9: Span = (0, 4);
const FROM_3_10: Span = (5, 7);
const TO_3_10: Span = (0, 5);
const FROM_3_11: Span = (6, 7);
const ONLY_3_11: Span = (6, 6);
const ONLY_3_12: Span = (7, 7);

/// Row of the table, versions, and the expression for debuggers: a type and its field; no field for
/// the type's size.
const FIELDS: [(&str, Span, &str, &str); 37] = [
    ("thread.frame", TO_3_10, "struct _ts", "frame"),
    ("thread.cframe", FROM_3_11, "struct _ts", "cframe"),
    ("interpreter.next", ALL, "struct _is", "next"),
    ("interpreter.threads", TO_3_10, "struct _is", "tstate_head"),
    ("interpreter.threads", FROM_3_11, "struct _is", "threads.head"),
    ("thread.next", ALL, "struct _ts", "next"),
    ("thread.thread_id", ALL, "struct _ts", "thread_id"),
    ("runtime.current", FROM_3_7_TO_3_11, "_PyRuntimeState", "gilstate.tstate_current"),
    ("runtime.key", FROM_3_7_TO_3_11, "_PyRuntimeState", "gilstate.autoTSSkey"),
    ("cframe.current_frame", FROM_3_11, "_PyCFrame", "current_frame"),
    ("frame.previous", TO_3_10, "struct _frame", "f_back"),
    ("frame.previous", FROM_3_11, "struct _PyInterpreterFrame", "previous"),
    ("frame.code", TO_3_10, "struct _frame", "f_code"),
    ("frame.code", FROM_3_11, "struct _PyInterpreterFrame", "f_code"),
    ("frame.position", TO_3_10, "struct _frame", "f_lasti"),
    ("frame.position", FROM_3_11, "struct _PyInterpreterFrame", "prev_instr"),
    ("frame.is_entry", ONLY_3_11, "struct _PyInterpreterFrame", "is_entry"),
    ("frame.owner", FROM_3_11, "struct _PyInterpreterFrame", "owner"),
    ("code.size", ALL, "PyCodeObject", ""),
    ("code.filename", ALL, "PyCodeObject", "co_filename"),
    ("code.name", ALL, "PyCodeObject", "co_name"),
    ("code.qualname", FROM_3_11, "PyCodeObject", "co_qualname"),
    ("code.firstlineno", ALL, "PyCodeObject", "co_firstlineno"),
    ("code.version", ONLY_3_12, "PyCodeObject", "co_version"),
    ("code.table", TO_3_9, "PyCodeObject", "co_lnotab"),
    ("code.table", FROM_3_10, "PyCodeObject", "co_linetable"),
    ("code.instructions", FROM_3_11, "PyCodeObject", "co_code_adaptive"),
    ("str.length", ONLY_3, "PyASCIIObject", "length"),
    ("str.state", ONLY_3, "PyASCIIObject", "state"),
    ("str.ascii", ONLY_3, "PyASCIIObject", ""),
    ("str.wide", ONLY_3, "PyCompactUnicodeObject", ""),
    ("bytes.size", ALL, "PyVarObject", "ob_size"),
    ("bytes.data", ONLY_2, "PyStringObject", "ob_sval"),
    ("bytes.data", ONLY_3, "PyBytesObject", "ob_sval"),
    ("object.type", ALL, "PyObject", "ob_type"),
    ("type.name", ALL, "PyTypeObject", "tp_name"),
    ("type.members", ALL, "PyTypeObject", "tp_members"),
];

#[test]
#[ignore = "needs interpreters with debug information, and gdb"]
fn table_matches_debug_information() {
    test_needs::programs!("gdb");
    let mut found_offsets = BTreeMap::new();
    let libraries = VERSIONS.map(library);
    for (column, library) in libraries.iter().enumerate() {
        let Some(library) = library else { continue };
        let fields = ask(library, column);
        eprintln!("{}: {} fields", library.display(), fields.len());
        found_offsets.extend(fields.into_iter().map(|(field, offset)| ((field, column), offset)));
    }
    if std::env::var_os("OFFSETS").is_some_and(|what| what == "write") {
        assert!(libraries.iter().all(Option::is_some), "not all versions are installed");
        std::fs::write(TABLE, written(&found_offsets)).unwrap();
    }
    // Compare the installed versions.
    let table = std::fs::read_to_string(TABLE).unwrap();
    let mut rows = table.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rows.next().unwrap().split('\t').skip(1).collect::<Vec<_>>(), VERSIONS);
    for row in rows {
        let mut cells = row.split('\t');
        let field = cells.next().unwrap();
        for (column, cell) in cells.enumerate().filter(|(column, _)| libraries[*column].is_some()) {
            let found = found_offsets.iter().find(|((name, at), _)| *name == field && *at == column);
            let found = found.map_or("-".to_owned(), |(_, offset)| offset.to_string());
            assert_eq!(found, cell, "{field} of {}", VERSIONS[column]);
        }
    }
}

/// Returns pyenv's library of a version.
fn library(version: &str) -> Option<PathBuf> {
    let versions = Path::new(&std::env::var_os("HOME")?).join(".pyenv/versions");
    let mut found = std::fs::read_dir(versions).ok()?.flatten();
    let directory =
        found.find(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}.")))?;
    let mut files = std::fs::read_dir(directory.path().join("lib")).ok()?.flatten().map(|entry| entry.path());
    files.find(|path| path.to_string_lossy().ends_with(".so.1.0"))
}

/// Returns the offsets of a version's fields by gdb.
fn ask(library: &Path, column: usize) -> BTreeMap<&'static str, u32> {
    let mut command = Command::new("gdb");
    command.args(["-batch", "-nx"]);
    for (field, (first, last), kind, member) in FIELDS {
        if (first..=last).contains(&column) {
            let expression = match member {
                "" => format!("sizeof({kind})"),
                _ => format!("(long)&(({kind} *)0)->{member}"),
            };
            command.arg("-ex").arg(format!("printf \"{field} %ld\\n\", {expression}"));
        }
    }
    let output = command.arg(library).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter_map(|(field, offset)| {
            let row = FIELDS.iter().find(|row| row.0 == field)?;
            Some((row.0, offset.parse().ok()?))
        })
        .collect()
}

fn written(cells: &BTreeMap<(&'static str, usize), u32>) -> String {
    let mut table = String::from(HEAD);
    let _ = writeln!(table, "field\t{}", VERSIONS.join("\t"));
    let mut fields: Vec<&str> = FIELDS.iter().map(|row| row.0).collect();
    fields.dedup();
    for field in fields {
        table.push_str(field);
        for column in 0..VERSIONS.len() {
            match cells.get(&(field, column)) {
                Some(offset) => write!(table, "\t{offset}").unwrap(),
                None => table.push_str("\t-"),
            }
        }
        table.push('\n');
    }
    table
}

const HEAD: &str = "\
# Offsets of fields of CPython's structures on 64-bit machines, in bytes, for versions that don't describe themselves.
# Source: DWARF of CPython 2.7.18 3.6.15 3.7.16 3.8.18 3.9.18 3.10.13 3.11.7 3.12.1, built with pyenv; \"-\": no such field.
# Written by: OFFSETS=write cargo test -p ebpf-profiler-hll --test offsets -- --ignored
";
