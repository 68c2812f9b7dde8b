//! Scripts: their names, and the lines of positions in them.

use std::collections::HashMap;
use std::sync::Arc;

use ebpf_profiler_core::language::Reason;

use super::heap::{ELEMENTS, Heap, Object, small_int};
use super::text;

/// Maximum length of a source that is searched for the ends of lines, in UTF-16 units.
const MAX_SOURCE: usize = 1 << 23;

/// Maximum number of scripts that are kept.
const MAX_SCRIPTS: usize = 1024;

/// Maximum number of lines of all scripts that are kept, four bytes each.
const MAX_KEPT_LINES: usize = 1 << 21;

/// Maximum number of lines of a script.
const MAX_LINES: u32 = 1 << 20;

/// A script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) name: String,
    /// Offsets of the ends of lines, ascending.
    ends: Vec<u32>,
    /// Number of the first line.
    first_line: u32,
}

/// The scripts of a process.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    /// By their objects, sources and numbers: a script that was freed is replaced by one at the same
    /// addresses, but V8 uses no number again.
    known: HashMap<(Object, u64, u64), Arc<Script>>,
    /// Number of lines of all of them.
    lines: usize,
}

impl Script {
    /// Returns the line of a position, from 1; 0 if it is unknown.
    pub(super) fn line(&self, offset: u32) -> u32 {
        if self.ends.is_empty() {
            return 0;
        }
        let line = self.ends.partition_point(|&end| end < offset);
        u32::try_from(line).map_or(0, |line| line.saturating_add(self.first_line))
    }
}

impl Scripts {
    /// Returns a script, which it reads the first time.
    pub(super) fn get(&mut self, heap: &Heap<'_>, script: Object) -> Result<Arc<Script>, Reason> {
        let layout = &heap.layout.script;
        let source = heap.word(script, layout.source)?;
        let key = (script, source, heap.word(script, layout.number)?);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let read = Arc::new(read(heap, script, source)?);
        if self.known.len() >= MAX_SCRIPTS || self.lines + read.ends.len() > MAX_KEPT_LINES {
            *self = Scripts::default();
        }
        self.lines += read.ends.len();
        self.known.insert(key, read.clone());
        Ok(read)
    }
}

fn read(heap: &Heap<'_>, script: Object, source: u64) -> Result<Script, Reason> {
    let layout = &heap.layout.script;
    heap.ensure_kind(script, heap.layout.types.script)?;
    let text = |field| heap.object(script, field).and_then(|text| text::read_name(heap, text));
    let name = text(layout.name).or_else(|_| text(layout.url)).unwrap_or_default();
    let name = name.strip_prefix("file://").map(str::to_owned).unwrap_or(name);
    let first_line = heap.word(script, layout.line_offset).ok().and_then(small_int).unwrap_or(0);
    let ends = match heap.object(script, layout.line_ends).and_then(|ends| line_ends(heap, ends)) {
        Ok(ends) if !ends.is_empty() => ends,
        _ => Object::from_word(source).map(|source| ends_in_source(heap, source)).unwrap_or_default(),
    };
    Ok(Script { name, ends, first_line: first_line.saturating_add(1).try_into().unwrap_or(1) })
}

/// Reads the array of line ends that V8 computes when it needs them.
fn line_ends(heap: &Heap<'_>, ends: Object) -> Result<Vec<u32>, Reason> {
    heap.ensure_kind(ends, heap.layout.types.fixed_array)?;
    let length = heap.length(ends)?.min(MAX_LINES);
    let bytes = heap.memory.bytes(ends.field(ELEMENTS), u64::from(length) * 8, MAX_LINES as usize * 8)?;
    let ends = bytes.as_chunks().0.iter().map(|&word| small_int(u64::from_le_bytes(word)));
    ends.map(|end| end.and_then(|end| u32::try_from(end).ok()).ok_or(Reason::Implausible)).collect()
}

/// Searches a source for the ends of lines.
fn ends_in_source(heap: &Heap<'_>, source: Object) -> Vec<u32> {
    const SEPARATORS: [u16; 2] = [0x2028, 0x2029];
    let (mut ends, mut index, mut was_return) = (Vec::new(), 0, false);
    let end_at = |ends: &mut Vec<u32>, at: u32| {
        if ends.len() < MAX_LINES as usize {
            ends.push(at);
        }
    };
    let read = text::for_each_piece(heap, source, MAX_SOURCE, &mut |units| {
        for &unit in units {
            // A return ends a line, unless a line feed follows.
            let is_feed = unit == u16::from(b'\n');
            if was_return && !is_feed {
                end_at(&mut ends, index - 1);
            }
            if is_feed || SEPARATORS.contains(&unit) {
                end_at(&mut ends, index);
            }
            was_return = unit == u16::from(b'\r');
            index += 1;
        }
    });
    if read.is_err() {
        return Vec::new();
    }
    if was_return {
        end_at(&mut ends, index - 1);
    }
    end_at(&mut ends, index);
    ends
}
