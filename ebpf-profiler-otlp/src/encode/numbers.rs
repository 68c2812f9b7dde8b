//! From the parts of a profile to their numbers in a dictionary, each part looked at once.

use std::sync::Arc;

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{FrameView, Profile, Thread, ThreadId, TraceView};
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;

use super::dictionary::{Dictionary, Function, Line, Location, Mapping};
use super::fields::sample;
use super::functions::Functions;
use crate::identity::BuildIds;
use crate::kernel;
use crate::marker::markers;
use crate::semantic::{self, frame_type};
use crate::wire::{Varint, Wire};

/// What numbers need besides the profile.
#[derive(Debug)]
pub(super) struct Facts {
    /// Of each module of the profile.
    pub(super) modules: Vec<Arc<BuildIds>>,
    pub(super) kernel: BuildIds,
    /// Whether Rust frames are called so.
    pub(super) rust: bool,
}

/// The numbers that the parts of a profile have in a dictionary, as far as they were asked for.
#[derive(Debug)]
pub(super) struct Numbers<'p> {
    profile: &'p Profile,
    facts: &'p Facts,
    dictionary: &'p mut Dictionary,
    functions: Functions<'p>,
    /// Each of these holds 0, the empty element's number, for what wasn't asked for yet.
    stacks: Vec<u32>,
    locations: Vec<Varint>,
    mappings: Vec<u32>,
    kernel: u32,
    frame_types: Vec<(&'static str, u32)>,
    /// Where in `thread_attributes` those of a thread stand.
    threads: Vec<(u32, u32)>,
    thread_attributes: Vec<u8>,
    lines: Vec<Line>,
}

