//! Tables that all threads share.

use std::fmt::Display;
use std::io::{self, Write};

use hashbrown::HashMap;

use super::category;
use crate::profile::{Call, Interner, Kind, Sample};
use crate::sink::function;
use crate::sink::json::{write_array, write_strings};

/// Distinct strings, functions, frames and stacks.
#[derive(Default)]
pub(super) struct Tables {
    strings: Interner<String>,
    /// Names of files that hold code, as strings.
    resources: Interner<u32>,
    /// Source files, as strings.
    sources: Interner<u32>,
    functions: Interner<Function>,
    frames: Interner<Frame>,
    stacks: Interner<Node>,
    /// Frames by frame and depth: a frame is formatted once.
    by_frame: HashMap<(u32, usize), u32>,
    /// Stacks by traces.
    by_trace: HashMap<u32, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Function {
    name: u32,
    resource: Option<u32>,
    source: Option<u32>,
    is_javascript: bool,
    line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    function: u32,
    category: usize,
    depth: usize,
    line: u32,
    column: u32,
}

/// A frame with the stack below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    frame: u32,
    parent: Option<u32>,
}

impl Tables {
    /// Returns the index of a sample's stack.
    pub(super) fn stack(&mut self, sample: &Sample<'_>) -> u32 {
        let trace = sample.trace();
        if let Some(&stack) = self.by_trace.get(&trace.id().0) {
            return stack;
        }
        let mut parent = None;
        for call in trace.calls() {
            let frame = self.frame(&call);
            parent = Some(self.stacks.intern(Node { frame, parent }));
        }
        // A sample without a stack would be missing from all sums.
        let stack = parent.unwrap_or_else(|| self.missing("[no stack]"));
        self.by_trace.insert(trace.id().0, stack);
        stack
    }

    fn missing(&mut self, note: &str) -> u32 {
        let function = self.function(note, "", "", false, 0);
        let category = category(Kind::Missing);
        let frame = self.frames.intern(Frame { function, category, depth: 0, line: 0, column: 0 });
        self.stacks.intern(Node { frame, parent: None })
    }

    fn frame(&mut self, call: &Call<'_>) -> u32 {
        let key = match call {
            Call::Function { frame, depth } => Some((frame.id().0, *depth)),
            _ => None,
        };
        if let Some(&frame) = key.and_then(|key| self.by_frame.get(&key)) {
            return frame;
        }
        let module = if call.kind() == Kind::Kernel { "[kernel]" } else { call.module().unwrap_or_default() };
        let symbol = call.symbol();
        let function = self.function(
            &function::name(call),
            module,
            function::source(call),
            is_javascript(call),
            symbol.map_or(0, |symbol| symbol.start_line),
        );
        let frame = self.frames.intern(Frame {
            function,
            category: category(call.kind()),
            depth: key.map_or(0, |(_, depth)| depth),
            line: symbol.map_or(0, |symbol| symbol.line),
            column: symbol.map_or(0, |symbol| symbol.column),
        });
        self.by_frame.extend(key.map(|key| (key, frame)));
        frame
    }

    fn function(&mut self, name: &str, module: &str, source: &str, is_javascript: bool, line: u32) -> u32 {
        let name = self.string(name);
        let resource = (!module.is_empty()).then(|| {
            let module = self.string(module);
            self.resources.intern(module)
        });
        let source = (!source.is_empty()).then(|| {
            let source = self.string(source);
            self.sources.intern(source)
        });
        self.functions.intern(Function { name, resource, source, is_javascript, line })
    }

    fn string(&mut self, text: &str) -> u32 {
        self.strings.intern(function::text(text))
    }

