//! Sources of programs: the name of a function stands where the function begins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::placed::{Places, Shown};

/// The files below a folder: one of some words stands where a function begins.
pub struct Sources {
    folder: PathBuf,
    /// Number of lines before that in which a function begins that may hold its name.
    before: usize,
    /// Returns the words one of which stands where a function with this name begins; none if any
    /// name may.
    words: fn(&str) -> Vec<&str>,
    lines: HashMap<PathBuf, Vec<String>>,
}

impl Sources {
    /// Creates an empty cache of the files below `folder`.
    pub fn new(folder: PathBuf, before: usize, words: fn(&str) -> Vec<&str>) -> Sources {
        Sources { folder, before, words, lines: HashMap::new() }
    }
}

impl Places for Sources {
    /// A function that begins in the first line is a file.
    fn have(&mut self, shown: &Shown<'_>, _: Option<&Shown<'_>>) -> Option<bool> {
        let (file, line) = (Path::new(shown.file), shown.start_line);
        if line == 0 || !file.starts_with(&self.folder) {
            return None;
        }
        let words = (self.words)(shown.name);
        let lines = self.lines.entry(file.to_owned()).or_insert_with(|| {
            let text = std::fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        });
        let last = lines.len().min(line as usize);
        let lines = &lines[last.saturating_sub(1 + self.before)..last];
        let has_word = |line: &String| words.iter().any(|word| line.contains(word));
        Some(line == 1 || words.is_empty() || lines.iter().any(has_word))
    }
}
