//! Walkers as bytes and text, for recordings and test cases.
//!
//! One list of [fields](Field) is the only encoding: as [bytes](FrameWalker::to_bytes) and as text
//! (`Display` and `FromStr`).
//!
//! ```text
//!   bytes   version u16, count u16, then for each field: number u16, value u64      little-endian
//!   text    kind=2 start=1 hop=ffffffffffffff80 hop=18 frame_caller=8 …             values in hexadecimal
//! ```
//!
//! Fields with their default value are left out. Hops, ranges and parameters occur once per item,
//! in order.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use ebpf_programs::abi::interpreter::{
    CHECK_WORDS, Description, Interpreter, NO_CHECK, Others, PARAMETERS, from, walker,
};

use super::layout::Layout;
use super::{ArrayWalker, CompiledWalker, FramePath, FrameWalker, InvalidWalker, ListWalker, MAX_RANGES};

/// Version of the encoding. Fields may be added without a new one; a reader rejects fields that it
/// doesn't know.
const VERSION: u16 = 1;

const TRUNCATED: InvalidWalker = InvalidWalker::new("walker", "its fields are truncated");

const UNKNOWN_FIELD: InvalidWalker = InvalidWalker::new("walker", "it has an unknown field");

impl FrameWalker {
    /// Encodes the walker with its ranges.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = self.fields();
        let mut bytes = Vec::with_capacity(4 + 10 * fields.len());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((fields.len() as u16).to_le_bytes());
        for (field, value) in fields {
            bytes.extend((field as u16).to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Decodes a walker with its ranges, and checks its parameters.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if the bytes have another version, are truncated, or hold parameters that
    /// `build` rejects.
    pub fn from_bytes(bytes: &[u8]) -> Result<FrameWalker, InvalidWalker> {
        let (head, rest) = bytes.split_first_chunk::<4>().ok_or(TRUNCATED)?;
        let [version, count] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        if version != VERSION {
            return Err(InvalidWalker::of("version of the encoding", version.into(), "unknown"));
        }
        let (entries, rest) = rest.as_chunks::<10>();
        if entries.len() != usize::from(count) || !rest.is_empty() {
            return Err(TRUNCATED);
        }
        let fields = entries.iter().map(|entry| {
            let (number, value) = entry.split_first_chunk::<2>().ok_or(TRUNCATED)?;
            let number = u16::from_le_bytes(*number);
            let field = Field::ALL.iter().find(|(field, _)| *field as u16 == number);
            let value = value.first_chunk().copied().map(u64::from_le_bytes);
            Ok((field.ok_or(UNKNOWN_FIELD)?.0, value.ok_or(TRUNCATED)?))
        });
        FrameWalker::from_fields(fields)
    }

    /// Returns all fields that don't have their default value.
    fn fields(&self) -> Vec<(Field, u64)> {
        let Description { interpreter, walker, parameters, .. } = &self.0;
        let Interpreter { top, frames, others, check_words, .. } = interpreter;
        let mut fields = Vec::new();
        let mut add = |field, value: u64| fields.push((field, value));
        add(Field::Kind, self.kind().into());
        for range in self.ranges() {
            add(Field::RangeStart, range.start);
            add(Field::RangeEnd, range.end);
        }
        let kind = self.kind();
        if kind == kind::WITH_PARAMETERS {
            add(Field::Walker, (*walker).into());
        }
        let count = parameters.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        parameters[..count].iter().for_each(|&word| add(Field::Parameter, word));
        let is_described = matches!(kind, kind::LIST | kind::ARRAY | kind::COMPILED);
        if is_described && frames.function_mask != !0 {
            add(Field::FunctionMask, frames.function_mask);
        }
        if is_described && frames.check != NO_CHECK {
            add(Field::Identity, frames.check.into());
        }
        match *check_words {
            0 => {}
            words @ 1..=CHECK_WORDS => add(Field::IdentityWords, words.into()),
            contents => add(Field::IdentityContents, contents.into()),
        }
        if top.from == from::NOWHERE || top.from == from::UNKNOWN {
            return fields;
        }
        add(Field::Start, top.from.into());
        for &offset in &top.offsets[..top.hops as usize] {
            add(Field::Hop, offset as u64);
        }
        let numbers = [
            (Field::StartNext, top.next),
            (Field::StartThread, top.thread),
            (Field::FrameCaller, frames.caller),
            (Field::FrameFunction, frames.function),
            (Field::FramePosition, frames.position),
            (Field::PositionKind, frames.position_kind),
            (Field::Run, frames.run),
            (Field::RunEnd, frames.end),
            (Field::RunEndMask, frames.end_mask),
            (Field::RunEndValue, frames.end_value),
            (Field::ListsNext, others.next),
            (Field::ListsEntries, others.entries),
            (Field::ListsLink, others.link),
            (Field::ListsThread, others.thread),
            (Field::ListsHop, others.hop),
        ];
        for (field, value) in numbers.into_iter().filter(|(_, value)| *value != 0) {
            add(field, value.into());
        }
        if others.head != 0 {
            add(Field::ListsHead, others.head);
        }
        fields
    }

    fn kind(&self) -> u16 {
        match self.0.interpreter.top.from {
            _ if self.0.walker == walker::ARRAY => kind::ARRAY,
            _ if self.0.walker == walker::COMPILED => kind::COMPILED,
            _ if self.0.walker != walker::LIST => kind::WITH_PARAMETERS,
            from::NOWHERE => kind::UNAVAILABLE,
            from::UNKNOWN => kind::UNKNOWN,
            _ => kind::LIST,
        }
    }

    fn from_fields(
        fields: impl IntoIterator<Item = Result<(Field, u64), InvalidWalker>>,
    ) -> Result<FrameWalker, InvalidWalker> {
        let mut parts = Parts::new();
        fields.into_iter().try_for_each(|field| field.and_then(|(field, value)| parts.set(field, value)))?;
        parts.build()
    }
}

/// Parts of a walker that is decoded.
struct Parts {
    kind: u64,
    ranges: Vec<Range<u64>>,
    path: FramePath,
    layout: Layout,
    others: Others,
    walker: u32,
    parameters: [u64; PARAMETERS],
    /// Number of parameters.
    count: usize,
}

impl Parts {
    fn new() -> Parts {
        Parts {
            kind: u64::MAX,
            ranges: Vec::new(),
            path: FramePath::new(from::THREAD, &[]),
            layout: Layout::new(),
            others: Others::default(),
            walker: walker::LIST,
            parameters: [0; PARAMETERS],
            count: 0,
        }
    }

    fn set(&mut self, field: Field, value: u64) -> Result<(), InvalidWalker> {
        let Parts { path, layout, others, .. } = self;
        let frames = &mut layout.frames;
        let wide = match field {
            Field::Kind => &mut self.kind,
            Field::FunctionMask => &mut frames.function_mask,
            Field::ListsHead => &mut others.head,
            Field::RangeStart => return self.add_range(value),
            Field::RangeEnd => {
                let without_start = InvalidWalker::of("end of a range", value, "without a start");
                &mut self.ranges.last_mut().ok_or(without_start)?.end
            }
            Field::Hop => {
                path.push(value as i64);
                return Ok(());
            }
            Field::Parameter => {
                let slot = self.parameters.get_mut(self.count);
                self.count += 1;
                slot.ok_or(InvalidWalker::of("parameters", self.count as u64, "more than 32"))?
            }
            _ => {
                let number = u32::try_from(value);
                let number = number.map_err(|_| InvalidWalker::of("a field", value, "beyond four bytes"))?;
                *self.narrow(field)? = number;
                return Ok(());
            }
        };
        *wide = value;
        Ok(())
    }

    /// Returns a field of four bytes.
    fn narrow(&mut self, field: Field) -> Result<&mut u32, InvalidWalker> {
        let Parts { path, layout, others, walker, .. } = self;
        let frames = &mut layout.frames;
        Ok(match field {
            Field::Start => &mut path.path.from,
            Field::StartNext => &mut path.path.next,
            Field::StartThread => &mut path.path.thread,
            Field::FrameCaller => &mut frames.caller,
            Field::FrameFunction => &mut frames.function,
            Field::FramePosition => &mut frames.position,
            Field::PositionKind => &mut frames.position_kind,
            Field::Identity => &mut frames.check,
            Field::IdentityWords => layout.identity_words.insert(0),
            Field::IdentityContents => &mut layout.contents,
            Field::Run => &mut frames.run,
            Field::RunEnd => &mut frames.end,
            Field::RunEndMask => &mut frames.end_mask,
            Field::RunEndValue => &mut frames.end_value,
            Field::ListsNext => &mut others.next,
            Field::ListsEntries => &mut others.entries,
            Field::ListsLink => &mut others.link,
            Field::ListsThread => &mut others.thread,
            Field::ListsHop => &mut others.hop,
            Field::Walker => walker,
            _ => return Err(UNKNOWN_FIELD),
        })
    }

    fn add_range(&mut self, start: u64) -> Result<(), InvalidWalker> {
        if self.ranges.len() >= MAX_RANGES {
            return Err(InvalidWalker::new("ranges", "more than 4"));
        }
        self.ranges.push(start..start);
        Ok(())
    }

    fn build(self) -> Result<FrameWalker, InvalidWalker> {
        let Parts { path, layout, others, walker, parameters, .. } = self;
        let used = parameters.get(..self.count).unwrap_or(&parameters);
        let walker = match u16::try_from(self.kind).unwrap_or(u16::MAX) {
            kind::UNAVAILABLE => FrameWalker::UNAVAILABLE,
            kind::UNKNOWN => FrameWalker::UNKNOWN,
            kind::LIST => ListWalker { path, layout, others }.build()?,
            kind::ARRAY => ArrayWalker::from_parts(path, layout, &parameters)?.build()?,
            kind::COMPILED => CompiledWalker { layout, parameters }.build()?,
            kind::WITH_PARAMETERS => {
                FrameWalker::with_parameters(walker, (path.count > 0).then_some(path), used)?
            }
            _ => return Err(InvalidWalker::of("kind of the walker", self.kind, "unknown")),
        };
        Ok(walker.with_ranges(self.ranges))
    }
}

impl fmt::Display for FrameWalker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, value)) in self.fields().into_iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            let name = Field::ALL.iter().find(|(other, _)| *other == field).map_or("", |(_, name)| name);
            write!(f, "{space}{name}={value:x}")?;
        }
        Ok(())
    }
}

