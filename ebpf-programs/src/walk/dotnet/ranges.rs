//! The map of code ranges: from an address to the nibbles of a code heap, or the unwind entries of a precompiled image.

use super::entries::enter_entries;
use super::{parameter, phase};
use crate::abi::dotnet::{
    FRAGMENT, HEAP, HEAP_WORDS, LEVELS, MAX_FRAGMENTS, SECTION, SECTION_WORDS, parameter,
};
use crate::machine::Machine;
use crate::walk::{Walk, is_null};

/// Finds the first fragment of the addresses around `pc`.
#[inline(always)]
pub(super) fn levels<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let mut at = parameter(walk, parameter::MAP);
    let mut level = 0;
    while level < LEVELS.len() {
        let index = pc >> LEVELS[level] & 0xff;
        match machine.read_memory(at.wrapping_add(index * 8)) {
            Some(next) if !is_null(next) => at = next & !1,
            _ => return,
        }
        level += 1;
    }
    walk.dotnet.at = at;
    walk.dotnet.enter(phase::FRAGMENT);
}

/// Looks at one fragment.
#[inline(always)]
pub(super) fn fragment<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let is_last = walk.dotnet.steps > MAX_FRAGMENTS || is_null(walk.dotnet.at);
    let words = if is_last { None } else { machine.read_object(walk.dotnet.at, FRAGMENT) };
    let Some([next, begin, end, section]) = words.map(|words| [words[0], words[1], words[2], words[3]])
    else {
        return walk.dotnet.enter(phase::UNKNOWN);
    };
    if pc < begin || pc >= end {
        walk.dotnet.at = next & !1;
        return;
    }
    walk.dotnet.enter(phase::UNKNOWN);
    enter_section(walk, machine, pc, section & !1);
}

/// Begins to search a range section: the nibbles of a code heap, or the entries of an image.
#[inline(always)]
fn enter_section<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, section: u64) {
    let [start, module, heap] = SECTION_WORDS;
    let Some(words) = machine.read_object(section, SECTION) else { return };
    let (start, module, heap) = (words[start], words[module], words[heap]);
    walk.dotnet.base = start;
    if !is_null(module) {
        return enter_image(walk, machine, module);
    }
    walk.dotnet.enter(phase::STUB);
    if !is_null(heap) {
        enter_heap(walk, machine, pc, heap);
    }
}

/// Begins to search the unwind entries of a precompiled image.
#[inline(always)]
fn enter_image<M: Machine>(walk: &mut Walk, machine: &mut M, module: u64) {
    let offset = parameter(walk, parameter::PRECOMPILED);
    let Some(data) = machine.read_memory(module.wrapping_add(offset)) else { return };
    let at = data.wrapping_add(parameter(walk, parameter::ENTRIES));
    let Some([entries, count]) = machine.read_object(at, 16).map(|words| [words[0], words[1]]) else {
        return;
    };
    walk.dotnet.start = 0;
    enter_entries(walk, entries, count as u32 as u64);
}

/// Begins to search the nibbles of a code heap.
#[inline(always)]
fn enter_heap<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, heap: u64) {
    let Some(words) = machine.read_object(heap, HEAP) else { return };
    let [first, end, base, map] = HEAP_WORDS;
    let (first, end, base, map) = (words[first], words[end], words[base], words[map]);
    if pc < first || pc >= end || pc < base {
        return;
    }
    walk.dotnet.heap = base;
    let bucket = pc.wrapping_sub(base) >> 5;
    walk.dotnet.at = map.wrapping_add(bucket >> 3 << 2);
    walk.dotnet.offset = pc.wrapping_sub(base) & !255;
    walk.dotnet.enter(phase::NIBBLES);
}
