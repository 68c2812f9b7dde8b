//! Table of the hottest functions.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

use hashbrown::HashMap;

use crate::profile::{Kind, Label, Profile, SampleKind, Tree, Unit};
use crate::text::{Number, Share, clip};

/// The hottest functions as text, sorted by samples in the function itself.
///
/// `self` counts samples in the function, `total` stacks that contain it, recursion once. Shares
/// are of all samples. Of several kinds of samples the first is shown; values other than counts
/// have their unit: `1.5 s`, `3 MiB`.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::Table, testing};
///
/// let profile = testing::profile("cat;main;copy;libc.so.6`read 3\ncat;main;copy 1");
/// let table = "\
///     self            total            function  module
///        3   75.0 %       3   75.0 %   read      libc.so.6
///        1   25.0 %       4  100.0 %   copy      cat
///        0    0.0 %       4  100.0 %   main      cat
/// ";
/// # let unindented: String = table.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
/// # let ours: String = Table::new(&profile).to_string().lines().map(|line| line.trim_start().to_owned() + "\n").collect();
/// # assert_eq!(ours, unindented);
/// print!("{}", Table::new(&profile).rows(20).width(100));
/// ```
#[derive(Clone, Debug)]
pub struct Table<'p> {
    kind: &'p SampleKind,
    all: u64,
    functions: Vec<Function<'p>>,
    rows: usize,
    width: usize,
}

#[derive(Clone, Debug)]
struct Function<'p> {
    name: Cow<'p, str>,
    module: Cow<'p, str>,
    own: u64,
    total: u64,
}

impl<'p> Table<'p> {
    /// Returns the table of a profile, with 20 rows and 100 columns.
    pub fn new(profile: &'p Profile) -> Table<'p> {
        let tree = Tree::new(profile);
        let mut functions = functions(&tree);
        functions.sort_unstable_by(|a, b| {
            let order = |function: &Function<'_>| (Reverse(function.own), Reverse(function.total));
            order(a).cmp(&order(b)).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
        });
        Table { kind: profile.kind(), all: tree.total(), functions, rows: 20, width: 100 }
    }

    /// Sets the maximum number of functions.
    #[must_use = "returns the changed table"]
    pub fn rows(self, rows: usize) -> Table<'p> {
        Table { rows, ..self }
    }

    /// Sets the maximum length of a line in characters, at least 60. Names are cut to it.
    #[must_use = "returns the changed table"]
    pub fn width(self, width: usize) -> Table<'p> {
        Table { width: width.max(60), ..self }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all == 0 {
            return writeln!(f, "no samples");
        }
        let shown = &self.functions[..self.functions.len().min(self.rows)];
        let columns = Columns::of(self.kind, shown, self.all, self.width);
        columns.fmt_head(f)?;
        shown.iter().try_for_each(|function| columns.fmt_row(f, function, self.all))
    }
}

/// Widths of the columns.
struct Columns<'p> {
    kind: &'p SampleKind,
    count: usize,
    name: usize,
    module: usize,
}

impl<'p> Columns<'p> {
    fn of(kind: &'p SampleKind, shown: &[Function<'_>], all: u64, width: usize) -> Columns<'p> {
        let numbers = shown.iter().flat_map(|function| [function.own, function.total]).chain([all]);
        let count = numbers.map(|number| amount(kind, number).chars().count()).max().unwrap_or(0);
        let count = count.max("total".len());
        let left = width.saturating_sub(2 * (count + SHARE) + 2);
        let modules = shown.iter().map(|function| &*function.module);
        let module = longest(modules).min(left / 3).max("module".len());
        let names = shown.iter().map(|function| &*function.name);
        let name = longest(names).min(left.saturating_sub(module)).max("function".len());
        Columns { kind, count, name, module }
    }

    fn fmt_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Columns { count, name, .. } = *self;
        let share = " ".repeat(SHARE);
        writeln!(f, "{:>count$}{share}{:>count$}{share}{:name$}  module", "self", "total", "function")
    }

    fn fmt_row(&self, f: &mut fmt::Formatter<'_>, function: &Function<'_>, all: u64) -> fmt::Result {
        for part in [function.own, function.total] {
            let amount = amount(self.kind, part);
            write!(f, "{amount:>count$}  {:>7}   ", Share { part, all }, count = self.count)?;
        }
        let name = clip(&function.name, self.name);
        let module = clip(&function.module, self.module);
        let line = format!("{name:width$}  {module}", width = self.name);
        writeln!(f, "{}", line.trim_end())
    }
}

/// Returns a value with its unit; without one for counts.
fn amount(kind: &SampleKind, value: u64) -> String {
    match kind.unit() {
        Unit::Count => Number(value).to_string(),
        _ => kind.format(value),
    }
}

fn longest<'t>(texts: impl Iterator<Item = &'t str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Width of two spaces, `100.0 %`, three spaces.
const SHARE: usize = 12;

/// Returns the functions of a tree, inlined ones included.
///
/// The tree is traversed in drawing order. For each function the end of its last outermost call is
/// kept: a call before that end is recursion.
fn functions<'p>(tree: &Tree<'p>) -> Vec<Function<'p>> {
    let (numbers, mut functions) = number(tree.labels());
    let mut covered = vec![0; functions.len()];
    for (node, span) in tree.spans() {
        let Some(number) = numbers[node.label as usize] else { continue };
        functions[number].own += node.own;
        if span.start >= covered[number] {
            covered[number] = span.end;
            functions[number].total += node.total;
        }
    }
    functions
}

/// Returns the function number of each label, `None` for a label that is no function, and the
/// functions.
fn number<'p>(labels: &[Label<'p>]) -> (Vec<Option<usize>>, Vec<Function<'p>>) {
    let mut known = HashMap::new();
    let mut functions = Vec::new();
    let numbers = labels.iter().map(|label| {
        let is_function = !matches!(label.kind, Kind::Origin | Kind::Missing | Kind::Merged);
        let module = match label.kind {
            Kind::Kernel => &Cow::Borrowed("[kernel]"),
            Kind::RunTime => &Cow::Borrowed("[run time]"),
            _ => &label.module,
        };
        is_function.then(|| {
            *known.entry((&label.name, module)).or_insert_with(|| {
                functions.push(Function {
                    name: label.name.clone(),
                    module: module.clone(),
                    own: 0,
                    total: 0,
                });
                functions.len() - 1
            })
        })
    });
    (numbers.collect(), functions)
}
