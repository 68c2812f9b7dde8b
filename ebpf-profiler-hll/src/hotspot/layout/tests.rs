//! Rows that were read from running virtual machines, with those of one version in each column.

use super::*;

const ROWS: &str = include_str!("rows.tsv");

/// Returns the rows of a version, by name.
fn rows(version: i32) -> Vec<(&'static str, u64)> {
    let mut lines = ROWS.lines().map(|line| line.split('\t'));
    let column = lines.next().unwrap().position(|name| name == version.to_string()).unwrap();
    let cell = |mut line: std::str::Split<'static, char>| {
        let name = line.next()?;
        Some((name, line.nth(column - 1)?.parse().ok()?))
    };
    lines.filter_map(cell).collect()
}

fn layout(rows: &[(&str, u64)], version: i32) -> Option<Layout> {
    Layout::of(&Tables::of(rows), version).ok()
}

#[test]
fn all_forms_of_rows_are_known() {
    for version in [8, 11, 17, 21, 25, 26, 27, 28] {
        let layout = layout(&rows(version), version).unwrap();
        let deopt = layout.nmethod.deopt.unwrap();
        assert_eq!(deopt.handler_mh.is_some(), version < 26, "{version}");
        let scopes = layout.nmethod.scopes.unwrap();
        assert_eq!(matches!(scopes.scopes, Scopes::Outside { .. }), version >= 25, "{version}");
        assert_eq!(matches!(scopes.methods, Methods::Outside { .. }), version >= 25, "{version}");
        assert!(layout.method.has_lines.is_some() && layout.method.source.is_some(), "{version}");
        assert!(layout.heap.array.is_some(), "{version}");
    }
}

#[test]
fn methods_of_23_are_in_the_data_of_the_blob() {
    let mut rows = rows(25);
    rows.retain(|(name, _)| !name.starts_with("CodeBlob._mutable"));
    rows.push(("nmethod._metadata_offset", 190));
    let scopes = layout(&rows, 23).unwrap().nmethod.scopes.unwrap();
    assert!(matches!(scopes.methods, Methods::InData { data: 40, metadata: 190 }), "{scopes:?}");
}

#[test]
fn length_of_symbols_may_be_above_the_number_of_users() {
    let mut rows = rows(11);
    rows.retain(|(name, _)| *name != "Symbol._length");
    rows.push(("Symbol._length_and_refcount", 0));
    assert_eq!(layout(&rows, 12).unwrap().method.symbol_length, 2);
}

#[test]
fn missing_row_costs_only_what_needs_it() {
    for version in [8, 17, 27] {
        let without = |left_out: &str| {
            let mut rows = rows(version);
            let count = rows.len();
            rows.retain(|(name, _)| *name != left_out);
            assert_ne!(rows.len(), count, "{left_out}");
            layout(&rows, version)
        };
        let scopes = without("nmethod._scopes_pcs_offset").unwrap();
        assert!(scopes.nmethod.scopes.is_none() && scopes.nmethod.deopt.is_some());
        // A handler has no scopes, so that positions in it would get those of other code.
        let deopt = without("nmethod._orig_pc_offset").unwrap();
        assert!(deopt.nmethod.deopt.is_none() && deopt.nmethod.scopes.is_none());
        let flags = if version == 27 { "ConstMethod._flags._flags" } else { "ConstMethod._flags" };
        assert!(without(flags).unwrap().method.has_lines.is_none());
        assert!(without("nmethod._compile_id").is_none());
    }
}
