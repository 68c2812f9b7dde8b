//! Folded text, as FlameGraph and similar tools read it.
//!
//! ```text
//! comm;root;...;leaf_[k] 12
//! ```

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// The command's name.
    pub(crate) comm: String,
    /// The frames, root first.
    pub(crate) frames: Vec<Frame>,
    /// Number of samples with this stack.
    pub(crate) count: u64,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Name without its suffix.
    pub(crate) name: String,
    /// Kind that the suffix of the name stands for.
    pub(crate) kind: Kind,
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `_[k]`
    Kernel,
    /// `_[i]`
    Inlined,
    /// `_[j]`
    RunTime,
    /// No suffix.
    Native,
}

impl Stack {
    /// Returns the frames without those of the kernel.
    pub(crate) fn user(&self) -> Vec<&Frame> {
        self.frames.iter().filter(|frame| frame.kind != Kind::Kernel).collect()
    }
}

/// Parses folded text. Fails with the first line that isn't folded text.
pub(crate) fn parse(text: &str) -> Result<Vec<Stack>, String> {
    text.lines().filter(|line| !line.trim().is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<Stack, String> {
    let wrong = || format!("not a folded line: {line:?}");
    let (stack, count) = line.rsplit_once(' ').ok_or_else(wrong)?;
    let count = count.parse().map_err(|_| wrong())?;
    let mut parts = stack.split(';');
    let comm = parts.next().unwrap_or_default().to_owned();
    Ok(Stack { comm, frames: parts.map(parse_frame).collect(), count })
}

fn parse_frame(text: &str) -> Frame {
    if text == "[exec]" {
        // A note that there is no user stack.
        return Frame { name: text.to_owned(), kind: Kind::Kernel };
    }
    let marks = [("_[k]", Kind::Kernel), ("_[i]", Kind::Inlined), ("_[j]", Kind::RunTime)];
    for (mark, kind) in marks {
        if let Some(name) = text.strip_suffix(mark) {
            return Frame { name: name.to_owned(), kind };
        }
    }
    Frame { name: text.to_owned(), kind: Kind::Native }
}

#[test]
fn lines_become_stacks() {
    let stacks = parse("a b;main;f_[i];g h(int);do_syscall_[k] 12\nc 1\n").unwrap();
    assert_eq!(stacks[0].comm, "a b");
    assert_eq!(stacks[0].count, 12);
    let kinds: Vec<_> = stacks[0].frames.iter().map(|frame| (frame.name.as_str(), frame.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("main", Kind::Native),
            ("f", Kind::Inlined),
            ("g h(int)", Kind::Native),
            ("do_syscall", Kind::Kernel)
        ]
    );
    assert_eq!(stacks[0].user().len(), 3);
    assert_eq!(stacks[1].frames, []);
}

#[test]
fn other_lines_are_errors() {
    assert!(parse("main;f").is_err());
    assert!(parse("main;f twelve").is_err());
}
