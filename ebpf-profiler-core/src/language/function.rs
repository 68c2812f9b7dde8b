//! A function of a script.

/// A function of a script, as its process described it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, as qualified as the language has it.
    pub name: Box<str>,
    /// The source file; empty where it isn't known.
    pub file: Box<str>,
    /// The line on which it begins; 0 where it isn't known.
    pub start_line: u32,
    /// The lines of its positions.
    pub lines: Lines,
}

/// Which positions of a function lie on which line.
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
    /// From `position` on it is `line`; 0 for none. Positions ascend: one below the last is left out.
    pub fn push(&mut self, position: u32, line: u32) {
        match self.0.last_mut() {
            Some(last) if last.0 > position => {}
            Some(last) if last.0 == position => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => self.0.push((position, line)),
        }
    }

    /// The steps: from which position on which line.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// The line of a position; 0 where it has none.
    pub fn at(&self, position: u32) -> u32 {
        let next = self.0.partition_point(|&(from, _)| from <= position);
        next.checked_sub(1).map_or(0, |index| self.0[index].1)
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it knows no line.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
