//! Functions of scripts, their line tables, and functions inlined into them.

/// A function of a script, as read from its process by
/// [`Attached::function`](super::Attached::function).
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
    /// Functions that a compiler inlined into it.
    pub inlines: Inlines,
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
    pub fn with_lines(self, mut lines: Lines) -> Function {
        lines.0.shrink_to_fit();
        Function { lines, ..self }
    }

    /// Sets the functions inlined into it.
    #[must_use]
    pub fn with_inlines(self, mut inlines: Inlines) -> Function {
        inlines.shrink();
        Function { inlines, ..self }
    }
}

/// Functions inlined into a compiled function, by position.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::language::{Function, Inlines};
///
/// let mut inlines = Inlines::default();
/// let area = inlines.add(Function::new("Circle.area"));
/// let square = inlines.add(Function::new("Math.square"));
/// inlines.push(16, &[(area, 40), (square, 7)]); // `area` at line 40 calls `square`, which is at line 7
/// inlines.push(48, &[]);
/// let names = |position| -> Vec<_> { inlines.at(position).map(|(function, line)| (&*function.name, line)).collect() };
/// assert_eq!(names(20), [("Circle.area", 40), ("Math.square", 7)]);
/// assert!(names(0).is_empty() && names(48).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inlines {
    functions: Vec<Function>,
    /// First position, and the range of its calls in `calls`.
    steps: Vec<(u32, u32, u32)>,
    /// Index of the function and line, outermost first.
    calls: Vec<(u32, u32)>,
}

/// Maximum number of functions, of positions and of calls.
const MAX_INLINES: usize = 1 << 16;

impl Inlines {
    /// Adds a function and returns its index. Its own lines and inlined functions have no meaning.
    pub fn add(&mut self, function: Function) -> u32 {
        if self.functions.len() < MAX_INLINES {
            self.functions.push(function);
        }
        (self.functions.len() - 1) as u32
    }

    /// Sets the calls inlined from `position` on, up to the next one: index of a function and its
    /// line, outermost first. Positions ascend; one below the last is dropped.
    pub fn push(&mut self, position: u32, calls: &[(u32, u32)]) {
        let is_known = |&(index, _): &(u32, u32)| (index as usize) < self.functions.len();
        let has_room = self.steps.len() < MAX_INLINES && self.calls.len() + calls.len() <= MAX_INLINES;
        if !calls.iter().all(is_known) {
            return;
        }
        // Without room no calls are known from here on; those of the last position would be wrong.
        let calls = if has_room { calls } else { &[] };
        match self.steps.last() {
            Some(&(last, ..)) if last > position => return,
            Some(&(last, start, _)) if last == position => {
                self.steps.pop();
                self.calls.truncate(start as usize);
            }
            None if calls.is_empty() => return,
            _ => {}
        }
        if self
            .steps
            .last()
            .is_some_and(|&(_, start, end)| self.calls[start as usize..end as usize] == *calls)
        {
            return;
        }
        let start = self.calls.len() as u32;
        self.calls.extend_from_slice(calls);
        self.steps.push((position, start, self.calls.len() as u32));
    }

    /// Drops unused capacity: thousands of functions of a process are cached.
    fn shrink(&mut self) {
        self.functions.shrink_to_fit();
        self.steps.shrink_to_fit();
        self.calls.shrink_to_fit();
    }

    /// Returns the functions inlined at a position with their lines, outermost first.
    pub fn at(&self, position: u32) -> impl DoubleEndedIterator<Item = (&Function, u32)> {
        self.calls_at(position)
            .iter()
            .filter_map(|&(index, line)| Some((self.functions.get(index as usize)?, line)))
    }

    /// Returns index and line of the functions inlined at a position, outermost first.
    pub(crate) fn calls_at(&self, position: u32) -> &[(u32, u32)] {
        let next = self.steps.partition_point(|&(from, ..)| from <= position);
        let step = next.checked_sub(1).map(|index| self.steps[index]);
        step.map_or(&[], |(_, start, end)| &self.calls[start as usize..end as usize])
    }

    /// Returns the functions, by index.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Returns the positions with the calls from there on.
    pub(crate) fn steps(&self) -> impl ExactSizeIterator<Item = (u32, &[(u32, u32)])> {
        self.steps.iter().map(|&(position, start, end)| (position, &self.calls[start as usize..end as usize]))
    }

    /// Returns `true` if nothing is inlined.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
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

/// The line of entries whose positions are lines.
const POSITION: u32 = u32::MAX;

impl Lines {
    /// Appends an entry: positions from `position` on are on `line`, 0 for no line. Positions
    /// ascend; one below the last is dropped.
    pub fn push(&mut self, position: u32, line: u32) {
        match self.0.last_mut() {
            Some(last) if last.0 > position => {}
            Some(last) if last.0 == position => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => self.0.push((position, line)),
        }
    }

    /// Returns the table of a function whose positions are lines.
    pub fn of_positions() -> Lines {
        Lines(vec![(0, POSITION)])
    }

    /// Returns the entries: first position and line.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the line of a position, 0 if it has none.
    pub fn at(&self, position: u32) -> u32 {
        let next = self.0.partition_point(|&(from, _)| from <= position);
        match next.checked_sub(1).map_or(0, |index| self.0[index].1) {
            POSITION => position,
            line => line,
        }
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

#[test]
fn positions_beyond_the_limit_have_no_inlined_functions() {
    let mut inlines = Inlines::default();
    let function = inlines.add(Function::new("inlined"));
    (0..MAX_INLINES as u32 + 10).for_each(|position| inlines.push(position, &[(function, position)]));
    let last = MAX_INLINES as u32 - 1;
    assert_eq!(inlines.calls_at(last), [(function, last)]);
    assert_eq!([last + 1, last + 9].map(|position| inlines.calls_at(position).len()), [0, 0]);
}