impl FromStr for FrameWalker {
    type Err = InvalidWalker;

    fn from_str(text: &str) -> Result<FrameWalker, InvalidWalker> {
        FrameWalker::from_fields(text.split_whitespace().map(|word| {
            let (name, value) = word.split_once('=').ok_or(UNKNOWN_FIELD)?;
            let (field, _) = Field::ALL.iter().find(|(_, other)| *other == name).ok_or(UNKNOWN_FIELD)?;
            let value = u64::from_str_radix(value, 16);
            Ok((*field, value.map_err(|_| InvalidWalker::new("a field", "not a hexadecimal number"))?))
        }))
    }
}

/// Kinds of walkers.
mod kind {
    pub(super) const UNAVAILABLE: u16 = 0;
    pub(super) const UNKNOWN: u16 = 1;
    pub(super) const LIST: u16 = 2;
    pub(super) const WITH_PARAMETERS: u16 = 3;
    pub(super) const ARRAY: u16 = 4;
    pub(super) const COMPILED: u16 = 5;
}

/// Fields of the encoding, by number. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Field {
    Kind = 1,
    RangeStart = 2,
    RangeEnd = 3,
    Start = 16,
    Hop = 17,
    StartNext = 18,
    StartThread = 19,
    FrameCaller = 20,
    FrameFunction = 21,
    FunctionMask = 22,
    FramePosition = 23,
    PositionKind = 24,
    Identity = 25,
    IdentityWords = 26,
    Run = 27,
    RunEnd = 28,
    RunEndMask = 29,
    RunEndValue = 30,
    ListsHead = 31,
    ListsNext = 32,
    ListsEntries = 33,
    ListsLink = 34,
    ListsThread = 35,
    ListsHop = 36,
    IdentityContents = 37,
    Walker = 48,
    Parameter = 49,
}

