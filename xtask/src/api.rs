//! `cargo xtask api`: the public items of each library as text, in `public-api.txt` beside its
//! `Cargo.toml`.
//!
//! ```text
//! Builder: pub struct Builder
//! Builder: impl Clone
//! Builder::frequency: pub fn frequency(mut self, hertz: u32) -> Builder
//! ```
//!
//! rustdoc's JSON says which items are public and under which paths; a signature is the source text
//! that it points at. The items of other crates that a library exports stand there by name alone.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::crates::{LIBRARIES, features};
use crate::run::{Outcome, cargo, json, root, run, target};

/// Writes the files, or with `--check` compares them.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let check = arguments.first().is_some_and(|argument| argument == "--check");
    let mut differing = Vec::new();
    documents()?;
    for library in LIBRARIES {
        let path = root().join(library).join("public-api.txt");
        let fresh = text(&document(library)?)?;
        let committed = fs::read_to_string(&path).unwrap_or_default();
        eprintln!("{library}: {} lines", fresh.lines().count());
        if fresh == committed {
            continue;
        }
        if !check {
            fs::write(&path, &fresh).map_err(|error| format!("{}: {error}", path.display()))?;
            continue;
        }
        differences(&committed, &fresh).iter().for_each(|line| eprintln!("  {line}"));
        differing.push(*library);
    }
    match &differing[..] {
        [] => Ok(()),
        all => Err(format!("public items of {} changed; run: cargo xtask api", all.join(", "))),
    }
}

/// Writes rustdoc's JSON of all libraries, with all features but those of the kernel side.
fn documents() -> Outcome {
    let mut doc = cargo(&["doc", "--quiet", "--lib", "--no-deps"]);
    doc.args(LIBRARIES.iter().flat_map(|library| ["-p", library])).arg("--features").arg(features()?);
    doc.arg("--target-dir").arg(folder());
    // The format is unstable; the parts that are read here have been the same for years.
    doc.env("RUSTC_BOOTSTRAP", "1").env("RUSTDOCFLAGS", "-Zunstable-options --output-format json");
    run(&mut doc)
}

/// Returns the JSON of a library.
fn document(library: &str) -> Result<Value, String> {
    let path = folder().join("doc").join(format!("{}.json", library.replace('-', "_")));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    json(&text)
}

fn folder() -> PathBuf {
    target().join("api")
}

/// Lines of one text that the other lacks, marked as in a diff.
fn differences(old: &str, new: &str) -> Vec<String> {
    let [before, after] = [old, new].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect()
}

/// The public items, a line each, sorted.
fn text(document: &Value) -> Result<String, String> {
    let number = document["root"].as_u64().ok_or("rustdoc's JSON has no root")?;
    let index = document["index"].as_object().ok_or("no items")?;
    let items = index.iter().filter_map(|(number, item)| Some((number.parse().ok()?, item)));
    let mut reader = Reader { items: items.collect(), lines: BTreeSet::new(), sources: HashMap::new() };
    reader.children(number, "", 0);
    Ok(reader.lines.into_iter().map(|line| line + "\n").collect())
}

struct Reader<'d> {
    items: HashMap<u64, &'d Value>,
    lines: BTreeSet<String>,
    sources: HashMap<PathBuf, Vec<String>>,
}

/// Maximum number of modules and exports around an item.
const DEEPEST: usize = 20;

/// Fields of rustdoc's JSON that hold numbers of items in an item.
const MEMBERS: &[&str] = &["items", "variants", "fields", "impls"];

impl<'d> Reader<'d> {
    /// The items in a module, a type, a trait or an implementation.
    fn children(&mut self, number: u64, path: &str, depth: usize) {
        let Some((_, inner)) = self.items.get(&number).and_then(|item| inner(item)) else { return };
        for member in members(inner) {
            self.item(member, path, depth + 1);
        }
    }

    fn item(&mut self, number: u64, parent: &str, depth: usize) {
        let Some(item) = self.items.get(&number).copied().filter(|_| depth < DEEPEST) else { return };
        let Some((kind, inner)) = inner(item) else { return };
        match kind {
            "use" => return self.export(inner, parent, depth),
            "impl" => return self.implementation(number, item, inner, parent, depth),
            _ => {}
        }
        let name = item["name"].as_str().unwrap_or_default();
        self.named(number, name, parent, depth);
    }

    fn named(&mut self, number: u64, name: &str, parent: &str, depth: usize) {
        let Some(item) = self.items.get(&number).copied() else { return };
        let Some((kind, _)) = inner(item) else { return };
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
        let signature = match kind {
            "module" => "pub mod".to_owned(),
            "macro" => "macro".to_owned(),
            _ => self.signature(item, kind),
        };
        self.lines.insert(format!("{path}: {signature}"));
        // The text of a variant holds its fields.
        if kind != "variant" {
            self.children(number, &path, depth);
        }
    }

