//! All stacks of a profile, merged from their roots: what flame graphs draw.
//!
//! ```text
//!   all                      9
//!   └─ cat                   9
//!      └─ main               9
//!         ├─ read            5
//!         │  └─ sys_read     4
//!         └─ write           3
//! ```

use std::borrow::Cow;
use std::cmp::Reverse;
use std::hash::Hash;
use std::ops::Range;

use hashbrown::HashMap;

use super::{Call, Kind, Profile, Sample};
use crate::text::clean;

/// All stacks of a profile, merged from their roots.
///
/// Below the root stand the processes, by the name of their executable; then the threads whose name is another
/// one, without a number at its end (`worker-1`, `worker-2` are `worker-*`); then the functions, each with its
/// name, its module and its kind. Whatever is equal in those is merged.
///
/// Nothing here recurses: a stack may be as deep as it likes.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{profile::Tree, testing};
///
/// let profile = testing::profile("cat;main;read 5\ncat;main;write 3\ncat;main 1");
/// for placed in Tree::new(&profile).layout(1).frames {
///     println!("{:width$}{} {}", "", placed.label.name, placed.total, width = placed.level);
/// }
/// ```
#[derive(Debug)]
pub struct Tree<'p> {
    labels: Vec<Label<'p>>,
    /// Every node stands behind its parent; the first is the root.
    nodes: Vec<Node>,
}

/// What a node of the tree stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Label<'p> {
    /// The name of the function, process or thread, without control characters.
    pub name: Cow<'p, str>,
    /// The last part of the path of the file that the function lies in; empty where there is none.
    pub module: &'p str,
    /// What kind of code it is.
    pub kind: Kind,
    /// Whether it was inlined into the one below it.
    pub inlined: bool,
}

/// A tree with its nodes in drawing order.
#[derive(Debug)]
#[non_exhaustive]
pub struct Layout<'t, 'p> {
    /// What to draw; every frame directly before those that it called, the widest of them first.
    pub frames: Vec<Placed<'t, 'p>>,
    /// How many frames were too narrow and are merged in [`Kind::Narrow`] ones.
    pub merged: u64,
}

/// A node and where it is drawn; the unit is one sample.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Placed<'t, 'p> {
    /// What it is.
    pub label: &'t Label<'p>,
    /// How far from the root.
    pub level: usize,
    /// Samples to the left of it.
    pub start: u64,
    /// Samples in it.
    pub total: u64,
    /// Samples in it and in nothing that it called.
    pub own: u64,
    /// Whether some of those were found through the frame pointer of code without unwind data.
    pub guessed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) label: u32,
    parent: u32,
    pub(crate) total: u64,
    pub(crate) own: u64,
    /// How many nodes there are in it, itself included.
    size: u64,
    guessed: bool,
}

impl<'p> Tree<'p> {
    /// The tree of a profile.
    pub fn new(profile: &'p Profile) -> Tree<'p> {
        let mut grower = Grower::default();
        let all = Label { name: "all".into(), module: "", kind: Kind::Origin, inlined: false };
        let all = grower.labels.intern(all);
        let root = grower.child(0, all);
        for sample in profile.samples() {
            grower.add(root, &sample);
        }
        grower.finish()
    }

    /// How many samples there are.
    pub fn total(&self) -> u64 {
        self.nodes[0].total
    }

    /// The least number of samples with which at most `most` frames have to be drawn.
    pub fn smallest(&self, most: usize) -> u64 {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.total).collect();
        if totals.len() <= most {
            return 1;
        }
        let (_, first_too_many, _) = totals.select_nth_unstable_by_key(most, |&total| Reverse(total));
        *first_too_many + 1
    }

    /// Puts the frames in drawing order; those with less than `smallest` samples are merged, at most one in each place.
    pub fn layout(&self, smallest: u64) -> Layout<'_, 'p> {
        Placer { tree: self, family: Family::new(self), smallest, todo: Vec::new() }.run()
    }

