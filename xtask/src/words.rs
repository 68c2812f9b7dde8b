//! `cargo xtask words`: no doc line begins with a word that asks where a noun or a verb is
//! expected, no comment has a phrase that needs a second reading, and no name is a riddle.
//!
//! ```text
//! /// How a profile is written.        reported
//! /// The index, none where it ended.  reported: write "`None` if it ended"
//! /// Writes a profile.                fine
//! /// # How it works                   fine: a heading
//! /// What does it cost? 25 ms.        fine: a question
//! const MOST: usize = 64;              reported: write what there are at most 64 of
//! fn lose(&mut self) {}                reported: write `record_loss`
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, root};

/// Words that no doc line begins with.
const WORDS: &[&str] = &["What", "How", "Whether", "Who", "Where", "Why"];

/// Phrases that no comment has, each with a plain one.
const PHRASES: &[(&str, &str)] = &[
    ("none where", "`None` if"),
    ("makes no sense", "is implausible"),
    ("whoever", "a noun"),
    ("what becomes of", "a noun"),
    ("in the place of", "instead of"),
    ("comes to lie", "is at"),
    ("anew", "again"),
    ("wants to hear", "a verb"),
];

/// Names that no constant has: they say how much or how long, but not of what, or in which unit.
const BARE_NAMES: &[&str] = &[
    "MOST", "LEAST", "LONGEST", "SHORTEST", "LARGEST", "SMALLEST", "MANY", "FEW", "LONG", "SHORT", "SOON",
    "NEAR", "FAR", "AGE", "REST", "AGAIN", "ONCE", "OFTEN", "ROOM", "REACH", "BREATH", "PATIENCE", "TRUST",
    "DOUBTS", "LINGER", "SETTLE", "NOTICE", "SILENCE", "TIDY", "SWEEP", "LOOK",
];

/// Names that no function has, each with a plain one.
const FUNCTIONS: &[(&str, &str)] = &[
    ("lose", "`record_loss`"),
    ("know_nothing", "the operation"),
    ("know_scripts", "the operation, as `add_scripts`"),
    ("reconsider", "`recheck`"),
    ("behind", "`after`, or the operation"),
    ("around", "`containing`, or the operation"),
    ("lay_down", "`write`"),
    ("tell_anew", "`republish`"),
    ("take_back", "`withdraw`"),
];

/// The crate whose names may be riddles still: lines of its source are in the compiled object, which changes with them.
const COMPILED: &str = "ebpf-programs";

/// Folders that hold no source of ours.
const SKIPPED: &[&str] = &["target", ".git"];

/// Maximum number of lines that are printed where no folder is named.
const SHOWN: usize = 40;

/// Checks the doc comments of all Rust files, or of those in the folders that are named.
pub(crate) fn task(folders: &[String]) -> Outcome {
    let mut files = Vec::new();
    let everything = [String::new()];
    for folder in if folders.is_empty() { &everything } else { folders } {
        collect(&root().join(folder), &mut files)?;
    }
    files.sort();
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(file).display();
        found.extend(questions(&text).into_iter().map(|(line, text)| format!("{name}:{line}: {text}")));
        found.extend(riddles(&text).into_iter().map(|(line, advice)| format!("{name}:{line}: {advice}")));
        let named = if file.starts_with(root().join(COMPILED)) { Vec::new() } else { bare_names(&text) };
        found.extend(named.into_iter().map(|(line, advice)| format!("{name}:{line}: {advice}")));
    }
    if found.is_empty() {
        eprintln!("no doc line of {} files begins with {}", files.len(), WORDS.join(", "));
        eprintln!("no comment has one of {} phrases", PHRASES.len());
        eprintln!("no name is one of {}", BARE_NAMES.len() + FUNCTIONS.len());
        return Ok(());
    }
    let shown = if folders.is_empty() { SHOWN } else { found.len() };
    found.iter().take(shown).for_each(|line| eprintln!("{line}"));
    Err(format!(
        "{} lines begin with {}, or have a phrase or a name that needs a second reading",
        found.len(),
        WORDS.join(", ")
    ))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() {
            if !SKIPPED.contains(&&*name) {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the doc lines that begin with one of the words, with their numbers.
fn questions(text: &str) -> Vec<(usize, &str)> {
    let docs: Vec<Option<&str>> = text.lines().map(doc).collect();
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in docs.iter().enumerate() {
        let Some(line) = line else {
            is_code = false;
            continue;
        };
        is_code ^= line.starts_with("```");
        let first = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        if !is_code && WORDS.contains(&first) && !is_question(&docs[index..]) {
            found.push((index + 1, *line));
        }
    }
    found
}

/// Returns the comment lines that have one of the phrases, with their numbers and what to write
/// instead.
fn riddles(text: &str) -> Vec<(usize, String)> {
    let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for (index, line) in comments {
        // The examples of this file.
        let is_shown = line.contains("reported: write");
        for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| !is_shown && has_words(line, phrase)) {
            found.push((index + 1, format!("\"{phrase}\": write {plain}")));
        }
    }
    found
}

/// Returns the lines that give something a name of these lists, with their numbers and what to write instead.
fn bare_names(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, advice_on(line)?))).collect()
}