    /// An item under another path; or, if it is of another crate, its name.
    fn export(&mut self, inner: &Value, parent: &str, depth: usize) {
        let name = inner["name"].as_str().unwrap_or_default();
        let is_glob = inner["is_glob"] == true;
        match inner["id"].as_u64().filter(|number| self.items.contains_key(number)) {
            Some(number) if is_glob => self.children(number, parent, depth),
            Some(number) => self.named(number, name, parent, depth),
            None => {
                let source = inner["source"].as_str().unwrap_or_default();
                let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
                self.lines.insert(format!("{path}: pub use {source}"));
            }
        }
    }

    fn implementation(&mut self, number: u64, item: &Value, inner: &Value, parent: &str, depth: usize) {
        if !inner["blanket_impl"].is_null() || inner["is_synthetic"] == true {
            return;
        }
        let Some(name) = inner["trait"]["path"].as_str() else {
            return self.children(number, parent, depth);
        };
        let written = self.signature(item, "impl");
        let line =
            if written.contains("impl") && written != "impl" { written } else { format!("impl {name}") };
        if name != "StructuralPartialEq" {
            self.lines.insert(format!("{parent}: {line}"));
        }
    }

    /// The source text of an item up to its body or value.
    fn signature(&mut self, item: &Value, kind: &str) -> String {
        let Some(lines) = self.source(item) else { return kind.to_owned() };
        let is_code = |line: &&String| {
            let line = line.trim_start();
            !(line.starts_with("//") || line.starts_with("#["))
        };
        let text = lines.iter().filter(is_code).map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let ends: &[&str] = match kind {
            "struct" | "union" => &["{", "(", ";"],
            "enum" | "trait" | "impl" | "function" => &["{", ";"],
            "constant" | "static" | "assoc_const" | "assoc_type" => &[" =", ";"],
            "struct_field" | "variant" => &[],
            _ => &[";"],
        };
        let end = ends.iter().filter_map(|end| find_outside_arrays(&text, end)).min().unwrap_or(text.len());
        text[..end].trim().trim_end_matches(',').to_owned()
    }

    /// The lines that an item's span covers.
    fn source(&mut self, item: &Value) -> Option<Vec<String>> {
        let span = &item["span"];
        let number = |name: &str, index: usize| Some(span[name][index].as_u64()? as usize);
        let (first, from) = (number("begin", 0)?, number("begin", 1)?);
        let (last, to) = (number("end", 0)?, number("end", 1)?);
        let path = root().join(span["filename"].as_str()?);
        let read = || fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
        let source = self.sources.entry(path.clone()).or_insert_with(read);
        let mut lines = source.get(first.checked_sub(1)?..last)?.to_vec();
        let end = lines.last_mut()?;
        end.truncate(end.char_indices().nth(to.checked_sub(1)?).map_or(end.len(), |(at, _)| at));
        let start = lines.first_mut()?;
        *start = start.chars().skip(from.checked_sub(1)?).collect();
        Some(lines)
    }
}

/// The kind of an item, and what that kind has.
fn inner(item: &Value) -> Option<(&str, &Value)> {
    item["inner"].as_object()?.iter().next().map(|(kind, inner)| (kind.as_str(), inner))
}

/// The numbers of the items in an item; those of a struct's fields are one level further down.
fn members(inner: &Value) -> Vec<u64> {
    let kind = &inner["kind"];
    let holders = [inner, &kind["plain"], &kind["struct"]];
    let lists = holders.into_iter().flat_map(|holder| MEMBERS.iter().map(|name| &holder[*name]));
    let lists = lists.chain([&kind["tuple"]]).filter_map(Value::as_array);
    lists.flatten().filter_map(Value::as_u64).collect()
}

/// Returns the position of a text that is not in brackets: an array type has a semicolon.
fn find_outside_arrays(text: &str, part: &str) -> Option<usize> {
    let depth = |before: &str| before.matches('[').count().saturating_sub(before.matches(']').count());
    text.match_indices(part).map(|(at, _)| at).find(|&at| depth(&text[..at]) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_items_under_their_public_paths() {
        let item = |number: u32, name: &str, inner: &str| {
            format!(r#""{number}":{{"name":"{name}","inner":{{{inner}}}}}"#)
        };
        let items = [
            item(0, "own", r#""module":{"items":[1,2]}"#),
            item(1, "m", r#""module":{"items":[3]}"#),
            item(2, "", r#""use":{"source":"hidden::S","name":"T","id":4,"is_glob":false}"#),
            item(3, "", r#""use":{"source":"bytes::Bytes","name":"Bytes","id":9,"is_glob":false}"#),
            item(4, "S", r#""struct":{"kind":{"plain":{"fields":[5]}},"impls":[6]}"#),
            item(5, "field", r#""struct_field":{}"#),
            item(
                6,
                "",
                r#""impl":{"trait":{"path":"Clone"},"is_synthetic":false,"blanket_impl":null,"items":[]}"#,
            ),
        ];
        let document = format!(r#"{{"root":0,"index":{{{}}}}}"#, items.join(","));
        let text = text(&json(&document).unwrap()).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "T: impl Clone",
                "T: struct",
                "T::field: struct_field",
                "m: pub mod",
                "m::Bytes: pub use bytes::Bytes"
            ]
        );
    }

    #[test]
    fn names_lines_that_differ() {
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    }
}
