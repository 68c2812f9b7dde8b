//! Reads functions: their name, script and first position from their `SharedFunctionInfo`.
//!
//! ```text
//!   SharedFunctionInfo   data: bytecode, baseline code, or none yet │ name or scope │ script │ …
//!   ScopeInfo            flags │ parameters │ locals n │ [start │ end] │ n names, or their table │ n properties
//!                        │ name or 0, its slot │ inferred name │ [start │ end] │ outer scope …
//!   UncompiledData       inferred name │ start │ end
//! ```
//!
//! From 13 on a `ScopeInfo` has its position before the locals, before that behind the names.

use ebpf_profiler_core::language::Reason;

use super::heap::{Heap, Object, small_int};
use super::text;
use super::version::Version;

/// Maximum number of locals of a scope that are skipped.
const MAX_LOCALS: u32 = 1 << 14;

/// Name of a function without one, as in DevTools.
const ANONYMOUS: &str = "(anonymous)";

/// A function, as its `SharedFunctionInfo` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) script: Option<Object>,
    /// Offset of its start in the script.
    pub(super) start: Option<u32>,
}

/// Reads the function of a `SharedFunctionInfo`.
pub(super) fn read(heap: &Heap<'_>, shared: Object) -> Result<Shared, Reason> {
    let layout = heap.layout;
    heap.ensure_kind(shared, layout.types.shared)?;
    let name_or_scope = heap.object(shared, layout.shared.name);
    let data = heap.object(shared, layout.shared.data);
    let script = heap.object(shared, layout.shared.script).and_then(|object| script(heap, object)).ok();
    let mut found = Found::default();
    match name_or_scope {
        Ok(scope) if heap.kind(scope)? == layout.types.scope => found = scope_info(heap, scope)?,
        Ok(name) => found.name = text::read_name(heap, name).ok(),
        Err(_) => {}
    }
    if let Ok(data) = data {
        let [first, last] = layout.types.uncompiled;
        if (first..=last).contains(&heap.kind(data)?) {
            let inferred = heap.object(data, 8).and_then(|name| text::read_name(heap, name));
            found.inferred = inferred.ok();
            found.start = Some(heap.number(data, 16)?);
        }
    }
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    let name = named(found.name).or_else(|| named(found.inferred));
    Ok(Shared { name: name.unwrap_or_else(|| ANONYMOUS.to_owned()), script, start: found.start })
}

/// Name and position of a function.
#[derive(Default)]
struct Found {
    name: Option<String>,
    inferred: Option<String>,
    start: Option<u32>,
}

/// Returns the script that a field refers to, directly or through the function's debugger state.
fn script(heap: &Heap<'_>, object: Object) -> Result<Object, Reason> {
    const IN_DEBUG_INFO: [u32; 2] = [16, 24];
    let is_script = |object: Object| heap.kind(object) == Ok(heap.layout.types.script);
    if is_script(object) {
        return Ok(object);
    }
    let candidates = IN_DEBUG_INFO.into_iter().filter_map(|offset| heap.object(object, offset).ok());
    candidates.into_iter().find(|&candidate| is_script(candidate)).ok_or(Reason::Implausible)
}

/// Reads name and position from a `ScopeInfo`.
fn scope_info(heap: &Heap<'_>, scope: Object) -> Result<Found, Reason> {
    // Before 9 it is an array, whose length precedes the fields.
    let is_array = heap.layout.version < Version(9, 0);
    let first: u32 = if is_array { 16 } else { 8 };
    let length = heap.length(scope).ok().filter(|_| is_array);
    let end = length.map_or(u32::MAX, |length| length.saturating_mul(8).saturating_add(first));
    let has_position_first = heap.layout.version >= Version(13, 0);
    let locals = small_int(heap.word(scope, first + 16)?).and_then(|count| u32::try_from(count).ok());
    let locals = locals.filter(|&count| count <= MAX_LOCALS).ok_or(Reason::Implausible)?;
    let mut found = Found::default();
    let mut at = first + 24;
    if has_position_first {
        found.start = position(heap.word(scope, at)?);
        at += 16;
    }
    at += if has_table(heap.layout.version, locals) { 8 + locals * 8 } else { locals * 16 };
    // Before 10 the slot of the receiver follows, if it has one: on the stack or in the context.
    let flags = small_int(heap.word(scope, first)?).unwrap_or(0);
    if heap.layout.version < Version(10, 0) && matches!(flags >> 7 & 3, 1 | 2) {
        at += 8;
    }
    // Words behind the array are of other objects.
    let word = |at| if at < end { heap.word(scope, at).unwrap_or(0) } else { OUTSIDE };
    let words = [0, 1, 2, 3, 4].map(|index| word(at + index * 8));
    let text = |word: u64| Object::from_word(word).and_then(|name| text::read_name(heap, name).ok());
    let is_small = |word: u64| small_int(word).is_some();
    // {name or 0, its slot}, which begins with a string or is followed by one.
    let has_name = is_small(words[1]) && (!is_small(words[0]) || !is_small(words[2]) || is_small(words[3]));
    let mut index = 0;
    if has_name && !(!is_small(words[0]) && is_small(words[2]) && !is_small(words[3]) && !has_position_first)
    {
        found.name = text(words[0]);
        index = 2;
    }
    if !is_small(words[index]) {
        found.inferred = text(words[index]);
        index += 1;
    }
    if !has_position_first {
        found.start = position(words[index]);
    }
    Ok(found)
}

/// A word that is neither a small int nor an object.
const OUTSIDE: u64 = 1;

/// Returns `true` if the names of `locals` locals are in a table to which the `ScopeInfo` refers.
/// Before V8 10.0 there is none.
fn has_table(version: Version, locals: u32) -> bool {
    const IN_TABLE: u32 = 75;
    version >= Version(10, 0) && locals >= IN_TABLE
}

fn position(word: u64) -> Option<u32> {
    small_int(word).and_then(|position| u32::try_from(position).ok())
}
