//! Process contexts of OpenTelemetry: what a program publishes about itself for readers outside of it.
//!
//! ```text
//!   mapping OTEL_CTX   "OTEL_CTX" | version 2, 4 bytes | payload size, 4 | time, 8: 0 while it changes | payload, 8: its address
//!   payload            ProcessContext { resource 1 { attributes 1: KeyValue … }, attributes 2: KeyValue … }
//!   KeyValue           { key 1: string, value 2: AnyValue { string 1 | bool 2 | int 3 | double 4 | array 5 { values 1 … } | … } }
//! ```
//!
//! The attributes that are not of the resource describe [thread contexts](crate::language::LabelLayout::ThreadContext).
//!
//! Source: [OTEP 4719](https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4719-process-ctx.md).

use std::sync::Arc;

/// Maximum number of attributes of a resource that are kept, and of keys of thread contexts.
const MAX_ATTRIBUTES: usize = 32;
const MAX_KEYS: usize = 256;

/// Maximum number of bytes of a key and of a value.
const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 256;

/// Maximum size of a payload in bytes.
const MAX_PAYLOAD: u32 = 65_536;

/// Maximum number of fields of a payload that are read.
const MAX_FIELDS: usize = 4_096;

/// Maximum number of attempts to read a context that changes.
const MAX_READS: usize = 3;

/// The start of the header.
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";

/// The version of the header.
const VERSION: u32 = 2;

/// The names of mappings that may be a context.
#[cfg(any(feature = "live", test))]
const NAMES: [&[u8]; 3] = [b"[anon_shmem:OTEL_CTX]", b"[anon:OTEL_CTX]", b"/memfd:OTEL_CTX"];

/// Keys of the attributes about thread contexts.
const SCHEMA: &[u8] = b"threadlocal.schema_version";
const KEYS: &[u8] = b"threadlocal.attribute_key_map";

/// Schemas of thread contexts at a thread-local variable.
const SCHEMAS: [&str; 2] = ["tlsdesc_v1_dev", "tls_v1"];

/// The context that a process has published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessContext {
    /// Attributes of the resource, sorted by key, at most 32.
    pub(crate) attributes: Vec<(Box<str>, Box<str>)>,
    /// The keys of attributes of thread contexts.
    pub(crate) keys: Arc<[Arc<str>]>,
    /// Form of the thread contexts; empty for none.
    schema: Box<str>,
}

impl ProcessContext {
    /// Returns `true` if threads have contexts at a thread-local variable.
    pub(crate) fn has_thread_contexts(&self) -> bool {
        SCHEMAS.contains(&&*self.schema)
    }

    /// Decodes a payload; `None` if it is malformed.
    pub(crate) fn decode(payload: &[u8]) -> Option<ProcessContext> {
        let (mut context, mut budget) = (ProcessContext::default(), MAX_FIELDS);
        let mut keys: Vec<Arc<str>> = Vec::new();
        for_each_field(payload, &mut budget, &mut |number, field, budget| match (number, field) {
            (1, Field::Bytes(resource)) => {
                for_each_field(resource, budget, &mut |number, field, budget| match (number, field) {
                    (1, Field::Bytes(pair)) => {
                        context.add(key_value(pair, budget)?);
                        Some(())
                    }
                    _ => Some(()),
                })
            }
            (2, Field::Bytes(pair)) => {
                match key_value(pair, budget)? {
                    (SCHEMA, Value::Text(text)) => context.schema = cut(text, MAX_KEY).into(),
                    (KEYS, Value::Array(values)) => keys = texts(values, budget)?,
                    _ => {}
                }
                Some(())
            }
            _ => Some(()),
        })?;
        context.keys = keys.into();
        Some(context)
    }

    /// Adds an attribute of the resource, unless it is of a type without a text.
    fn add(&mut self, (key, value): (&[u8], Value<'_>)) {
        let (key, Some(value)) = (cut(key, MAX_KEY), value.text()) else { return };
        match self.attributes.binary_search_by(|(known, _)| (**known).cmp(&key)) {
            Ok(index) => self.attributes[index].1 = value.into(),
            Err(index) if self.attributes.len() < MAX_ATTRIBUTES && !key.is_empty() => {
                self.attributes.insert(index, (key.into(), value.into()));
            }
            Err(_) => {}
        }
    }
}

/// A context, and the time when it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) time: u64,
    pub(crate) context: ProcessContext,
}

