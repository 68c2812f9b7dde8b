//! The tables of one message.

use std::ops::Range;

use super::fields::{any_value, attribute, dictionary, function, line, location, mapping, stack};
use crate::table::Table;
use crate::wire::{Varint, Wire, bytes_len, bytes_tag, number_len, varint_len};

/// The tables that samples refer to, each with the empty element as number 0.
#[derive(Debug)]
pub(super) struct Dictionary {
    strings: Table,
    attributes: Table,
    functions: Table,
    mappings: Table,
    locations: Table,
    stacks: Table,
    content: Vec<u8>,
    stack: Vec<u8>,
}

/// The element 0 of the links, and there are no others: nothing tells us of spans yet.
///
/// Empty, not with ids of zeros as a comment of the schema allows: the checkers refuse those.
const LINKS: [u8; 2] = [bytes_tag(dictionary::LINKS), 0];

/// A mapping, everything that it refers to numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping<'a> {
    pub(super) start: u64,
    pub(super) limit: u64,
    pub(super) offset: u64,
    pub(super) filename: u32,
    pub(super) attributes: &'a [u32],
}

/// One of the functions of a location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) function: u32,
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A location, everything that it refers to numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location<'a> {
    pub(super) mapping: u32,
    pub(super) address: u64,
    pub(super) lines: &'a [Line],
    pub(super) attributes: &'a [u32],
}

/// A function, everything that it refers to numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: u32,
    pub(super) system_name: u32,
    pub(super) filename: u32,
    pub(super) start_line: u64,
}

/// A stack in the making: the numbers of its locations, leaf first, behind room for the field's tag and length.
#[derive(Debug)]
pub(super) struct Stack {
    bytes: Vec<u8>,
    end: usize,
}

/// Room for a tag and a length.
const HEAD: usize = 6;
/// There is at most one where frames were left out, and one at the end.
const MARKERS: usize = 2;

impl Stack {
    #[inline]
    pub(super) fn push(&mut self, location: Varint) {
        if let Some(room) = self.bytes.get_mut(self.end..).and_then(|rest| rest.first_chunk_mut()) {
            self.end += location.store(room);
        }
    }

    /// Puts tag and length right before the numbers; where both stand then.
    fn finish(&mut self) -> Range<usize> {
        let len = self.end - HEAD;
        let start = HEAD - 1 - varint_len(len as u64);
        self.bytes[start] = bytes_tag(stack::LOCATIONS);
        let mut length = [0; 8];
        let size = Varint::new(len as u32).store(&mut length);
        self.bytes[start + 1..HEAD].copy_from_slice(&length[..size]);
        if len == 0 { 0..0 } else { start..self.end }
    }
}

impl Dictionary {
    pub(super) fn new() -> Dictionary {
        Dictionary {
            strings: Table::new(dictionary::STRINGS),
            attributes: Table::new(dictionary::ATTRIBUTES),
            functions: Table::new(dictionary::FUNCTIONS),
            mappings: Table::new(dictionary::MAPPINGS),
            locations: Table::new(dictionary::LOCATIONS),
            stacks: Table::new(dictionary::STACKS),
            content: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Forgets all elements, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.tables_mut().into_iter().for_each(Table::clear);
    }

    pub(super) fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() { 0 } else { self.strings.intern(text.as_bytes()) }
    }

    /// An attribute with a text; the text stands in it, since not all consumers look it up.
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

    fn attribute(&mut self, key: &str, len: usize, value: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let key = self.string(key);
        self.content.clear();
        self.content.number(attribute::KEY, key.into());
        self.content.message(attribute::VALUE, len);
        value(&mut self.content);
        self.attributes.intern(&self.content)
    }

    /// The number of a function that differs from all others of the profile.
    pub(super) fn function(&mut self, item: &Function) -> u32 {
        item.put(&mut self.content);
        self.functions.add(&self.content)
    }

