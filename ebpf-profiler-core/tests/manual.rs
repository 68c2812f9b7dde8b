//! The manual has each reason, each loss and each figure that the library and the README have.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::fs;

use ebpf_profiler_core::language::Reason;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::reason::Counter;

/// Returns a page.
fn page(name: &str) -> String {
    let path = format!("{}/src/manual/{name}.md", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the first cells of a page's tables, without code marks.
fn first_cells(page: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.map(|cell| cell.trim_matches('`').to_owned()).collect()
}

#[test]
fn explains_each_stop_reason() {
    let cells = first_cells(&page("losses"));
    let absent: Vec<&Stop> =
        Stop::ALL.iter().filter(|stop| !cells.iter().any(|cell| cell == stop.text())).collect();
    assert!(absent.is_empty() && Stop::ALL.len() > 20, "{absent:?}");
}

#[test]
fn explains_each_loss_of_the_kernel_side() {
    let cells = first_cells(&page("losses"));
    let losses: Vec<&str> =
        Counter::ALL.iter().map(|counter| counter.text()).filter(|text| text.contains("lost")).collect();
    let absent: Vec<_> = losses.iter().filter(|text| !cells.iter().any(|cell| cell == *text)).collect();
    assert!(absent.is_empty() && losses.len() >= 8, "{absent:?}");
}

#[test]
fn explains_each_reason_for_a_missing_name() {
    let cells = first_cells(&page("runtimes"));
    for reason in Reason::ALL {
        assert!(cells.iter().any(|cell| cell.ends_with(&format!(": {reason}]"))), "{reason}");
    }
}

#[test]
fn lists_each_form_of_triggers() {
    let events = page("events");
    for (form, _) in ebpf_profiler_core::Trigger::FORMS {
        let name = form.split([':', '[']).next().unwrap();
        assert!(events.contains(&format!("`{name}")), "{name}");
    }
}

/// The README shows some rows of the table.
#[test]
fn rows_of_the_readme_are_rows_of_the_cost_page() {
    let Ok(readme) = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")) else {
        return; // A package lacks it.
    };
    let (cost, _) = readme.split_once("<!-- /cost -->").unwrap();
    let (_, cost) = cost.split_once("<!-- cost -->").unwrap();
    let page = page("cost");
    let rows: Vec<&str> = cost.lines().filter(|line| line.starts_with("| ")).collect();
    assert!((5..=12).contains(&rows.len()), "{}", rows.len());
    for row in rows {
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
