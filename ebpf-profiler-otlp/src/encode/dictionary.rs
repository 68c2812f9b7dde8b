//! The dictionary of one message.

use ebpf_profiler_core::profile::Profile;

use super::fields::{
    any_value, attribute, dictionary, function, line, link, location, mapping, sample, stack,
};
use crate::buffer::{Buffer, Kept, Piece};
use crate::table::Table;
use crate::wire::{Wire, bytes_len, number_len};

/// The dictionary's tables, each with the empty element at index 0.
#[derive(Debug)]
pub(super) struct Dictionary {
    strings: Table,
    attributes: Table,
    functions: Table,
    mappings: Table,
    locations: Table,
    stacks: Table,
    /// Its first element is empty, too: ids of zeros, which a comment of the schema allows, are rejected by checkers.
    links: Table,
    content: Vec<u8>,
}

/// A mapping with indices of the dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping<'a> {
    pub(super) start: u64,
    pub(super) limit: u64,
    pub(super) offset: u64,
    pub(super) filename: u32,
    pub(super) attributes: &'a [u32],
}

/// A function with indices of the dictionary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Function {
    pub(super) name: u32,
    pub(super) system_name: u32,
    pub(super) filename: u32,
    pub(super) start_line: u32,
}

/// The encoded `mapping_index` field of a location.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InMapping(Piece);

/// The encoded `attribute_indices` field of a location or a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes([Piece; 2]);

/// The encoded index of a location; 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LocationNumber(Kept);

/// The encoded `stack_index` field of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HasStack(Kept);

/// Writes a location.
#[derive(Debug)]
pub(super) struct Location<'b>(&'b mut Buffer);

/// Writes a stack.
#[derive(Debug)]
pub(super) struct Stack<'b>(&'b mut Buffer);

impl InMapping {
    fn new(number: u32) -> InMapping {
        let mut field = Vec::new();
        field.number(location::MAPPING, number.into());
        InMapping(Piece::new(&field))
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl Attributes {
    /// Encodes the attributes of a location, at most two.
    pub(super) fn of_location(numbers: &[u32]) -> Attributes {
        Attributes::new(location::ATTRIBUTES, numbers)
    }

    /// Encodes the attributes of a sample, at most ten, or eight with a link: numbers of a message
    /// have at most three bytes.
    pub(super) fn of_sample(numbers: &[u32], link: u32) -> Attributes {
        let mut field = Vec::new();
        field.packed(sample::ATTRIBUTES, numbers);
        field.number(sample::LINK, link.into());
        Attributes::of_field(&field)
    }

    fn new(number: u8, numbers: &[u32]) -> Attributes {
        let mut field = Vec::new();
        field.packed(number, numbers);
        Attributes::of_field(&field)
    }

    fn of_field(field: &[u8]) -> Attributes {
        let (first, more) = field.split_at(field.len().min(Piece::MAX));
        Attributes([Piece::new(first), Piece::new(more)])
    }

    pub(super) fn len(&self) -> usize {
        let [first, more] = &self.0;
        first.len() + more.len()
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Buffer) {
        let [first, more] = self.0;
        out.piece(first);
        if !more.is_empty() {
            out.piece(more);
        }
    }
}

impl HasStack {
    fn new(number: u32) -> HasStack {
        // The empty stack is the field's default.
        HasStack(if number == 0 { Kept::default() } else { Kept::field(sample::STACK, number) })
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Buffer) {
        out.kept(self.0);
    }
}

impl Location<'_> {
    /// Writes mapping and address, before all other fields.
    #[inline]
    pub(super) fn address(&mut self, mapping: InMapping, address: u64) {
        self.0.piece(mapping.0);
        self.0.number(location::ADDRESS, address);
    }

    /// Writes one function; the innermost comes first.
    #[inline]
    pub(super) fn line(&mut self, function: u32, line: u32, column: u32) {
        self.0.message_of(location::LINES, |out| {
            out.number(line::FUNCTION, function.into());
            out.number(line::LINE, line.into());
            out.number(line::COLUMN, column.into());
        });
    }
}

impl Stack<'_> {
    /// Appends a location; the leaf comes first.
    #[inline]
    pub(super) fn push(&mut self, location: LocationNumber) {
        self.0.kept(location.0);
    }

    /// Appends locations.
    #[inline]
    pub(super) fn push_all(&mut self, locations: impl ExactSizeIterator<Item = LocationNumber>) {
        self.0.all_kept(locations.map(|location| location.0));
    }
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary {
            strings: Table::new(dictionary::STRINGS),
            attributes: Table::new(dictionary::ATTRIBUTES),
            functions: Table::new(dictionary::FUNCTIONS),
            mappings: Table::new(dictionary::MAPPINGS),
            locations: Table::new(dictionary::LOCATIONS),
            stacks: Table::new(dictionary::STACKS),
            links: Table::new(dictionary::LINKS),
            content: Vec::new(),
        }
    }
}

