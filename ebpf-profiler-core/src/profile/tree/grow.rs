//! Construction of a tree from samples.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::{Label, Node, Tree};
use crate::profile::{Call, Kind, Sample};
use crate::text::clean;

/// A tree under construction.
#[derive(Default)]
pub(super) struct Grower<'p> {
    labels: Labels<'p>,
    nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32>,
}

impl<'p> Grower<'p> {
    /// Creates a tree with a root.
    pub(super) fn new() -> Grower<'p> {
        let mut grower = Grower::default();
        let all = grower.labels.intern(origin(Cow::Borrowed("all")));
        grower.child(0, all);
        grower
    }

    pub(super) fn add(&mut self, sample: &Sample<'p>) {
        let mut node = 0;
        for name in origins(sample) {
            let label = self.labels.intern(origin(name));
            node = self.child(node, label);
        }
        for call in sample.trace().calls() {
            let label = self.labels.of(&call);
            node = self.child(node, label);
            self.nodes[node as usize].guessed |= call.is_guessed();
        }
        let own = &mut self.nodes[node as usize].own;
        *own = own.saturating_add(sample.value());
    }

    fn child(&mut self, parent: u32, label: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.children.entry((parent, label)).or_insert(next);
        if node == next {
            let level = self.nodes.get(parent as usize).map_or(0, |parent| parent.level + 1);
            self.nodes.push(Node { label, parent, level, total: 0, own: 0, size: 1, guessed: false });
        }
        node
    }

    pub(super) fn finish(mut self) -> Tree<'p> {
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            node.total = node.total.saturating_add(node.own);
            let Node { parent, total, size, .. } = *node;
            if index > 0 {
                let parent = &mut self.nodes[parent as usize];
                parent.total = parent.total.saturating_add(total);
                parent.size += size;
            }
        }
        Tree { labels: self.labels.items, nodes: self.nodes }
    }
}

/// Returns the name of the process and, if it differs, of the thread.
pub(crate) fn origins<'p>(sample: &Sample<'p>) -> impl Iterator<Item = Cow<'p, str>> + use<'p> {
    let thread = &*sample.thread().name;
    let executable = sample.process().executable.rsplit('/').next().unwrap_or_default();
    let executable = executable.strip_suffix(" (deleted)").unwrap_or(executable);
    // The kernel truncates a command's name to 15 bytes.
    let is_same = thread == executable || thread.len() == 15 && executable.starts_with(thread);
    let process = (!executable.is_empty()).then(|| clean(executable));
    let thread = (process.is_none() || !is_same).then(|| unnumbered(thread));
    process.into_iter().chain(thread)
}

fn origin(name: Cow<'_, str>) -> Label<'_> {
    Label { name, module: Cow::Borrowed(""), kind: Kind::Origin, inlined: false }
}

/// Returns a thread's name with `*` for a number at its end, which merges the threads of a pool.
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

/// Interner of labels by content. Labels of a frame are created once.
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
    let module = call.module().map_or(Cow::Borrowed(""), clean);
    Label { name, module, kind: call.kind(), inlined: call.is_inlined() }
}