/// Returns what to write instead of the name that a line gives a constant or a function.
fn advice_on(line: &str) -> Option<String> {
    let line = line.trim_start();
    let visible = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    let (keyword, rest) = visible.trim_start().split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    match keyword {
        "const" | "static" if BARE_NAMES.contains(&name) => {
            Some(format!("{name}: write a noun, and its unit"))
        }
        "fn" => {
            let (_, plain) = FUNCTIONS.iter().find(|(function, _)| *function == name)?;
            Some(format!("{name}: write {plain}"))
        }
        _ => None,
    }
}

/// Returns `true` if a line has a phrase as whole words.
fn has_words(line: &str, phrase: &str) -> bool {
    let is_end = |neighbour: Option<char>| neighbour.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(phrase).any(|(start, _)| {
        is_end(line[..start].chars().next_back()) && is_end(line[start + phrase.len()..].chars().next())
    })
}

/// Returns the text of a doc comment's line, without the marks of a list, a table or an emphasis.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
    let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = numbered.strip_prefix(". ").filter(|_| numbered.len() < text.len()).unwrap_or(text);
    Some(text.trim_start_matches(['-', '*', '|', '>', ' ', '_']))
}

/// Returns `true` if the sentence that begins these lines ends with a question mark.
fn is_question(lines: &[Option<&str>]) -> bool {
    let paragraph = lines.iter().map_while(|line| line.filter(|line| !line.is_empty()));
    let text = paragraph.collect::<Vec<_>>().join(" ") + " ";
    let end = ["? ", ". ", ".) ", "?) "].into_iter().filter_map(|end| text.find(end)).min();
    end.is_some_and(|end| text[end..].starts_with('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        questions(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn reports_each_doc_line() {
        assert_eq!(
            lines("/// How it is.\nfn f();\n    //! - What it is\n/// 1. Where.\n/// | Who | x |"),
            [1, 3, 4, 5]
        );
        assert_eq!(lines("/// A name.\n/// Whether it is one."), [2]);
    }

    #[test]
    fn accepts_headings_questions_and_code() {
        let right = [
            "/// # How it works",
            "/// What does it cost? 25 ms.",
            "//! Where does a frame come from that\n//! nobody has called?",
            "/// ```text\n/// How\n/// ```",
            "// What it is",
            "/// However it is called",
            "/// the address\n/// where it stopped",
            "let s = \"/// What\";",
        ];
        for text in right {
            assert!(lines(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn reports_phrases_as_whole_words() {
        let lines = |text: &str| riddles(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("/// The index, none where it ended.\nlet x = 1;\n// Whoever, whoever."), [1, 3]);
        let right = "/// None. Where it ends.\n/// Whoeverybody, whoevers.\nlet s = \"whoever\";";
        assert!(lines(right).is_empty());
    }

    #[test]
    fn reports_names_of_constants_and_functions() {
        let lines = |text: &str| bare_names(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        let wrong = [
            "const MOST: usize = 1;",
            "    pub(in a::b) const PATIENCE: u8 = 1;",
            "pub fn lose(&mut self) {}",
            "pub(super) fn behind<'a>() {}",
            "static AGE: u8 = 1;",
        ];
        assert_eq!(lines(&wrong.join("\n")), [1, 2, 3, 4, 5]);
        let right = [
            "const MOST_SAMPLES: usize = 1;",
            "let MOST = 1;",
            "fn lose_weight() {}",
            "self.lose();",
            "// const MOST: usize",
            "const fn most() {}",
            "public",
        ];
        assert!(lines(&right.join("\n")).is_empty());
    }

    #[test]
    fn reports_after_code() {
        assert_eq!(lines("/// ```text\n/// x\n/// ```\n/// What it is"), [4]);
        assert_eq!(lines("/// ```text\nfn f();\n/// What it is"), [3]);
    }
}