/// Failures to read a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The memory is not a context, or not readable.
    Absent,
    /// It changed while it was read.
    Changing,
    /// Its payload is too large, not readable or malformed.
    Malformed,
}

impl Failure {
    /// Returns the reason as a text for counters.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Failure::Absent => "no context",
            Failure::Changing => "changes while it is read",
            Failure::Malformed => "malformed",
        }
    }
}

/// Reads the context at an address. Returns `None` if it is the one of time `known`.
///
/// # Errors
///
/// A [`Failure`], after three attempts if the context changes.
pub(crate) fn read(
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    address: u64,
    known: Option<u64>,
) -> Result<Option<Published>, Failure> {
    let mut result = Err(Failure::Changing);
    for _ in 0..MAX_READS {
        result = read_once(read, address, known);
        if result != Err(Failure::Changing) {
            break;
        }
    }
    result
}

fn read_once(
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    address: u64,
    known: Option<u64>,
) -> Result<Option<Published>, Failure> {
    let mut header = [0; 32];
    let number = |header: &[u8; 32], at: usize| header[at..].first_chunk().copied().map(u32::from_ne_bytes);
    let wide = |header: &[u8; 32], at: usize| header[at..].first_chunk().copied().map(u64::from_ne_bytes);
    if !read(address, &mut header) || header[..8] != *SIGNATURE || number(&header, 8) != Some(VERSION) {
        return Err(Failure::Absent);
    }
    let (size, time) = (number(&header, 12).unwrap_or(0), wide(&header, 16).unwrap_or(0));
    if time == 0 {
        return Err(Failure::Changing);
    }
    if known == Some(time) {
        return Ok(None);
    }
    let mut payload = vec![0; size.min(MAX_PAYLOAD) as usize];
    let is_read = read(wide(&header, 24).unwrap_or(0), &mut payload);
    let mut after = [0; 32];
    if !read(address, &mut after) || wide(&after, 16) != Some(time) {
        return Err(Failure::Changing);
    }
    if size > MAX_PAYLOAD || !is_read {
        return Err(Failure::Malformed);
    }
    let context = ProcessContext::decode(&payload).ok_or(Failure::Malformed)?;
    Ok(Some(Published { time, context }))
}

/// Returns the address of a mapping that may be a context, from a line of `/proc/PID/maps`.
#[cfg(any(feature = "live", test))]
pub(crate) fn mapping(line: &[u8]) -> Option<u64> {
    let line = line.trim_ascii_end();
    // Most lines have no such name: the search is for what all three share.
    let at = line.windows(SIGNATURE.len()).position(|window| window == SIGNATURE)?;
    let start = line[..at].iter().rposition(|&byte| byte == b' ')? + 1;
    if !NAMES.iter().any(|name| line[start..].starts_with(name)) {
        return None;
    }
    let end = line.iter().position(|&byte| byte == b'-')?;
    u64::from_str_radix(std::str::from_utf8(&line[..end]).ok()?, 16).ok()
}

/// The value of a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The value of an attribute.
enum Value<'a> {
    None,
    Text(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    /// The encoded values.
    Array(&'a [u8]),
}

impl Value<'_> {
    fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(cut(text, MAX_VALUE)),
            Value::Bool(value) => Some(value.to_string()),
            Value::Int(value) => Some(value.to_string()),
            Value::Double(value) => Some(value.to_string()),
            Value::None | Value::Array(_) => None,
        }
    }
}

