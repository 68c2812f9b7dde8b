//! Facts about a workload's stack that only its comments state.

use std::collections::BTreeMap;
use std::fs;

use crate::interpreter::{Version, programs};

/// The comments of one file, by line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comments {
    spin: BTreeMap<u32, Comment>,
    way: BTreeMap<u32, Comment>,
    through_c: BTreeMap<u32, String>,
}

/// A comment with the text after its keyword.
#[derive(Clone, Debug, Default)]
struct Comment {
    /// Function that contains it.
    function: String,
    rest: String,
}

/// Lines, each with the interpreter's function that is called there, if it is called on no other
/// line.
pub(crate) type Lines = BTreeMap<u32, Option<String>>;

impl Comments {
    /// Reads the comments of the file with this name; `None` if it isn't a workload.
    pub(crate) fn of(file: &str) -> Option<Comments> {
        let name = file.rsplit('/').next().unwrap_or_default();
        let text = fs::read_to_string(programs().join(name)).ok().filter(|_| !name.is_empty())?;
        Some(Comments::parse(&text))
    }

    fn parse(text: &str) -> Comments {
        let mut comments = Comments::default();
        let mut functions: Vec<(usize, String)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            if !code.is_empty() {
                functions.retain(|(outer, _)| *outer < indent);
            }
            let function = functions.last().map_or("<module>", |(_, name)| name).to_owned();
            if let Some(name) = code.strip_prefix("def ").or_else(|| code.strip_prefix("async def ")) {
                let end = name.find('(').unwrap_or(name.len());
                functions.push((indent, name[..end].to_owned()));
            }
            let Some((_, comment)) = line.rsplit_once("# ") else { continue };
            let rest = |word| comment.strip_prefix(word).map(|rest: &str| rest.trim().to_owned());
            if let Some(rest) = rest("spin") {
                comments.spin.insert(number, Comment { function, rest });
            } else if let Some(rest) = rest("way") {
                comments.way.insert(number, Comment { function, rest });
            } else if let Some(rest) = rest("through C") {
                comments.through_c.insert(number, rest);
            }
        }
        comments
    }

    /// Returns the lines on which a function may be while it is the last one.
    pub(crate) fn last(&self, function: &str) -> Lines {
        let own = |lines: &BTreeMap<u32, Comment>| -> Lines {
            let own = lines.iter().filter(|(_, comment)| comment.function == function);
            own.map(|(&line, comment)| (line, Some(comment.rest.clone()).filter(|rest| !rest.is_empty())))
                .collect()
        };
        let mut last = own(&self.spin);
        last.extend(own(&self.way));
        last
    }

    /// Returns `true` if a workload spins in this function's loop.
    pub(crate) fn spins(&self, function: &str) -> bool {
        self.spin.values().any(|comment| comment.function == function)
    }

    /// Returns `true` if C code calls the callee of this line.
    pub(crate) fn is_through_c(&self, line: u32, version: Version) -> bool {
        self.through_c.get(&line).is_some_and(|condition| holds(condition, version))
    }
}

/// Returns `true` if one of `before 3.12`, `since 3.14`, `in 3.13t`, ... holds, or if there is no
/// condition.
pub(crate) fn holds(condition: &str, version: Version) -> bool {
    condition.is_empty()
        || condition.split(", ").any(|part| {
            let (word, number) = part.split_once(' ').unwrap_or_default();
            let named = Version::parse(number).unwrap_or_else(|| panic!("no condition: {condition}"));
            let is_before = version.is_before(named.major, named.minor);
            match word {
                "before" => is_before,
                "since" => !is_before,
                "in" => version == named,
                _ => panic!("no condition: {condition}"),
            }
        })
}

#[test]
fn comments_are_read() {
    let text = "def f(x):\n    a  # spin\n    b # spin builtin_sum\n    c\nd()  # through C before 3.12\ne()  # through C\nf  # way";
    let comments = Comments::parse(text);
    assert_eq!(comments.last("f"), Lines::from([(2, None), (3, Some("builtin_sum".to_owned()))]));
    assert_eq!(comments.last("<module>"), Lines::from([(7, None)]));
    assert!(comments.spins("f") && !comments.spins("<module>"));
    let version = |text| Version::parse(text).unwrap();
    assert!(comments.is_through_c(5, version("3.11")));
    assert!(!comments.is_through_c(5, version("3.12")));
    assert!(comments.is_through_c(6, version("3.14")));
    assert!(!comments.is_through_c(4, version("3.14")));
}

#[test]
fn conditions_are_alternatives() {
    let version = |text| Version::parse(text).unwrap();
    let condition = "before 3.12, in 3.13t";
    assert!(holds(condition, version("3.11")));
    assert!(holds(condition, version("3.13t")));
    assert!(!holds(condition, version("3.13")));
    assert!(holds("since 3.14", version("3.14")));
}
