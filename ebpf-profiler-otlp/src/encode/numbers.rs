//! From the parts of a profile to their numbers in a dictionary, each part looked at once.

use std::sync::Arc;

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{FrameView, FunctionId, Profile, StackId, Thread, ThreadId, TraceView};
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;
use hashbrown::HashMap;

use super::dictionary::{Dictionary, Function, Line, Location, Mapping};
use super::fields::sample;
use crate::identity::BuildIds;
use crate::kernel;
use crate::marker::{Marker, Markers, markers};
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
    /// Each of these holds 0, the empty element's number, for what wasn't asked for yet.
    traces: Vec<u32>,
    stacks: Vec<u32>,
    functions: Vec<u32>,
    locations: Vec<Varint>,
    mappings: Vec<u32>,
    /// The stacks that are not whole.
    marked: HashMap<(StackId, Markers), u32>,
    markers: Vec<(Marker, Varint)>,
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
            traces: vec![0; profile.traces().len()],
            stacks: vec![0; profile.stacks()],
            functions: vec![0; profile.functions().len()],
            locations: vec![Varint::default(); profile.frames().len()],
            mappings: vec![0; profile.modules().len()],
            marked: HashMap::new(),
            markers: Vec::new(),
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
        self.traces.fill(0);
        self.stacks.fill(0);
        self.functions.fill(0);
        self.locations.fill(Varint::default());
        self.mappings.fill(0);
        self.marked.clear();
        self.markers.clear();
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
        let index = trace.id().0 as usize;
        if self.traces[index] != 0 {
            return (self.traces[index], false);
        }
        let before = self.dictionary.stacks();
        self.traces[index] = match markers(trace) {
            Markers { gap: None, end: None } => self.whole_stack(trace),
            markers => self.marked_stack(trace, markers),
        };
        (self.traces[index], self.dictionary.stacks() == before)
    }

    fn whole_stack(&mut self, trace: TraceView<'p>) -> u32 {
        let index = trace.stack().0 as usize;
        if self.stacks[index] == 0 {
            self.stacks[index] = self.new_stack(trace, Markers::default());
        }
        self.stacks[index]
    }

    #[cold]
    fn marked_stack(&mut self, trace: TraceView<'p>, markers: Markers) -> u32 {
        if let Some(&number) = self.marked.get(&(trace.stack(), markers)) {
            return number;
        }
        let number = self.new_stack(trace, markers);
        self.marked.insert((trace.stack(), markers), number);
        number
    }

    fn new_stack(&mut self, trace: TraceView<'p>, markers: Markers) -> u32 {
        let mut stack = self.dictionary.begin_stack(trace.frames().len());
        let mut frames = trace.frames();
        if let Some(gap) = markers.gap {
            frames.by_ref().take(gap).for_each(|frame| stack.push(self.location(frame)));
            stack.push(self.marker(Marker::LeftOut));
        }
        frames.for_each(|frame| stack.push(self.location(frame)));
        if let Some(marker) = markers.end {
            stack.push(self.marker(marker));
        }
        self.dictionary.end_stack(stack)
    }

    /// A location that is no code but says something.
    fn marker(&mut self, marker: Marker) -> Varint {
        if let Some((_, location)) = self.markers.iter().find(|(known, _)| *known == marker) {
            return *location;
        }
        let name = self.dictionary.string(&marker.to_string());
        let function = Function { name, system_name: 0, filename: 0, start_line: 0 };
        let line = Line { function: self.dictionary.made_up_function(&function), line: 0, column: 0 };
        let attributes = [self.frame_type(frame_type::ABORT_MARKER)];
        let location = Location { mapping: 0, address: 0, lines: &[line], attributes: &attributes };
        let location = Varint::new(self.dictionary.location(&location));
        self.markers.push((marker, location));
        location
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
        lines
            .extend(frame.symbols().iter().zip(frame.functions()).map(|(symbol, &id)| self.line(symbol, id)));
        let kind = self.frame_type(self.facts.frame_type(frame));
        let guessed = frame.is_guessed().then(|| self.dictionary.flag_attribute(semantic::FRAME_GUESSED));
        let attributes = [kind, guessed.unwrap_or_default()];
        let attributes = &attributes[..1 + usize::from(guessed.is_some())];
        let location = Location { mapping, address, lines: &lines, attributes };
        let number = match frame.frame() {
            Frame::Kernel { .. } | Frame::Native { .. } | Frame::Anonymous { .. } => {
                self.dictionary.location(&location)
            }
            _ => self.dictionary.placeless_location(&location),
        };
        self.lines = lines;
        number
    }

    fn line(&mut self, symbol: &Symbol, id: FunctionId) -> Line {
        let index = id.0 as usize;
        if self.functions[index] == 0 {
            self.functions[index] = self.new_function(symbol);
        }
        Line { function: self.functions[index], line: symbol.line.into(), column: symbol.column.into() }
    }

    fn new_function(&mut self, symbol: &Symbol) -> u32 {
        let function = Function {
            name: self.dictionary.string(&symbol.function),
            system_name: self.dictionary.string(&symbol.system_name),
            filename: self.dictionary.string(&symbol.file),
            start_line: symbol.start_line.into(),
        };
        self.dictionary.function(&function)
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