/// Calls `each` with the fields of a message. Returns `None` if it is malformed, or exceeds the budget of fields.
fn for_each_field<'a>(
    mut bytes: &'a [u8],
    budget: &mut usize,
    each: &mut dyn FnMut(u64, Field<'a>, &mut usize) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        *budget = budget.checked_sub(1)?;
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => {
                let (number, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Field::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let size = usize::try_from(varint(&mut bytes)?).ok()?;
                let (field, rest) = bytes.split_at_checked(size)?;
                bytes = rest;
                Field::Bytes(field)
            }
            5 => {
                let (number, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Field::Number(u32::from_le_bytes(*number).into())
            }
            _ => return None,
        };
        each(tag >> 3, field, budget)?;
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Decodes a pair.
fn key_value<'a>(pair: &'a [u8], budget: &mut usize) -> Option<(&'a [u8], Value<'a>)> {
    let (mut key, mut value) = (&[][..], Value::None);
    for_each_field(pair, budget, &mut |number, field, budget| {
        match (number, field) {
            (1, Field::Bytes(text)) => key = text,
            (2, Field::Bytes(bytes)) => value = any_value(bytes, budget)?,
            _ => {}
        }
        Some(())
    })?;
    Some((key, value))
}

fn any_value<'a>(bytes: &'a [u8], budget: &mut usize) -> Option<Value<'a>> {
    let mut value = Value::None;
    for_each_field(bytes, budget, &mut |number, field, _| {
        value = match (number, field) {
            (1, Field::Bytes(text)) => Value::Text(text),
            (2, Field::Number(number)) => Value::Bool(number != 0),
            (3, Field::Number(number)) => Value::Int(number as i64),
            (4, Field::Number(bits)) => Value::Double(f64::from_bits(bits)),
            (5, Field::Bytes(values)) => Value::Array(values),
            _ => Value::None,
        };
        Some(())
    })?;
    Some(value)
}

/// Decodes an array of texts. Other values are empty: the position is the number of a key.
fn texts(values: &[u8], budget: &mut usize) -> Option<Vec<Arc<str>>> {
    let mut texts: Vec<Arc<str>> = Vec::new();
    for_each_field(values, budget, &mut |number, field, budget| {
        if let (1, Field::Bytes(bytes)) = (number, field) {
            let text = match any_value(bytes, budget)? {
                Value::Text(text) => cut(text, MAX_KEY),
                _ => String::new(),
            };
            if texts.len() < MAX_KEYS {
                texts.push(text.into());
            }
        }
        Some(())
    })?;
    Some(texts)
}

