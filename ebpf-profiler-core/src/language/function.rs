//! Functions of scripts and their line tables.

/// A function of a script, as read from its process by [`Attached::function`](super::Attached::function).
///
/// An empty name hides the frames of the function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Name, qualified if the language has qualified names.
    pub name: Box<str>,
    /// Source file; empty if unknown.
    pub file: Box<str>,
    /// First line; 0 if unknown.
    pub start_line: u32,
    /// Lines of the function's positions.
    pub lines: Lines,
}

impl Function {
    /// Creates a function with a name alone.
    pub fn new(name: impl Into<Box<str>>) -> Function {
        Function { name: name.into(), ..Function::default() }
    }

    /// Sets the source file.
    #[must_use]
    pub fn with_file(self, file: impl Into<Box<str>>) -> Function {
        Function { file: file.into(), ..self }
    }

    /// Sets the first line.
    #[must_use]
    pub fn with_start_line(self, start_line: u32) -> Function {
        Function { start_line, ..self }
    }

    /// Sets the lines of positions.
    #[must_use]
    pub fn with_lines(self, lines: Lines) -> Function {
        Function { lines, ..self }
    }
}

/// Line table of a function: maps positions to lines.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::language::Lines;
///
/// let mut lines = Lines::default();
/// lines.push(0, 10);
/// lines.push(6, 11);
/// assert_eq!([lines.at(0), lines.at(5), lines.at(6)], [10, 10, 11]);
/// assert_eq!(Lines::default().at(3), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(Vec<(u32, u32)>);

impl Lines {
    /// Appends an entry: positions from `position` on are on `line`, 0 for no line. Positions ascend; one below the last is
    /// dropped.
    pub fn push(&mut self, position: u32, line: u32) {
        match self.0.last_mut() {
            Some(last) if last.0 > position => {}
            Some(last) if last.0 == position => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => self.0.push((position, line)),
        }
    }

    /// Returns the entries: first position and line.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the line of a position, 0 if it has none.
    pub fn at(&self, position: u32) -> u32 {
        let next = self.0.partition_point(|&(from, _)| from <= position);
        next.checked_sub(1).map_or(0, |index| self.0[index].1)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
