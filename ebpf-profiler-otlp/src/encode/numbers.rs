//! Indices of a profile's parts in the dictionary; each part is encoded once.

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{
    FrameId, FrameView, FunctionId, LabelValue, Labels, Profile, StackId, Thread, ThreadId, TraceView,
};
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;
use hashbrown::HashMap;

use super::dictionary::{Attributes, Dictionary, Function, HasStack, InMapping, LocationNumber, Mapping};
use super::facts::Facts;
use super::order;
use crate::identity::BuildIds;
use crate::kernel;
use crate::marker::{Marker, Markers, markers};
use crate::semantic::{self, frame_type};

/// Maps the parts of a profile to their indices in a dictionary.
#[derive(Debug)]
pub(super) struct Numbers<'p> {
    profile: &'p Profile,
    facts: &'p Facts,
    dictionary: &'p mut Dictionary,
    // These hold the empty element's index, 0, for parts that are not encoded yet.
    traces: Vec<HasStack>,
    stacks: Vec<HasStack>,
    functions: Vec<u32>,
    locations: Vec<LocationNumber>,
    mappings: Vec<InMapping>,
    kernel: InMapping,
    threads: Vec<Attributes>,
    /// Stacks with markers.
    marked: HashMap<(StackId, Markers), HasStack>,
    markers: Vec<(Marker, LocationNumber)>,
    frame_types: Vec<((&'static str, bool), Attributes)>,
    /// By frame; see [`order::most_used`].
    most_used: Vec<bool>,
    has_equal_stacks: bool,
}

impl<'p> Numbers<'p> {
    pub(super) fn new(profile: &'p Profile, facts: &'p Facts, dictionary: &'p mut Dictionary) -> Numbers<'p> {
        Numbers {
            profile,
            facts,
            dictionary,
            traces: vec![HasStack::default(); profile.traces().len()],
            stacks: vec![HasStack::default(); profile.stacks()],
            functions: vec![0; profile.functions().len()],
            locations: vec![LocationNumber::default(); profile.frames().len()],
            mappings: vec![InMapping::default(); profile.modules().len()],
            kernel: InMapping::default(),
            threads: vec![Attributes::default(); profile.threads().len()],
            marked: HashMap::new(),
            markers: Vec::new(),
            frame_types: Vec::new(),
            most_used: order::most_used(profile),
            has_equal_stacks: false,
        }
    }

    /// Starts a new dictionary.
    pub(super) fn clear(&mut self) {
        self.dictionary.clear();
        self.traces.fill(HasStack::default());
        self.stacks.fill(HasStack::default());
        self.functions.fill(0);
        self.locations.fill(LocationNumber::default());
        self.mappings.fill(InMapping::default());
        self.kernel = InMapping::default();
        self.threads.fill(Attributes::default());
        self.marked.clear();
        self.markers.clear();
        self.frame_types.clear();
        self.has_equal_stacks = false;
    }

    /// Encodes the locations of all frames of the profile.
    pub(super) fn add_all(&mut self) {
        self.dictionary.reserve(self.profile);
        // In the order of their addresses in memory.
        for (id, symbol) in (0..).zip(self.profile.functions()) {
            self.function(symbol, FunctionId(id));
        }
        self.add_locations(|_| true);
    }

    /// Encodes the locations of the frames of these stacks.
    pub(super) fn add_frames_of(&mut self, traces: impl Iterator<Item = TraceView<'p>>) {
        let mut is_used = vec![false; self.locations.len()];
        for frame in traces.flat_map(|trace| trace.frames()) {
            is_used[frame.id().0 as usize] = true;
        }
        self.add_locations(|id| is_used[id.0 as usize]);
    }

    fn add_locations(&mut self, is_included: impl Fn(FrameId) -> bool) {
        for most_used in [true, false] {
            let uses = std::mem::take(&mut self.most_used);
            let is_next = |id: FrameId| uses[id.0 as usize] == most_used && is_included(id);
            for frame in self.profile.frames_by_place().filter(|frame| is_next(frame.id())) {
                self.locations[frame.id().0 as usize] = self.new_location(frame);
            }
            self.most_used = uses;
        }
    }

    pub(super) fn dictionary(&mut self) -> &mut Dictionary {
        self.dictionary
    }

    /// Returns the index of a stack whose frames have locations.
    #[inline]
    pub(super) fn stack(&mut self, trace: TraceView<'p>) -> HasStack {
        let index = trace.id().0 as usize;
        if self.traces[index].is_none() {
            self.traces[index] = self.new_trace(trace);
        }
        self.traces[index]
    }

    fn new_trace(&mut self, trace: TraceView<'p>) -> HasStack {
        let before = self.dictionary.stacks();
        let number = match markers(trace) {
            Markers { gap: None, end: None } => self.whole_stack(trace),
            markers => self.marked_stack(trace, markers),
        };
        self.has_equal_stacks |= self.dictionary.stacks() == before;
        number
    }

    /// Returns `true` if two traces have the same index, so that samples may be equal.
    pub(super) fn has_equal_stacks(&self) -> bool {
        self.has_equal_stacks
    }

    fn whole_stack(&mut self, trace: TraceView<'p>) -> HasStack {
        let index = trace.stack().0 as usize;
        if self.stacks[index].is_none() {
            self.stacks[index] = self.new_stack(trace, Markers::default());
        }
        self.stacks[index]
    }

    #[cold]
    fn marked_stack(&mut self, trace: TraceView<'p>, markers: Markers) -> HasStack {
        if let Some(&number) = self.marked.get(&(trace.stack(), markers)) {
            return number;
        }
        let number = self.new_stack(trace, markers);
        self.marked.insert((trace.stack(), markers), number);
        number
    }

    fn new_stack(&mut self, trace: TraceView<'p>, markers: Markers) -> HasStack {
        let gap = markers.gap.map(|gap| (gap, self.marker(Marker::Omitted)));
        let end = markers.end.map(|end| self.marker(end));
        let Numbers { dictionary, locations, .. } = self;
        let location = |frame: FrameView<'_>| locations[frame.id().0 as usize];
        dictionary.stack(|stack| {
            let mut frames = trace.frames();
            if let Some((gap, marker)) = gap {
                stack.push_all(frames.by_ref().take(gap).map(location));
                stack.push(marker);
            }
            stack.push_all(frames.map(location));
            if let Some(marker) = end {
                stack.push(marker);
            }
        })
    }

    /// Returns the location of a marker.
    fn marker(&mut self, marker: Marker) -> LocationNumber {
        if let Some((_, location)) = self.markers.iter().find(|(known, _)| *known == marker) {
            return *location;
        }
        let name = self.dictionary.string(&marker.to_string());
        let function = self.dictionary.function_or_equal(&Function { name, ..Function::default() });
        let attributes = self.frame_type(frame_type::ABORT_MARKER, false);
        let location = self.dictionary.location(false, attributes, |location| location.line(function, 0, 0));
        self.markers.push((marker, location));
        location
    }

    fn new_location(&mut self, frame: FrameView<'p>) -> LocationNumber {
        let (mapping, address) = self.address(frame.frame());
        let kind = self.facts.frame_type(frame);
        let attributes = self.frame_type(kind, frame.is_guessed());
        for (symbol, &id) in frame.symbols().iter().zip(frame.functions()) {
            self.function(symbol, id);
        }
        let Numbers { dictionary, functions, .. } = self;
        let has_address = address != 0 || !mapping.is_none();
        dictionary.location(has_address, attributes, |location| {
            location.address(mapping, address);
            for (symbol, id) in frame.symbols().iter().zip(frame.functions()) {
                let function = functions[id.0 as usize];
                // A function needs a name, which the symbol of a custom symbolizer may lack.
                if function != 0 {
                    location.line(function, symbol.line, symbol.column);
                }
            }
        })
    }

    /// Returns the index of a function; 0 for one without any text.
    fn function(&mut self, symbol: &'p Symbol, id: FunctionId) -> u32 {
        let index = id.0 as usize;
        if self.functions[index] == 0 {
            self.functions[index] = self.new_function(symbol);
        }
        self.functions[index]
    }

    fn new_function(&mut self, symbol: &'p Symbol) -> u32 {
        let is_bare = self.facts.omits_linker_name(symbol);
        let linker_name = if is_bare { "" } else { &symbol.system_name };
        let function = Function {
            name: self.dictionary.string(&symbol.function),
            system_name: self.dictionary.string(linker_name),
            filename: self.dictionary.string(&symbol.file),
            start_line: symbol.start_line,
        };
        match is_bare {
            true => self.dictionary.function_or_equal(&function),
            false => self.dictionary.function(&function),
        }
    }

    /// Returns the mapping and the address of a frame.
    fn address(&mut self, frame: Frame) -> (InMapping, u64) {
        match frame {
            Frame::Kernel { address } => (self.kernel(), address),
            Frame::Native { module, address, .. } => (self.mapping(module.0 as usize), address),
            Frame::Anonymous { address, .. } => (InMapping::default(), address),
            _ => (InMapping::default(), 0),
        }
    }

    fn kernel(&mut self) -> InMapping {
        if self.kernel.is_none() {
            self.kernel = self.new_mapping(&kernel::module(), &self.facts.kernel);
        }
        self.kernel
    }

    fn mapping(&mut self, module: usize) -> InMapping {
        if self.mappings[module].is_none() {
            let ids = &self.facts.modules[module];
            self.mappings[module] = self.new_mapping(&self.profile.modules()[module], ids);
        }
        self.mappings[module]
    }

    fn new_mapping(&mut self, module: &Module, ids: &BuildIds) -> InMapping {
        // A checker rejects an empty range other than 0 to 0.
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

    fn frame_type(&mut self, kind: &'static str, guessed: bool) -> Attributes {
        let known =
            self.frame_types.iter().find(|((known, with), _)| std::ptr::eq(*known, kind) && *with == guessed);
        if let Some((_, attributes)) = known {
            return *attributes;
        }
        let mut numbers = vec![self.dictionary.text_attribute(semantic::FRAME_TYPE, kind)];
        if guessed {
            numbers.push(self.dictionary.flag_attribute(semantic::FRAME_GUESSED));
        }
        let attributes = Attributes::of_location(&numbers);
        self.frame_types.push(((kind, guessed), attributes));
        attributes
    }

    /// Returns the attributes of a thread.
    #[inline]
    pub(super) fn thread(&mut self, id: ThreadId) -> Attributes {
        let index = id.0 as usize;
        if self.threads[index].len() == 0 {
            self.threads[index] = self.new_thread(&self.profile.threads()[index]);
        }
        self.threads[index]
    }

    fn new_thread(&mut self, thread: &Thread) -> Attributes {
        let mut numbers = Vec::new();
        let process = &self.profile.processes()[thread.process.0 as usize];
        if let Some(tid) = semantic::thread_id(process, thread) {
            numbers.push(self.dictionary.int_attribute(semantic::THREAD_ID, tid.into()));
        }
        if !thread.name.is_empty() {
            numbers.push(self.dictionary.text_attribute(semantic::THREAD_NAME, &thread.name));
        }
        let span = thread.labels.span();
        let is_of_span = |key: &str| span.is_some() && [Labels::TRACE_ID, Labels::SPAN_ID].contains(&key);
        // Keys are unique in a sample.
        let is_free = |key: &str| ![semantic::THREAD_ID, semantic::THREAD_NAME].contains(&key);
        for label in thread.labels.iter().filter(|label| !is_of_span(label.key()) && is_free(label.key())) {
            numbers.push(match label.value() {
                LabelValue::Text(text) => self.dictionary.text_attribute(label.key(), text),
                LabelValue::Number(number) => self.dictionary.int_attribute(label.key(), *number as u64),
                _ => continue,
            });
        }
        let link = span.map(|(trace_id, span_id)| self.dictionary.link(trace_id, span_id));
        Attributes::of_sample(&numbers, link.unwrap_or_default())
    }
}