impl Field {
    /// All fields with their names in text.
    const ALL: [(Field, &'static str); 27] = [
        (Field::Kind, "kind"),
        (Field::RangeStart, "range_start"),
        (Field::RangeEnd, "range_end"),
        (Field::Start, "start"),
        (Field::Hop, "hop"),
        (Field::StartNext, "start_next"),
        (Field::StartThread, "start_thread"),
        (Field::FrameCaller, "frame_caller"),
        (Field::FrameFunction, "frame_function"),
        (Field::FunctionMask, "function_mask"),
        (Field::FramePosition, "frame_position"),
        (Field::PositionKind, "position_kind"),
        (Field::Identity, "identity"),
        (Field::IdentityWords, "identity_words"),
        (Field::Run, "run"),
        (Field::RunEnd, "run_end"),
        (Field::RunEndMask, "run_end_mask"),
        (Field::RunEndValue, "run_end_value"),
        (Field::ListsHead, "lists_head"),
        (Field::ListsNext, "lists_next"),
        (Field::ListsEntries, "lists_entries"),
        (Field::ListsLink, "lists_link"),
        (Field::ListsThread, "lists_thread"),
        (Field::ListsHop, "lists_hop"),
        (Field::IdentityContents, "identity_contents"),
        (Field::Walker, "walker"),
        (Field::Parameter, "parameter"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::ThreadLists;

    fn full() -> FrameWalker {
        FrameWalker::list(FramePath::from_entry_in_use(0x1000, 144, &[16, -8], &[24]))
            .caller(48)
            .function(32)
            .function_mask(!7)
            .position_address(56)
            .identity_words(112, 3)
            .run_ends_before(70, 0xff, 3)
            .thread_lists(ThreadLists::new(0x2000).next(8).entries(72).link(16).thread(136), 3)
            .build()
            .unwrap()
            .with_ranges([0x40_0000..0x40_1000, 0x50_0000..0x50_0100])
    }

    fn minimal() -> FrameWalker {
        FrameWalker::list(FramePath::from_address(0x1000, &[])).function(8).build().unwrap()
    }

    #[test]
    fn bytes_and_text_round_trip() {
        let own = FrameWalker::with_parameters(walker::V8, None, &[7, 0, u64::MAX]).unwrap();
        let path = FramePath::from_thread_pointer(&[-8, 16]);
        let beside = FrameWalker::with_parameters(walker::RUBY, Some(path), &[1; PARAMETERS]).unwrap();
        let array =
            FrameWalker::array(FramePath::from_address(0x1000, &[8]), 40).grows_down().end(-8).path_to_free();
        let array =
            array.function(16).function_mask(!3).identity_number(4).position_address(24).build().unwrap();
        let counted =
            FrameWalker::array(FramePath::from_thread_pointer(&[8]), 40).outermost(16).path_to_count();
        let counted = counted.run_ends_with(8, 1, 1).build().unwrap();
        let compiled = FrameWalker::compiled().function_in_frame(-8).prologue(5).function_at_entry(5);
        let compiled = compiled.function_mask(!1).identity_words(8, 2).position_number(-12).build().unwrap();
        let block = FrameWalker::compiled().function_in_block(4096, 16).build().unwrap();
        let texts =
            FrameWalker::list(FramePath::from_address(0x1000, &[])).identity_contents(16, 0x1265_5637);
        let described = [full(), minimal(), array, counted, compiled, block, texts.build().unwrap()];
        for walker in
            described.into_iter().chain([own, beside, FrameWalker::UNAVAILABLE, FrameWalker::UNKNOWN])
        {
            assert_eq!(FrameWalker::from_bytes(&walker.to_bytes()), Ok(walker));
            assert_eq!(walker.to_string().parse(), Ok(walker), "{walker}");
        }
        assert_eq!(minimal().to_string(), "kind=2 start=2 hop=1000 frame_function=8");
    }

    #[test]
    fn rejects_truncated_bytes_other_versions_and_unknown_fields() {
        let bytes = full().to_bytes();
        for len in 0..bytes.len() {
            assert!(FrameWalker::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            FrameWalker::from_bytes(&bytes)
        };
        assert!(changed(0, 2).is_err());
        assert_eq!(changed(4, 99), Err(UNKNOWN_FIELD));
        // An unknown kind of walker.
        assert!(changed(6, 9).is_err());
        assert!(FrameWalker::with_parameters(walker::LIST, None, &[]).is_err());
        assert!(FrameWalker::with_parameters(walker::V8, None, &[0; PARAMETERS + 1]).is_err());
        for text in ["", "kind", "kind=2", "kind=x", "kind=2 start=1", "kind=0 tail=1", "kind=0 range_end=1"]
        {
            assert!(text.parse::<FrameWalker>().is_err(), "{text}");
        }
    }
}