    /// Every node with where it stands in drawing order and where what it called ends, in that order.
    pub(crate) fn spans(&self) -> Vec<(&Node, Range<u64>)> {
        let mut next = vec![0; self.nodes.len()];
        let mut spans = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let start = next[node.parent as usize];
            next[node.parent as usize] += node.size;
            next[index] = start + 1;
            spans.push((node, start..start + node.size));
        }
        spans.sort_unstable_by_key(|(_, span)| span.start);
        spans
    }

    pub(crate) fn labels(&self) -> &[Label<'p>] {
        &self.labels
    }
}

/// A tree that still grows.
#[derive(Default)]
struct Grower<'p> {
    labels: Labels<'p>,
    nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32>,
}

impl<'p> Grower<'p> {
    fn add(&mut self, root: u32, sample: &Sample<'p>) {
        let mut node = root;
        for name in origins(sample) {
            let label = Label { name, module: "", kind: Kind::Origin, inlined: false };
            let label = self.labels.intern(label);
            node = self.child(node, label);
        }
        for call in sample.trace().calls() {
            let label = self.labels.of(&call);
            node = self.child(node, label);
            self.nodes[node as usize].guessed |= call.is_guessed();
        }
        self.nodes[node as usize].own += sample.count();
    }

    fn child(&mut self, parent: u32, label: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.children.entry((parent, label)).or_insert(next);
        if node == next {
            self.nodes.push(Node { label, parent, total: 0, own: 0, size: 1, guessed: false });
        }
        node
    }

    fn finish(mut self) -> Tree<'p> {
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            node.total += node.own;
            let Node { parent, total, size, .. } = *node;
            if index > 0 {
                let parent = &mut self.nodes[parent as usize];
                parent.total += total;
                parent.size += size;
            }
        }
        Tree { labels: self.labels.items, nodes: self.nodes }
    }
}

/// The names of the process and, where it is another one, of the thread.
fn origins<'p>(sample: &Sample<'p>) -> impl Iterator<Item = Cow<'p, str>> + use<'p> {
    let thread = &*sample.thread().name;
    let executable = sample.process().executable.rsplit('/').next().unwrap_or_default();
    let executable = executable.strip_suffix(" (deleted)").unwrap_or(executable);
    // The kernel keeps 15 bytes of a command's name.
    let is_same = thread == executable || thread.len() == 15 && executable.starts_with(thread);
    let process = (!executable.is_empty()).then(|| clean(executable));
    let thread = (process.is_none() || !is_same).then(|| unnumbered(thread));
    process.into_iter().chain(thread)
}

/// A thread's name with a star for the number at its end, so that a pool of threads is one.
fn unnumbered(name: &str) -> Cow<'_, str> {
    let stem = name.trim_end_matches(|character: char| character.is_ascii_digit());
    match name {
        "" => Cow::Borrowed("[unknown]"),
        _ if stem.len() < name.len() && stem.ends_with(['.', '-', '_', ':', '/', '#', ' ']) => {
            Cow::Owned(format!("{}*", clean(stem)))
        }
        _ => clean(name),
    }
}

/// Labels by content; those of a frame are made once.
#[derive(Default)]
struct Labels<'p> {
    items: Vec<Label<'p>>,
    numbers: HashMap<Label<'p>, u32>,
    of_functions: HashMap<(u32, u32), u32>,
}

impl<'p> Labels<'p> {
    fn of(&mut self, call: &Call<'p>) -> u32 {
        let Call::Function { frame, depth } = call else { return self.intern(label(call)) };
        let key = (frame.id().0, *depth as u32);
        if let Some(&number) = self.of_functions.get(&key) {
            return number;
        }
        let number = self.intern(label(call));
        self.of_functions.insert(key, number);
        number
    }

    fn intern(&mut self, label: Label<'p>) -> u32 {
        let next = self.items.len() as u32;
        let number = *self.numbers.entry(label.clone()).or_insert(next);
        if number == next {
            self.items.push(label);
        }
        number
    }
}