impl Dictionary {
    /// Removes all elements and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.tables_mut().into_iter().for_each(Table::clear);
    }

    /// Reserves memory for the elements of a profile.
    pub(super) fn reserve(&mut self, profile: &Profile) {
        let (functions, stacks) = (profile.functions().len(), profile.traces().len());
        let depth: usize = profile.traces().map(|trace| trace.frames().len()).sum();
        // One name per function and one file for four of them.
        self.strings.reserve_index(functions + functions / 4);
        let rooms = [40 * functions, 10 * functions, 24 * profile.frames().len(), 6 * stacks + 2 * depth];
        let tables = [&mut self.strings, &mut self.functions, &mut self.locations, &mut self.stacks];
        tables.into_iter().zip(rooms).for_each(|(table, room)| table.reserve(room));
    }

    pub(super) fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() { 0 } else { self.strings.intern(text.as_bytes()) }
    }

    /// Returns the index of a string attribute. The value is inline: not all consumers resolve
    /// string indices here.
    pub(super) fn text_attribute(&mut self, key: &str, text: &str) -> u32 {
        let len = bytes_len(text.len());
        self.attribute(key, len, |content| content.bytes(any_value::STRING, text.as_bytes()))
    }

    pub(super) fn int_attribute(&mut self, key: &str, value: u64) -> u32 {
        let len = number_len(value).max(2);
        self.attribute(key, len, |content| content.number_or_zero(any_value::INT, value))
    }

    pub(super) fn flag_attribute(&mut self, key: &str) -> u32 {
        self.attribute(key, 2, |content| content.number(any_value::BOOL, 1))
    }

    /// Returns the index of a link to a span.
    pub(super) fn link(&mut self, trace_id: [u8; 16], span_id: [u8; 8]) -> u32 {
        self.content.clear();
        self.content.bytes(link::TRACE_ID, &trace_id);
        self.content.bytes(link::SPAN_ID, &span_id);
        self.links.intern(&self.content)
    }

    fn attribute(&mut self, key: &str, len: usize, value: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let key = self.string(key);
        self.content.clear();
        self.content.number(attribute::KEY, key.into());
        self.content.message(attribute::VALUE, len);
        value(&mut self.content);
        self.attributes.intern(&self.content)
    }

    /// Returns the index of a function that differs from all others of the profile.
    pub(super) fn function(&mut self, item: &Function) -> u32 {
        self.functions.add(|out| item.put(out))
    }

    /// Returns the index of a function that may equal another one: a marker with the name of a real
    /// function, or a function whose linker name is omitted.
    pub(super) fn function_or_equal(&mut self, item: &Function) -> u32 {
        self.functions.may_repeat();
        self.function(item)
    }

    /// Returns the field that refers to a mapping. Two modules can have the same mapping.
    pub(super) fn mapping(&mut self, item: &Mapping<'_>) -> InMapping {
        self.mappings.may_repeat();
        let before = self.mappings.len();
        let number = self.mappings.add(|out| item.put(out));
        if (number as usize) < before {
            self.locations.may_repeat();
        }
        InMapping::new(number)
    }

    /// Returns the index of a location. A location with an address differs from all others in
    /// mapping or address; one without can equal another one.
    #[inline]
    pub(super) fn location(
        &mut self,
        has_address: bool,
        attributes: Attributes,
        write: impl FnOnce(&mut Location<'_>),
    ) -> LocationNumber {
        let before = self.locations.len();
        let write = |out: &mut Buffer| {
            write(&mut Location(out));
            attributes.put(out);
        };
        let number = match has_address {
            true => self.locations.add(write),
            false => self.locations.add_or_find(write),
        };
        if (number as usize) < before {
            self.stacks.may_repeat();
        }
        LocationNumber(Kept::varint(number))
    }

    /// Returns the field that refers to a stack. It differs from all others unless two locations
    /// are equal.
    #[inline]
    pub(super) fn stack(&mut self, write: impl FnOnce(&mut Stack<'_>)) -> HasStack {
        let number = self.stacks.add(|out| {
            let start = out.len();
            // An empty list is omitted, so that a stack without frames is the empty element.
            if out.message_of(stack::LOCATIONS, |out| write(&mut Stack(out))) == 0 {
                out.truncate(start);
            }
        });
        HasStack::new(number)
    }

    /// Returns the number of distinct stacks, including the empty one.
    pub(super) fn stacks(&self) -> usize {
        self.stacks.len()
    }

    /// Returns the number of bytes that [`put`](Dictionary::put) appends.
    pub(super) fn len(&self) -> usize {
        self.tables().iter().map(|table| table.bytes().len()).sum::<usize>()
    }

    /// Appends all tables.
    pub(super) fn put(&self, out: &mut Buffer) {
        self.tables().iter().for_each(|table| out.put(table.bytes()));
    }

    fn tables(&self) -> [&Table; 7] {
        let Dictionary { strings, attributes, functions, mappings, locations, stacks, links, .. } = self;
        [strings, attributes, functions, mappings, locations, stacks, links]
    }

    fn tables_mut(&mut self) -> [&mut Table; 7] {
        let Dictionary { strings, attributes, functions, mappings, locations, stacks, links, .. } = self;
        [strings, attributes, functions, mappings, locations, stacks, links]
    }
}

impl Function {
    #[inline]
    fn put(&self, out: &mut Buffer) {
        out.number(function::NAME, self.name.into());
        out.number(function::SYSTEM_NAME, self.system_name.into());
        out.number(function::FILENAME, self.filename.into());
        out.number(function::START_LINE, self.start_line.into());
    }
}

impl Mapping<'_> {
    fn put(&self, out: &mut Buffer) {
        out.number(mapping::START, self.start);
        out.number(mapping::LIMIT, self.limit);
        out.number(mapping::OFFSET, self.offset);
        out.number(mapping::FILENAME, self.filename.into());
        out.packed(mapping::ATTRIBUTES, self.attributes);
    }
}
