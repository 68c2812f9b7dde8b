//! Subs of a program with their lines, as Perl itself lists them in another run of it.
//!
//! | frame | stands |
//! |---|---|
//! | sub | in the lines of the innermost sub there, which has this name, and begins there |
//! | `BEGIN` | behind a line that begins with one of its words: Perl lists one of each package |
//! | `(eval)` of the file around it | in the innermost sub of the frame around it |
//! | `(eval)` of another file | in the file |
//! | `{main}` | outside subs |
//!
//! The outermost frame is the program, or code that Perl calls itself.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use crate::interpreter::Interpreter;
use live_suite::workload::placed::{Places, Shown};

/// Words that begin the code of a `BEGIN`, and of another sub.
const BEGIN: &[&str] = &["use ", "no ", "BEGIN"];
const SUB: &str = "sub ";

/// Ends of the names of outermost frames: the program, and what Perl calls itself.
const OUTERMOST: &[&str] = &["{main}", "::BEGIN", "::END", "::INIT", "::CHECK", "::UNITCHECK", "::DESTROY"];

/// The subs of each file.
pub(crate) struct Subs<'i> {
    interpreter: &'i Interpreter,
    files: HashMap<String, Vec<Sub>>,
    texts: HashMap<String, Vec<String>>,
}

/// A sub of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sub {
    name: String,
    lines: RangeInclusive<u32>,
}

impl<'i> Subs<'i> {
    /// Runs a program that loads the module which prints them.
    pub(crate) fn of(interpreter: &'i Interpreter, mut command: Command) -> Subs<'i> {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
        let mut files: HashMap<_, Vec<Sub>> = HashMap::new();
        for (file, sub) in text.lines().filter_map(parsed) {
            files.entry(file.to_owned()).or_default().push(sub);
        }
        Subs { interpreter, files, texts: HashMap::new() }
    }

    /// Returns the innermost subs on a line: several if one begins or ends there.
    fn innermost(&self, file: &str, line: u32) -> Vec<&Sub> {
        let all = || self.files.get(file).into_iter().flatten().filter(|sub| sub.lines.contains(&line));
        all().filter(|sub| !all().any(|inner| inner.is_inside(sub, line))).collect()
    }

    /// Returns `true` if code outside subs is on a line.
    fn has_outside(&self, file: &str, line: u32) -> bool {
        self.innermost(file, line).iter().all(|sub| [sub.lines.start(), sub.lines.end()].contains(&&line))
    }

    /// Returns `true` if the code on a line of a file belongs to `BEGIN`, or to `use`.
    fn has_begin(&mut self, file: &str, line: u32) -> bool {
        let words = |line: &String| {
            let line = line.trim_start();
            BEGIN.iter().chain([&SUB]).find(|word| line.starts_with(**word)).copied()
        };
        self.text(file).iter().take(line as usize).rev().find_map(words).is_some_and(|word| word != SUB)
    }

    /// Returns the lines of a file.
    fn text(&mut self, file: &str) -> &[String] {
        self.texts.entry(file.to_owned()).or_insert_with(|| {
            let outside = self.interpreter.outside(Path::new(file));
            let text = std::fs::read(outside).or_else(|_| std::fs::read(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        })
    }
}

impl Places for Subs<'_> {
    fn have(&mut self, shown: &Shown<'_>, around: Option<&Shown<'_>>) -> Option<bool> {
        let &Shown { name, file, line, start_line } = shown;
        if around.is_none() && !OUTERMOST.iter().any(|end| name.ends_with(end)) {
            return Some(false);
        }
        // A sub that is being entered has no line yet.
        let lines = [line, start_line].into_iter().filter(|line| *line != 0);
        let around = around.filter(|around| around.file == file);
        Some(match name {
            "(eval)" if around.is_some_and(|around| around.name != "{main}") => {
                let [own, around] = [Some(shown), around]
                    .map(|shown| shown.map_or_else(Vec::new, |it| self.innermost(it.file, it.line)));
                own.iter().any(|sub| around.contains(sub)) || own == around && line != 0
            }
            // While a file is compiled, its line is the one that the compiler reads.
            "(eval)" => line != 0 && (file.starts_with("(eval ") || self.text(file).len() >= line as usize),
            "{main}" => line != 0 && self.has_outside(file, line),
            _ if name.ends_with("::BEGIN") => self.has_begin(file, line.max(start_line)),
            _ => {
                let mut lines = lines.peekable();
                lines.peek().is_some()
                    && lines.all(|line| self.innermost(file, line).iter().any(|sub| sub.name == name))
            }
        })
    }
}

impl Sub {
    /// Returns `true` if a line is within this sub, which is within another one.
    fn is_inside(&self, other: &Sub, line: u32) -> bool {
        let (inner, outer) = (&self.lines, &other.lines);
        let is_part = inner != outer && inner.start() >= outer.start() && inner.end() <= outer.end();
        is_part && *inner.start() < line && line < *inner.end()
    }
}

/// Returns the file of a printed sub, and the sub.
fn parsed(line: &str) -> Option<(&str, Sub)> {
    let ["sub", name, place] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
    let (file, lines) = place.rsplit_once(':')?;
    let (first, last) = lines.split_once('-')?;
    // An anonymous sub has its place behind its name.
    let name = name.split_once('[').map_or(name, |(name, _)| name).to_owned();
    Some((file, Sub { name, lines: first.parse().ok()?..=last.parse().ok()? }))
}

#[test]
fn finds_innermost_subs() {
    let perl = Interpreter::installed();
    let printed = ["a\t/f.pl:3-20", "b::__ANON__[/f.pl:9]\t/f.pl:5-9", "c\t/f.pl:30-30"];
    let subs = printed.map(|sub| format!("sub\t{sub}"));
    let subs = subs.iter().filter_map(|line| Some(parsed(line)?.1)).collect();
    let mut subs = Subs {
        interpreter: &perl,
        files: HashMap::from([("/f.pl".to_owned(), subs)]),
        texts: HashMap::new(),
    };
    let names = |line| subs.innermost("/f.pl", line).iter().map(|sub| sub.name.as_str()).collect::<Vec<_>>();
    assert_eq!([names(4), names(7), names(21)], [vec!["a"], vec!["b::__ANON__"], vec![]]);
    assert_eq!(names(5), ["a", "b::__ANON__"]);
    let shown = |name, line| Shown { name, file: "/f.pl", line, start_line: 0 };
    let mut have = |name, line, around: Option<(&'static str, u32)>| {
        let around = around.map(|(name, line)| shown(name, line));
        subs.have(&shown(name, line), around.as_ref()) == Some(true)
    };
    let main = Some(("{main}", 1));
    assert!(have("a", 4, main) && !have("a", 7, main) && !have("a", 30, main) && !have("a", 0, main));
    assert!(have("{main}", 21, None) && have("{main}", 3, None) && !have("{main}", 4, None));
    assert!(!have("a", 4, None));
    assert!(have("(eval)", 8, Some(("b::__ANON__", 6))) && !have("(eval)", 8, Some(("a", 4))));
}