impl<'p> Numbers<'p> {
    pub(super) fn new(profile: &'p Profile, facts: &'p Facts, dictionary: &'p mut Dictionary) -> Numbers<'p> {
        Numbers {
            profile,
            facts,
            dictionary,
            functions: Functions::default(),
            stacks: vec![0; profile.traces().len()],
            locations: vec![Varint::default(); profile.frames().len()],
            mappings: vec![0; profile.modules().len()],
            kernel: 0,
            frame_types: Vec::new(),
            threads: vec![(0, 0); profile.threads().len()],
            thread_attributes: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Begins a new dictionary.
    pub(super) fn clear(&mut self) {
        self.dictionary.clear();
        self.functions.clear();
        self.stacks.fill(0);
        self.locations.fill(Varint::default());
        self.mappings.fill(0);
        self.kernel = 0;
        self.frame_types.clear();
        self.threads.fill((0, 0));
        self.thread_attributes.clear();
    }

    pub(super) fn dictionary(&mut self) -> &mut Dictionary {
        self.dictionary
    }

    /// The number of a stack, and whether another trace of the profile was given the same.
    pub(super) fn stack(&mut self, trace: TraceView<'p>) -> (u32, bool) {
        let known = self.stacks[trace.id().0 as usize];
        if known != 0 {
            return (known, false);
        }
        let before = self.dictionary.stacks();
        let number = self.new_stack(trace);
        self.stacks[trace.id().0 as usize] = number;
        (number, self.dictionary.stacks() == before)
    }

    fn new_stack(&mut self, trace: TraceView<'p>) -> u32 {
        let markers = markers(trace);
        let mut stack = self.dictionary.begin_stack(trace.frames().len());
        let mut frames = trace.frames();
        if let Some((gap, text)) = markers.gap {
            frames.by_ref().take(gap).for_each(|frame| stack.push(self.location(frame)));
            stack.push(self.marker(text));
        }
        frames.for_each(|frame| stack.push(self.location(frame)));
        if let Some(text) = markers.end {
            stack.push(self.marker(&text));
        }
        self.dictionary.end_stack(stack)
    }

    /// A location that is no code but says something.
    fn marker(&mut self, text: &str) -> Varint {
        let name = self.dictionary.string(text);
        let function = Function { name, system_name: 0, filename: 0, start_line: 0 };
        let line = Line { function: self.dictionary.function(&function), line: 0, column: 0 };
        let attributes = [self.frame_type(frame_type::ABORT_MARKER)];
        let location = Location { mapping: 0, address: 0, lines: &[line], attributes: &attributes };
        Varint::new(self.dictionary.location(&location))
    }

    #[inline]
    fn location(&mut self, frame: FrameView<'p>) -> Varint {
        let index = frame.id().0 as usize;
        if self.locations[index] == Varint::default() {
            self.locations[index] = Varint::new(self.new_location(frame));
        }
        self.locations[index]
    }

    #[cold]
    fn new_location(&mut self, frame: FrameView<'p>) -> u32 {
        let (mapping, address) = self.place(frame.frame());
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        lines.extend(frame.symbols().iter().map(|symbol| self.line(symbol)));
        let kind = self.frame_type(self.facts.frame_type(frame));
        let guessed = frame.is_guessed().then(|| self.dictionary.flag_attribute(semantic::FRAME_GUESSED));
        let attributes = [kind, guessed.unwrap_or_default()];
        let attributes = &attributes[..1 + usize::from(guessed.is_some())];
        let number = self.dictionary.location(&Location { mapping, address, lines: &lines, attributes });
        self.lines = lines;
        number
    }

    fn line(&mut self, symbol: &'p Symbol) -> Line {
        let function = self.functions.number(symbol, self.dictionary);
        Line { function, line: symbol.line.into(), column: symbol.column.into() }
    }

    /// The mapping and the address of a frame.
    fn place(&mut self, frame: Frame) -> (u32, u64) {
        match frame {
            Frame::Kernel { address } => (self.kernel(), address),
            Frame::Native { module, address, .. } => (self.mapping(module.0 as usize), address),
            Frame::Anonymous { address, .. } => (0, address),
            _ => (0, 0),
        }
    }

    fn kernel(&mut self) -> u32 {
        if self.kernel == 0 {
            self.kernel = self.new_mapping(&kernel::module(), &self.facts.kernel);
        }
        self.kernel
    }

    fn mapping(&mut self, module: usize) -> u32 {
        if self.mappings[module] == 0 {
            let ids = &self.facts.modules[module];
            self.mappings[module] = self.new_mapping(&self.profile.modules()[module], ids);
        }
        self.mappings[module]
    }

    fn new_mapping(&mut self, module: &Module, ids: &BuildIds) -> u32 {
        // A checker refuses an empty range that isn't 0 to 0.
        let known = module.start < module.end;
        let or_zero = |value| if known { value } else { 0 };
        let filename = self.dictionary.string(&module.path);
        let pairs = [
            (semantic::BUILD_ID_GNU, &ids.gnu),
            (semantic::BUILD_ID_GO, &ids.go),
            (semantic::BUILD_ID_HTLHASH, &ids.htlhash),
        ];
        let present = pairs.into_iter().filter(|(_, id)| !id.is_empty());
        let attributes: Vec<u32> = present.map(|(key, id)| self.dictionary.text_attribute(key, id)).collect();
        self.dictionary.mapping(&Mapping {
            start: or_zero(module.start),
            limit: or_zero(module.end),
            offset: or_zero(module.offset),
            filename,
            attributes: &attributes,
        })
    }

    fn frame_type(&mut self, kind: &'static str) -> u32 {
        let known = self.frame_types.iter().find(|(known, _)| *known == kind);
        if let Some((_, number)) = known {
            return *number;
        }
        let number = self.dictionary.text_attribute(semantic::FRAME_TYPE, kind);
        self.frame_types.push((kind, number));
        number
    }

    /// The field of a sample that lists the attributes of its thread.
    pub(super) fn thread(&mut self, id: ThreadId) -> &[u8] {
        let index = id.0 as usize;
        if self.threads[index] == (0, 0) {
            self.threads[index] = self.new_thread(&self.profile.threads()[index]);
        }
        let (start, end) = self.threads[index];
        &self.thread_attributes[start as usize..end as usize]
    }

    fn new_thread(&mut self, thread: &Thread) -> (u32, u32) {
        let id = self.dictionary.int_attribute(semantic::THREAD_ID, thread.tid.into());
        let named = !thread.name.is_empty();
        let name = named.then(|| self.dictionary.text_attribute(semantic::THREAD_NAME, &thread.name));
        let attributes = [id, name.unwrap_or_default()];
        let start = self.thread_attributes.len() as u32;
        self.thread_attributes.packed(sample::ATTRIBUTES, &attributes[..1 + usize::from(named)]);
        (start, self.thread_attributes.len() as u32)
    }
}

impl Facts {
    fn frame_type(&self, frame: FrameView<'_>) -> &'static str {
        match frame.frame() {
            Frame::Kernel { .. } => frame_type::KERNEL,
            Frame::Native { module, .. } => self.native_type(module.0 as usize, frame.symbols()),
            Frame::Script { .. } => frame.script().map_or(frame_type::NATIVE, |script| script.language),
            _ => frame_type::NATIVE,
        }
    }

    /// The innermost function decides; a Go program holds C as well.
    fn native_type(&self, module: usize, symbols: &[Symbol]) -> &'static str {
        let file = symbols.first().map_or(&b""[..], |symbol| symbol.file.as_bytes());
        let is_go = !self.modules[module].go.is_empty();
        match file {
            [.., b'.', b'g', b'o'] => frame_type::GO,
            [] | [.., b'.', b's'] if is_go => frame_type::GO,
            [.., b'.', b'r', b's'] if self.rust => frame_type::RUST,
            _ => frame_type::NATIVE,
        }
    }
}
