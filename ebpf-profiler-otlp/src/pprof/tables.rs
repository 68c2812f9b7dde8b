//! The tables of a pprof profile.

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{FrameView, Profile, TraceView};
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;

use super::fields::{self, function, line, location, mapping, profile};
use crate::identity::hex;
use crate::kernel;
use crate::marker::{Marker, markers};
use crate::table::Table;
use crate::wire::{Wire, number_len};

/// Tables of strings, functions, locations and mappings.
#[derive(Debug)]
pub(super) struct Tables<'p> {
    profile: &'p Profile,
    strings: Table,
    functions: Table,
    locations: Table,
    mappings: Table,
    /// The `has_*` flags by mapping.
    known: Vec<Known>,
    /// Ids by frame; 0 if it is not encoded yet.
    by_frame: Vec<u32>,
    /// Ids by module; 0 if it is not encoded yet.
    by_module: Vec<u32>,
    content: Vec<u8>,
}

/// `has_functions`, `has_filenames`, `has_line_numbers`, `has_inline_frames`.
type Known = [bool; 4];

impl<'p> Tables<'p> {
    pub(super) fn new(profile: &'p Profile) -> Tables<'p> {
        Tables {
            profile,
            strings: Table::new(profile::STRINGS),
            functions: Table::new(profile::FUNCTION),
            locations: Table::new(profile::LOCATION),
            mappings: Table::new(profile::MAPPING),
            known: vec![[false; 4]],
            by_frame: vec![0; profile.frames().len()],
            by_module: vec![0; profile.modules().len()],
            content: Vec::new(),
        }
    }

    pub(super) fn string(&mut self, text: &str) -> u32 {
        self.strings.intern(text.as_bytes())
    }

    /// Replaces `stack` by the locations of a trace, leaf first.
    pub(super) fn stack(&mut self, trace: TraceView<'p>, stack: &mut Vec<u32>) {
        stack.clear();
        stack.extend(trace.frames().map(|frame| self.location(frame)));
        let markers = markers(trace);
        if let Some(gap) = markers.gap {
            stack.insert(gap, self.marker(Marker::Omitted));
        }
        stack.extend(markers.end.map(|marker| self.marker(marker)));
    }

    fn marker(&mut self, marker: Marker) -> u32 {
        self.new_location(0, 0, &[Symbol::new(marker.to_string())])
    }

    fn location(&mut self, frame: FrameView<'p>) -> u32 {
        let index = frame.id().0 as usize;
        if self.by_frame[index] == 0 {
            let (mapping, address) = self.place(frame.frame());
            self.by_frame[index] = self.new_location(mapping, address, frame.symbols());
        }
        self.by_frame[index]
    }

    fn place(&mut self, frame: Frame) -> (u32, u64) {
        match frame {
            Frame::Kernel { address } => (self.mapping(&kernel::module()), address),
            Frame::Native { module, address, .. } => (self.known_mapping(module.0 as usize), address),
            Frame::Anonymous { address, .. } => (0, address),
            _ => (0, 0),
        }
    }

    fn new_location(&mut self, mapping: u32, address: u64, symbols: &[Symbol]) -> u32 {
        let functions: Vec<u32> = symbols.iter().map(|symbol| self.function(symbol)).collect();
        self.content.clear();
        self.content.number(location::MAPPING, mapping.into());
        self.content.number(location::ADDRESS, address);
        // A function needs a name, which the symbol of a custom symbolizer may lack.
        for (&function, symbol) in functions.iter().zip(symbols).filter(|(function, _)| **function != 0) {
            put_line(function, symbol, &mut self.content);
        }
        self.set_flags(mapping, symbols);
        self.locations.intern(&self.content)
    }

    fn set_flags(&mut self, mapping: u32, symbols: &[Symbol]) {
        let [functions, files, lines, inlined] = &mut self.known[mapping as usize];
        *functions |= !symbols.is_empty();
        *files |= symbols.iter().any(|symbol| !symbol.file.is_empty());
        *lines |= symbols.iter().any(|symbol| symbol.line != 0);
        *inlined |= symbols.len() > 1;
    }

    fn function(&mut self, symbol: &Symbol) -> u32 {
        let name = self.string(&symbol.function);
        let system_name = match &*symbol.system_name {
            "" => name,
            system_name => self.string(system_name),
        };
        let file = self.string(&symbol.file);
        self.content.clear();
        self.content.number(function::NAME, name.into());
        self.content.number(function::SYSTEM_NAME, system_name.into());
        self.content.number(function::FILENAME, file.into());
        self.content.number(function::START_LINE, symbol.start_line.into());
        self.functions.intern(&self.content)
    }

    fn known_mapping(&mut self, module: usize) -> u32 {
        if self.by_module[module] == 0 {
            self.by_module[module] = self.mapping(&self.profile.modules()[module]);
        }
        self.by_module[module]
    }

    fn mapping(&mut self, module: &Module) -> u32 {
        let file = self.string(&module.path);
        let build_id = self.string(&hex(&module.build_id));
        self.content.clear();
        self.content.number(mapping::START, module.start);
        self.content.number(mapping::LIMIT, module.end);
        self.content.number(mapping::OFFSET, module.offset);
        self.content.number(mapping::FILENAME, file.into());
        self.content.number(mapping::BUILD_ID, build_id.into());
        let number = self.mappings.intern(&self.content);
        self.known.resize(self.mappings.len(), [false; 4]);
        number
    }

    /// Appends all tables.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for (content, (number, known)) in self.mappings.contents().zip((0..).zip(&self.known)).skip(1) {
            put_numbered(profile::MAPPING, number, content, &flags(known), out);
        }
        for (field, table) in [(profile::LOCATION, &self.locations), (profile::FUNCTION, &self.functions)] {
            for (content, number) in table.contents().zip(0..).skip(1) {
                put_numbered(field, number, content, &[], out);
            }
        }
        out.extend_from_slice(self.strings.bytes());
    }
}

/// Appends an element with its id.
fn put_numbered(field: u8, number: u64, content: &[u8], flags: &[u8], out: &mut Vec<u8>) {
    out.message(field, number_len(number) + content.len() + flags.len());
    out.number(fields::ID, number);
    out.extend_from_slice(content);
    out.extend_from_slice(flags);
}

/// Returns the `has_*` fields, without which pprof would symbolize the mapping itself.
fn flags(known: &Known) -> Vec<u8> {
    let mut flags = Vec::new();
    for (&known, field) in known.iter().zip(mapping::HAS..) {
        flags.number(field, known.into());
    }
    flags
}

fn put_line(function: u32, symbol: &Symbol, out: &mut Vec<u8>) {
    let (line, column) = (symbol.line.into(), symbol.column.into());
    let len = number_len(function.into()) + number_len(line) + number_len(column);
    out.message(location::LINE, len);
    out.number(line::FUNCTION, function.into());
    out.number(line::LINE, line);
    out.number(line::COLUMN, column);
}
