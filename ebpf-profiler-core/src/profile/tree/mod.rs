//! All stacks of a profile, merged from their roots: the contents of a flame graph.
//!
//! ```text
//!   all                      9
//!   └─ cat                   9
//!      └─ main               9
//!         ├─ read            5
//!         │  └─ sys_read     4
//!         └─ write           3
//! ```

mod grow;
mod layout;

use std::borrow::Cow;
use std::ops::Range;

use super::{Kind, Profile};
use grow::Grower;

pub(crate) use grow::origins;
pub use layout::{Layout, Limits, Placed};

/// All stacks of a profile, merged from their roots.
///
/// Below the root are the processes, by the name of their executable; then the threads with another
/// name, without a number at its end (`worker-1`, `worker-2` are `worker-*`); then the functions by
/// name, module and kind. Nodes that are equal in those are merged.
///
/// No function recurses: stacks may have any depth.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{profile::{Limits, Tree}, testing};
///
/// let profile = testing::profile("cat;main;read 5\ncat;main;write 3\ncat;main 1");
/// for placed in Tree::new(&profile).layout(Limits::default()).frames {
///     println!("{:width$}{} {}", "", placed.label.name, placed.total, width = placed.level);
/// }
/// ```
#[derive(Debug)]
pub struct Tree<'p> {
    labels: Vec<Label<'p>>,
    /// Nodes, each after its parent; the first is the root.
    nodes: Vec<Node>,
}

/// Label of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Label<'p> {
    /// The name of the function, process or thread, without control characters.
    pub name: Cow<'p, str>,
    /// The file name of the function's module, without control characters; empty if there is none.
    pub module: Cow<'p, str>,
    /// Kind of code.
    pub kind: Kind,
    /// `true` if the function was inlined into its parent.
    pub inlined: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) label: u32,
    parent: u32,
    level: u32,
    pub(crate) total: u64,
    pub(crate) own: u64,
    /// Number of nodes of the subtree.
    size: u64,
    guessed: bool,
}

impl<'p> Tree<'p> {
    /// Builds the tree of a profile's first kind of samples. Totals are values in the unit of that
    /// kind.
    pub fn new(profile: &'p Profile) -> Tree<'p> {
        let mut grower = Grower::new();
        for sample in profile.samples_of_first_kind() {
            grower.add(&sample);
        }
        grower.finish()
    }

    /// Returns the sum of all values; of CPU time, the number of samples.
    pub fn total(&self) -> u64 {
        self.nodes[0].total
    }

    /// Returns every node with its index in drawing order and the end of its subtree, in that
    /// order.
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