    /// The number of a function that stands for something else, and perhaps has the name of a real one.
    pub(super) fn made_up_function(&mut self, item: &Function) -> u32 {
        item.put(&mut self.content);
        self.functions.intern(&self.content)
    }

    /// The number of a mapping; two modules can have one.
    pub(super) fn mapping(&mut self, item: &Mapping<'_>) -> u32 {
        item.put(&mut self.content);
        let before = self.mappings.len();
        let number = self.mappings.intern(&self.content);
        if (number as usize) < before {
            self.locations.may_repeat();
        }
        number
    }

    /// The number of a location that differs from all others in its mapping and address.
    pub(super) fn location(&mut self, item: &Location<'_>) -> u32 {
        item.put(&mut self.content);
        let before = self.locations.len();
        let number = self.locations.add(&self.content);
        if (number as usize) < before {
            self.stacks.may_repeat();
        }
        number
    }

    /// The number of a location without those.
    pub(super) fn placeless_location(&mut self, item: &Location<'_>) -> u32 {
        self.locations.may_repeat();
        self.location(item)
    }

    /// Begins a stack of about so many locations.
    pub(super) fn begin_stack(&mut self, locations: usize) -> Stack {
        let mut bytes = std::mem::take(&mut self.stack);
        let len = HEAD + (locations + MARKERS) * 5 + 8;
        bytes.resize(bytes.len().max(len), 0);
        Stack { bytes, end: HEAD }
    }

    /// The number of a stack that differs from all others, unless locations were equal.
    pub(super) fn end_stack(&mut self, mut stack: Stack) -> u32 {
        let content = stack.finish();
        let number = self.stacks.add(&stack.bytes[content]);
        self.stack = stack.bytes;
        number
    }

    /// How many distinct stacks there are, the empty one included.
    pub(super) fn stacks(&self) -> usize {
        self.stacks.len()
    }

    /// How many bytes [`put`](Dictionary::put) appends.
    pub(super) fn len(&self) -> usize {
        LINKS.len() + self.tables().iter().map(|table| table.bytes().len()).sum::<usize>()
    }

    /// Appends all tables.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        self.tables().iter().for_each(|table| out.extend_from_slice(table.bytes()));
        out.extend_from_slice(&LINKS);
    }

    fn tables(&self) -> [&Table; 6] {
        let Dictionary { strings, attributes, functions, mappings, locations, stacks, .. } = self;
        [strings, attributes, functions, mappings, locations, stacks]
    }

    fn tables_mut(&mut self) -> [&mut Table; 6] {
        let Dictionary { strings, attributes, functions, mappings, locations, stacks, .. } = self;
        [strings, attributes, functions, mappings, locations, stacks]
    }
}

impl Function {
    fn put(&self, content: &mut Vec<u8>) {
        content.clear();
        content.number(function::NAME, self.name.into());
        content.number(function::SYSTEM_NAME, self.system_name.into());
        content.number(function::FILENAME, self.filename.into());
        content.number(function::START_LINE, self.start_line);
    }
}

impl Mapping<'_> {
    fn put(&self, content: &mut Vec<u8>) {
        content.clear();
        content.number(mapping::START, self.start);
        content.number(mapping::LIMIT, self.limit);
        content.number(mapping::OFFSET, self.offset);
        content.number(mapping::FILENAME, self.filename.into());
        content.packed(mapping::ATTRIBUTES, self.attributes);
    }
}

impl Location<'_> {
    fn put(&self, content: &mut Vec<u8>) {
        content.clear();
        content.number(location::MAPPING, self.mapping.into());
        content.number(location::ADDRESS, self.address);
        self.lines.iter().for_each(|line| line.put(content));
        content.packed(location::ATTRIBUTES, self.attributes);
    }
}

impl Line {
    fn put(&self, content: &mut Vec<u8>) {
        let len = number_len(self.function.into()) + number_len(self.line) + number_len(self.column);
        content.message(location::LINES, len);
        content.number(line::FUNCTION, self.function.into());
        content.number(line::LINE, self.line);
        content.number(line::COLUMN, self.column);
    }
}