    /// Writes all tables.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_stacks(out)?;
        self.write_frames(out)?;
        self.write_functions(out)?;
        self.write_files(out)?;
        out.write_all(
            b",\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[]},\
              \"sourceLocationTable\":{\"length\":0,\"source\":[],\"line\":[],\"column\":[]},\n\"stringArray\":",
        )?;
        write_strings(out, &self.strings.items)
    }

    fn write_stacks(&self, out: &mut dyn Write) -> io::Result<()> {
        let stacks = &self.stacks.items;
        let offsets = (0..).zip(stacks).map(|(index, node)| node.parent.map_or(0, |parent| index - parent));
        write_table(out, "\"stackTable\":", stacks.len())?;
        write_column(out, "frame", stacks.iter().map(|node| node.frame))?;
        write_column(out, "prefixOffset", offsets)?;
        out.write_all(b"}")
    }

    fn write_frames(&self, out: &mut dyn Write) -> io::Result<()> {
        let frames = &self.frames.items;
        let constant = |text| frames.iter().map(move |_| text);
        write_table(out, ",\n\"frameTable\":", frames.len())?;
        write_column(out, "address", constant("-1"))?;
        write_column(out, "lib", constant("-1"))?;
        write_column(out, "inlineDepth", frames.iter().map(|frame| frame.depth))?;
        write_column(out, "category", frames.iter().map(|frame| frame.category))?;
        write_column(out, "subcategory", constant("0"))?;
        write_column(out, "func", frames.iter().map(|frame| frame.function))?;
        write_column(out, "nativeSymbol", constant("null"))?;
        write_column(out, "innerWindowID", constant("0"))?;
        write_column(out, "line", frames.iter().map(|frame| Line(frame.line)))?;
        write_column(out, "column", frames.iter().map(|frame| Line(frame.column)))?;
        write_column(out, "originalLocation", constant("null"))?;
        out.write_all(b"}")
    }

    fn write_functions(&self, out: &mut dyn Write) -> io::Result<()> {
        let functions = &self.functions.items;
        let constant = |text| functions.iter().map(move |_| text);
        write_table(out, ",\n\"funcTable\":", functions.len())?;
        write_column(out, "name", functions.iter().map(|function| function.name))?;
        write_column(out, "isJS", functions.iter().map(|function| function.is_javascript))?;
        write_column(out, "relevantForJS", constant("false"))?;
        write_column(out, "resource", functions.iter().map(|it| it.resource.map_or(-1, i64::from)))?;
        write_column(out, "source", functions.iter().map(|function| Index(function.source)))?;
        write_column(out, "lineNumber", functions.iter().map(|function| Line(function.line)))?;
        write_column(out, "columnNumber", constant("null"))?;
        write_column(out, "originalLocation", constant("null"))?;
        out.write_all(b"}")
    }

    fn write_files(&self, out: &mut dyn Write) -> io::Result<()> {
        let (resources, sources) = (&self.resources.items, &self.sources.items);
        write_table(out, ",\n\"resourceTable\":", resources.len())?;
        write_column(out, "name", resources)?;
        write_column(out, "host", resources.iter().map(|_| "null"))?;
        write_column(out, "type", resources.iter().map(|_| LIBRARY))?;
        write_table(out, "},\n\"sources\":", sources.len())?;
        write_column(out, "id", sources.iter().map(|_| "null"))?;
        write_column(out, "filename", sources)?;
        write_column(out, "startLine", sources.iter().map(|_| 1))?;
        write_column(out, "startColumn", sources.iter().map(|_| 1))?;
        write_column(out, "sourceMapURL", sources.iter().map(|_| "null"))?;
        write_column(out, "content", sources.iter().map(|_| "null"))?;
        out.write_all(b"}")
    }
}

/// Begins a table.
fn write_table(out: &mut dyn Write, name: &str, len: usize) -> io::Result<()> {
    write!(out, "{name}{{\"length\":{len}")
}

fn write_column<T: Display>(
    out: &mut dyn Write,
    name: &str,
    items: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    write!(out, ",\"{name}\":")?;
    write_array(out, items)
}

fn is_javascript(call: &Call<'_>) -> bool {
    let Call::Function { frame, .. } = call else { return false };
    frame.script().is_some_and(|script| script.language == "v8js")
}

/// A line or a column; 0 is `null`.
struct Line(u32);

impl Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Index((self.0 != 0).then_some(self.0)).fmt(f)
    }
}

/// An index or `null`.
struct Index(Option<u32>);

impl Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(index) => index.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// The type of a resource that is a file of code.
const LIBRARY: u32 = 1;
