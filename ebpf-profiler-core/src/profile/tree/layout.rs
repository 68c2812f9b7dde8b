//! Layout of a tree for drawing.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use super::{Label, Node, Tree};
use crate::profile::Kind;

/// Limits of a drawing. Frames beyond them are merged into at most one [`Kind::Merged`] per parent.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{profile::{Limits, Tree}, testing};
///
/// let profile = testing::profile("a;main;wide 98\na;main;thin 1\na;main;slim 1");
/// let tree = Tree::new(&profile);
/// let layout = tree.layout(Limits { samples: 2, ..Limits::default() });
/// assert_eq!(layout.merged, 2);
/// assert_eq!(layout.frames.last().unwrap().label.name, "[merged frames]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Minimum number of samples of a frame.
    pub samples: u64,
    /// Maximum number of frames. The narrowest are merged first, of equally narrow ones those
    /// farthest from the root.
    pub frames: usize,
    /// Maximum distance from the root.
    pub levels: usize,
}

/// Returns no limits.
impl Default for Limits {
    fn default() -> Limits {
        Limits { samples: 0, frames: usize::MAX, levels: usize::MAX }
    }
}

/// A tree with its nodes in drawing order.
#[derive(Debug)]
#[non_exhaustive]
pub struct Layout<'t, 'p> {
    /// Frames to draw. Each is directly followed by its callees, the widest first.
    pub frames: Vec<Placed<'t, 'p>>,
    /// Number of merged frames.
    pub merged: u64,
}

/// A frame of a flame graph with its place: [`level`](Placed::level) is the row, and
/// [`start`](Placed::start) and [`total`](Placed::total) are the left edge and the width, in
/// samples.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Placed<'t, 'p> {
    /// Label of the node.
    pub label: &'t Label<'p>,
    /// Distance from the root.
    pub level: usize,
    /// Number of samples to its left.
    pub start: u64,
    /// Number of its samples.
    pub total: u64,
    /// Number of its samples in no callee.
    pub own: u64,
    /// `true` if some of its frames were guessed: found through a frame pointer, without unwind
    /// data.
    pub guessed: bool,
}

impl<'p> Tree<'p> {
    /// Returns the frames in drawing order, within `limits`.
    pub fn layout(&self, limits: Limits) -> Layout<'_, 'p> {
        let too_narrow = (Reverse(limits.samples.saturating_sub(1)), 0);
        let beyond = self.first_beyond(limits.frames).min(too_narrow);
        Placer { tree: self, family: Family::new(self), beyond, levels: limits.levels, todo: Vec::new() }
            .run()
    }

    /// Returns the rank of the first frame beyond `most`.
    fn first_beyond(&self, most: usize) -> Rank {
        let mut ranks: Vec<Rank> = self.nodes.iter().map(Node::rank).collect();
        if ranks.len() <= most {
            return (Reverse(0), u32::MAX);
        }
        let (_, beyond, _) = ranks.select_nth_unstable(most);
        *beyond
    }
}

/// The priority of frames: the widest first, of equally wide ones those nearest to the root.
///
/// A callee never comes before its caller.
type Rank = (Reverse<u64>, u32);

impl Node {
    fn rank(&self) -> Rank {
        (Reverse(self.total), self.level)
    }
}

/// Returns the children of every node, the widest first.
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

/// Places nodes from the root on, with a stack instead of recursion.
struct Placer<'t, 'p> {
    tree: &'t Tree<'p>,
    family: Family,
    beyond: Rank,
    levels: usize,
    todo: Vec<Todo>,
}

/// A node that waits to be placed.
enum Todo {
    Node { index: u32, level: usize, start: u64 },
    Merged { total: u64, level: usize, start: u64 },
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

    /// Pushes the callees of `parent`, the first one last. Returns the number of merged frames.
    fn children(&mut self, parent: u32, level: usize, mut start: u64) -> u64 {
        let Placer { tree, family, todo, .. } = self;
        let first = todo.len();
        let children = family.children(parent);
        let is_drawn = |&index: &u32| level < self.levels && tree.nodes[index as usize].rank() < self.beyond;
        let (drawn, merged) = children.split_at(children.partition_point(is_drawn));
        for &index in drawn {
            todo.push(Todo::Node { index, level, start });
            start += tree.nodes[index as usize].total;
        }
        if !merged.is_empty() {
            let total = merged.iter().map(|&index| tree.nodes[index as usize].total).sum();
            todo.push(Todo::Merged { total, level, start });
        }
        todo[first..].reverse();
        merged.iter().map(|&index| tree.nodes[index as usize].size).sum()
    }

    fn placed(&self, todo: &Todo) -> Placed<'t, 'p> {
        match *todo {
            Todo::Node { index, level, start } => {
                let Node { label, total, own, guessed, .. } = self.tree.nodes[index as usize];
                Placed { label: &self.tree.labels[label as usize], level, start, total, own, guessed }
            }
            Todo::Merged { total, level, start } => {
                Placed { label: &MERGED, level, start, total, own: total, guessed: false }
            }
        }
    }
}

static MERGED: Label<'static> = Label {
    name: Cow::Borrowed("[merged frames]"),
    module: Cow::Borrowed(""),
    kind: Kind::Merged,
    inlined: false,
};
