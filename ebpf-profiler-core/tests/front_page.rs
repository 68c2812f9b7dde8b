//! Shared passages of the workspace's README, this crate's README and its front page are equal.
//!
//! They mark these passages with comments: `<!-- needs --> ... <!-- /needs -->`. The workspace's
//! README is the original: `FRONT_PAGE=write cargo test -p ebpf-profiler-core --test front_page`
//! updates the others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// Names of the passages.
const SHARED: [&str; 6] = ["sentence", "dependencies", "code", "prints", "not", "needs"];

#[test]
fn readme_and_front_page_agree() {
    let readme = readme();
    if std::env::var_os("FRONT_PAGE").is_some_and(|value| value == "write") {
        write(&readme);
    }
    let page = documentation(&fs::read_to_string(PAGE).unwrap());
    let own = fs::read_to_string(README).unwrap();
    for name in SHARED {
        assert_eq!(shown(passage(&page, name)), shown(passage(&readme, name)), "{name}");
        assert_eq!(passage(&own, name), passage(&readme, name), "{name}");
    }
}

#[test]
fn first_sentence_is_the_description() {
    let readme = readme();
    assert_eq!(passage(&readme, "sentence").trim(), concat!(env!("CARGO_PKG_DESCRIPTION"), "."));
}

#[test]
fn code_comes_early_and_is_short() {
    let readme = readme();
    let code = passage(&readme, "code").lines().filter(|line| !line.is_empty() && !line.starts_with("```"));
    assert!(code.count() <= 12);
}

/// The registry shows the crate's README alone, so nothing there leads to a file of the repository.
#[test]
fn readme_of_the_crate_links_to_web_pages_only() {
    let own = fs::read_to_string(README).unwrap();
    let targets: Vec<&str> = own.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(targets.len() >= 4 && targets.iter().all(|target| target.starts_with("https://")), "{targets:?}");
}

/// Returns the workspace's README; in a package, which lacks it, the crate's.
fn readme() -> String {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    fs::read_to_string(workspace).or_else(|_| fs::read_to_string(README)).unwrap()
}

/// Returns the text of a file's `//!` comments.
fn documentation(source: &str) -> String {
    let text = |line: &str| Some(line.strip_prefix("//!")?.strip_prefix(' ').unwrap_or("").to_owned() + "\n");
    source.lines().filter_map(text).collect()
}

/// Returns the text between the marks of a passage.
fn passage<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("<!-- {name} -->\n")).unwrap_or_else(|| panic!("no {name}"));
    rest.split_once(&format!("<!-- /{name} -->")).unwrap_or_else(|| panic!("{name} has no end")).0
}

/// Returns a passage without the lines that rustdoc hides.
fn shown(passage: &str) -> String {
    passage.lines().filter(|line| !line.starts_with("# ")).map(|line| format!("{line}\n")).collect()
}

/// Copies the README's passages to the crate's README and to the front page, except those in which
/// the page hides lines.
fn write(readme: &str) {
    let mut own = fs::read_to_string(README).unwrap();
    for name in SHARED {
        own = own.replace(passage(&own, name), passage(readme, name));
    }
    fs::write(README, own).unwrap();
    let mut source = fs::read_to_string(PAGE).unwrap();
    for name in SHARED {
        let (from, to) = (format!("//! <!-- {name} -->\n"), format!("//! <!-- /{name} -->"));
        let start = source.find(&from).unwrap() + from.len();
        let end = start + source[start..].find(&to).unwrap();
        if !source[start..end].contains("//! # ") {
            let lines = passage(readme, name).lines();
            let new: String = lines.map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect();
            source.replace_range(start..end, &new);
        }
    }
    fs::write(PAGE, source).unwrap();
}