/// Returns at most `most` bytes as a text. Invalid UTF-8 is replaced.
fn cut(bytes: &[u8], most: usize) -> String {
    let (is_cut, bytes) = (bytes.len() > most, &bytes[..bytes.len().min(most)]);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        // The last character is incomplete.
        Err(error) if is_cut && error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a field of bytes.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut size = content.len();
        while size >= 0x80 {
            bytes.push(size as u8 | 0x80);
            size >>= 7;
        }
        bytes.push(size as u8);
        [bytes, content.to_vec()].concat()
    }

    fn pair(key: &str, value: &[u8]) -> Vec<u8> {
        [field(1, key.as_bytes()), field(2, value)].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        field(1, text.as_bytes())
    }

    fn payload() -> Vec<u8> {
        let resource = [
            field(1, &pair("service.name", &text("shop"))),
            field(1, &pair("b", &[0x10, 1])),
            field(1, &pair("i", &[0x18, 0x96, 1])),
            field(1, &pair("d", &[&[0x21][..], &1.5f64.to_le_bytes()].concat())),
            field(1, &pair("service.name", &text("store"))),
            field(1, &pair("array", &field(5, &field(1, &text("no"))))),
            field(2, b"unknown"),
        ];
        let keys: Vec<u8> = ["http.route", "user", ""].iter().flat_map(|key| field(1, &text(key))).collect();
        [
            field(1, &resource.concat()),
            field(2, &pair("threadlocal.schema_version", &text("tlsdesc_v1_dev"))),
            field(2, &pair("threadlocal.attribute_key_map", &field(5, &keys))),
            field(2, &pair("other", &text("x"))),
        ]
        .concat()
    }

    #[test]
    fn payload_has_attributes_and_the_keys_of_thread_contexts() {
        let context = ProcessContext::decode(&payload()).unwrap();
        let attributes: Vec<(&str, &str)> = context.attributes.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(attributes, [("b", "true"), ("d", "1.5"), ("i", "150"), ("service.name", "store")]);
        assert_eq!(context.keys.iter().map(|key| &**key).collect::<Vec<_>>(), ["http.route", "user", ""]);
        assert!(context.has_thread_contexts());
        let go = field(2, &pair("threadlocal.schema_version", &text("go_pprof_labels_v1")));
        assert!(!ProcessContext::decode(&go).unwrap().has_thread_contexts());
        assert_eq!(ProcessContext::decode(&[]), Some(ProcessContext::default()));
    }

    #[test]
    fn payloads_are_bounded() {
        let many: Vec<u8> =
            (0..1_000).flat_map(|number| field(1, &pair(&format!("k{number:04}"), &text("v")))).collect();
        assert_eq!(ProcessContext::decode(&field(1, &many)).unwrap().attributes.len(), MAX_ATTRIBUTES);
        let long = field(1, &pair(&"k".repeat(100), &text(&"ä".repeat(1_000))));
        let context = ProcessContext::decode(&field(1, &long)).unwrap();
        assert_eq!((context.attributes[0].0.len(), context.attributes[0].1.len()), (64, 256));
        let keys: Vec<u8> = (0..300).flat_map(|_| field(1, &text("k"))).collect();
        let keys = field(2, &pair("threadlocal.attribute_key_map", &field(5, &keys)));
        assert_eq!(ProcessContext::decode(&keys).unwrap().keys.len(), 256);
        assert_eq!(ProcessContext::decode(&field(3, b"").repeat(MAX_FIELDS + 1)), None);
    }

    #[test]
    fn cut_payloads_and_noise_are_bounded() {
        let whole = payload();
        for len in 0..whole.len() {
            let _ = ProcessContext::decode(&whole[..len]);
        }
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        };
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            let _ = ProcessContext::decode(&bytes);
        }
    }

    /// A program with a context at 0x1000 and its payload at 0x2000.
    fn memory(header: &[u8], payload: &[u8]) -> impl Fn(u64, &mut [u8]) -> bool + use<> {
        let parts = [(0x1000, header.to_vec()), (0x2000, payload.to_vec())];
        move |address, buffer| {
            let found = parts.iter().find_map(|(start, bytes)| {
                bytes.get(address.checked_sub(*start)? as usize..)?.get(..buffer.len())
            });
            found.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
        }
    }

    fn header(version: u32, size: u32, time: u64, payload: u64) -> Vec<u8> {
        let fields =
            [&version.to_ne_bytes()[..], &size.to_ne_bytes(), &time.to_ne_bytes(), &payload.to_ne_bytes()];
        [&SIGNATURE[..], &fields.concat()].concat()
    }

    #[test]
    fn contexts_are_read_once_for_each_time() {
        let payload = payload();
        let size = payload.len() as u32;
        let good = memory(&header(2, size, 7, 0x2000), &payload);
        let read_at = |known| read(&good, 0x1000, known);
        assert_eq!(read_at(None).unwrap().unwrap().time, 7);
        assert_eq!((read_at(Some(7)), read_at(Some(6)).unwrap().is_some()), (Ok(None), true));
        assert_eq!(read(&good, 0x3000, None), Err(Failure::Absent));
        let fails = |header: Vec<u8>| read(&memory(&header, &payload), 0x1000, None).unwrap_err();
        assert_eq!(fails(header(1, size, 7, 0x2000)), Failure::Absent);
        assert_eq!(fails(header(2, size, 0, 0x2000)), Failure::Changing);
        assert_eq!(fails(header(2, u32::MAX, 7, 0x2000)), Failure::Malformed);
        assert_eq!(fails(header(2, size, 7, 0x9000)), Failure::Malformed);
        assert_eq!(fails(header(2, size - 1, 7, 0x2000)), Failure::Malformed);
    }

    #[test]
    fn contexts_that_change_are_not_read() {
        let (payload, reads) = (payload(), std::cell::Cell::new(0));
        let changing = |address: u64, buffer: &mut [u8]| {
            reads.set(reads.get() + 1);
            memory(&header(2, payload.len() as u32, reads.get(), 0x2000), &payload)(address, buffer)
        };
        assert_eq!(read(&changing, 0x1000, None), Err(Failure::Changing));
        assert_eq!(reads.get(), 9);
    }

    #[test]
    fn mappings_are_found_by_their_names() {
        let line = |name: &str| format!("7f12345000-7f12346000 rw-p 00000000 00:01 1024        {name}\n");
        for name in
            ["[anon:OTEL_CTX]", "[anon_shmem:OTEL_CTX]", "/memfd:OTEL_CTX (deleted)", "/memfd:OTEL_CTX"]
        {
            assert_eq!(mapping(line(name).as_bytes()), Some(0x7f12345000), "{name}");
        }
        for name in ["", "[anon:other]", "/tmp/OTEL_CTX", "[heap]", "/memfd:other OTEL_CTX"] {
            assert_eq!(mapping(line(name).as_bytes()), None, "{name}");
        }
    }
}