fn label<'p>(call: &Call<'p>) -> Label<'p> {
    let name = match call.symbol() {
        Some(symbol) if !symbol.function.is_empty() => clean(&symbol.function),
        _ => Cow::Owned(clean(&call.to_string()).into_owned()),
    };
    Label { name, module: call.module().unwrap_or_default(), kind: call.kind(), inlined: call.is_inlined() }
}

/// The children of every node, the widest first.
struct Family {
    ordered: Vec<u32>,
    of: Vec<Range<u32>>,
}

impl Family {
    fn new(tree: &Tree<'_>) -> Family {
        let mut ordered: Vec<u32> = (1..tree.nodes.len() as u32).collect();
        ordered.sort_unstable_by_key(|&index| {
            let node = &tree.nodes[index as usize];
            (node.parent, Reverse(node.total), &tree.labels[node.label as usize])
        });
        let mut of = vec![0..0; tree.nodes.len()];
        let mut start = 0;
        for siblings in
            ordered.chunk_by(|&a, &b| tree.nodes[a as usize].parent == tree.nodes[b as usize].parent)
        {
            let end = start + siblings.len() as u32;
            of[tree.nodes[siblings[0] as usize].parent as usize] = start..end;
            start = end;
        }
        Family { ordered, of }
    }

    fn children(&self, node: u32) -> &[u32] {
        let range = &self.of[node as usize];
        &self.ordered[range.start as usize..range.end as usize]
    }
}

/// Walks the tree from its root, with a list of its own in place of recursion.
struct Placer<'t, 'p> {
    tree: &'t Tree<'p>,
    family: Family,
    smallest: u64,
    todo: Vec<Todo>,
}

/// What is still to be placed, and where.
enum Todo {
    Node { index: u32, level: usize, start: u64 },
    Narrow { total: u64, level: usize, start: u64 },
}

impl<'t, 'p> Placer<'t, 'p> {
    fn run(mut self) -> Layout<'t, 'p> {
        let mut layout = Layout { frames: Vec::new(), merged: 0 };
        self.todo.push(Todo::Node { index: 0, level: 0, start: 0 });
        while let Some(todo) = self.todo.pop() {
            layout.frames.push(self.placed(&todo));
            if let Todo::Node { index, level, start } = todo {
                layout.merged += self.children(index, level + 1, start);
            }
        }
        layout
    }

    /// Remembers what `parent` called, the first of them last; returns how many frames are too narrow.
    fn children(&mut self, parent: u32, level: usize, mut start: u64) -> u64 {
        let Placer { tree, family, todo, .. } = self;
        let first = todo.len();
        let children = family.children(parent);
        let wide = children.partition_point(|&index| tree.nodes[index as usize].total >= self.smallest);
        let (wide, narrow) = children.split_at(wide);
        for &index in wide {
            todo.push(Todo::Node { index, level, start });
            start += tree.nodes[index as usize].total;
        }
        if !narrow.is_empty() {
            let total = narrow.iter().map(|&index| tree.nodes[index as usize].total).sum();
            todo.push(Todo::Narrow { total, level, start });
        }
        todo[first..].reverse();
        narrow.iter().map(|&index| tree.nodes[index as usize].size).sum()
    }

    fn placed(&self, todo: &Todo) -> Placed<'t, 'p> {
        match *todo {
            Todo::Node { index, level, start } => {
                let Node { label, total, own, guessed, .. } = self.tree.nodes[index as usize];
                Placed { label: &self.tree.labels[label as usize], level, start, total, own, guessed }
            }
            Todo::Narrow { total, level, start } => {
                Placed { label: &NARROW, level, start, total, own: total, guessed: false }
            }
        }
    }
}

static NARROW: Label<'static> =
    Label { name: Cow::Borrowed("[narrower frames]"), module: "", kind: Kind::Narrow, inlined: false };
