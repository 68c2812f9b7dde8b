//! The table.

use ebpf_profiler_core::sink::Table;
use ebpf_profiler_core::testing;

/// Self, total and name of each row.
fn rows(stacks: &str) -> Vec<(u64, u64, String)> {
    let table = Table::new(&testing::profile(stacks)).to_string();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.replace(',', "").parse().expect("a count");
        (number(words[0]), number(words[3]), words[6].to_owned())
    };
    table.lines().skip(1).map(row).collect()
}

#[test]
fn recursion_counts_once_in_total() {
    let found = rows("a;main;f;g;f;g 3\na;main;g;f 2\na;main 1");
    assert_eq!(found, [(3, 5, "g".into()), (2, 5, "f".into()), (1, 6, "main".into())]);
}

#[test]
fn an_inlined_function_is_the_same_function() {
    let found = rows("a;main;f 3\na;main;f_[i] 2");
    assert_eq!(found, [(5, 5, "f".into()), (0, 5, "main".into())]);
}

#[test]
fn functions_of_two_files_are_two() {
    let found = rows("a;main;x.so`f 3\na;main;y.so`f 2");
    assert_eq!(found.iter().filter(|(_, _, name)| name == "f").count(), 2);
}

#[test]
fn no_line_is_too_wide() {
    let name = "a_name_that_goes_on".repeat(20);
    let profile = testing::profile(&format!("a;main;{name}`{name} 3\na;main 123456"));
    for width in [60, 80, 133] {
        let table = Table::new(&profile).width(width).to_string();
        assert!(table.lines().all(|line| line.chars().count() <= width), "{width}:\n{table}");
        assert!(table.contains('…'));
    }
}

#[test]
fn rows_are_counted() {
    let profile = testing::profile("a;b;c;d;e 1");
    assert_eq!(Table::new(&profile).rows(2).to_string().lines().count(), 3);
}

#[test]
fn it_says_that_there_is_nothing() {
    assert_eq!(Table::new(&testing::profile("")).to_string(), "no samples\n");
}
