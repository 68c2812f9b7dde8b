//! Labels that a program set for the work of the sampled thread: follows their path and copies them.
//!
//! A copy takes as long as its reads of the program's memory, more or less however many bytes these have. A slice takes two reads, and
//! texts that were allocated one after another take one for all of them, the *window*. Constants take none.

use super::arena::{UNIT_WORDS, block, read_u64, word};
use crate::abi::labels::{
    CONTEXT_WORDS, HOPS, LabelPath, MAX_KEY, MAX_MAPPED, MAX_PAIRS, MAX_VALUE, MAX_WORDS, VALID, flag,
    layout, pair,
};
use crate::abi::mapping::Process;
use crate::machine::Machine;

/// Maximum number of steps that a set takes: the path, then a pair of a slice, or a slot of a map, each.
pub const LABEL_STEPS: u32 = 1 + 8 * SLOTS;

/// Progress of a copy of labels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LabelReader {
    /// Words that were written.
    pub words: u32,
    /// [Flags](flag).
    pub flags: u32,
    /// Number of pairs that are not copied yet.
    left: u32,
    /// Number of buckets in the current array.
    buckets: u32,
    /// Index of the bucket at [`at`](LabelReader::at), or of the one that leads to it.
    bucket: u32,
    /// Number of old buckets.
    old_buckets: u32,
    /// Index of the next pair of a slice.
    next: u32,
    /// Number of valid bytes in the window.
    window_len: u32,
    /// Address of the window.
    window_at: u64,
    /// Address of the current bucket.
    at: u64,
    /// Address of the current array of buckets.
    array: u64,
    /// Address of the old buckets, from which a growing map moves pairs to new ones; 0 for none.
    old: u64,
    /// First word of the current bucket: a byte for each slot.
    used: u64,
    path: LabelPath,
    /// Pairs of a slice, four words each.
    pairs: [u64; PAIR_WORDS * MAX_PAIRS as usize],
    /// Copy of memory with texts, followed by room for a text after any masked index.
    window: [u64; WINDOW / 8 + SHORT / 8],
}

impl LabelReader {
    /// Prepares to read labels of a process. Returns `false` if it has no label path.
    #[inline(always)]
    pub fn begin<M: Machine>(&mut self, machine: &M, process: &Process) -> bool {
        self.words = 0;
        self.flags = 0;
        self.left = 0;
        self.next = 0;
        self.window_len = 0;
        if process.labels == 0 {
            return false;
        }
        let at = process.labels.wrapping_sub(1).wrapping_mul(UNIT_WORDS);
        let Some(block) = block(machine, at) else { return false };
        self.path.hops = word(block, at);
        self.path.layout = word(block, at + 1);
        let mut hop = 0;
        while hop < HOPS {
            self.path.offsets[hop] = read_u64(block, at + 2 + hop as u32 * 2) as i64;
            hop += 1;
        }
        self.path.constants = read_u64(block, at + 2 + 2 * HOPS as u32);
        self.path.constants_size = read_u64(block, at + 4 + 2 * HOPS as u32);
        true
    }

    /// Takes step `index`. Returns `false` at the end.
    #[inline(always)]
    pub fn step<M: Machine>(&mut self, machine: &mut M, index: u32) -> bool {
        let more = if index == 0 {
            self.enter(machine)
        } else if self.path.layout == layout::SLICE {
            self.pair_of_slice(machine)
        } else if self.path.layout == layout::CONTEXT {
            None
        } else {
            self.slot_of_map(machine, (index - 1) % SLOTS)
        };
        match more {
            Some(true) if index + 1 < LABEL_STEPS => true,
            Some(false) => false,
            // Also a map of which not all pairs were found: half a set is none.
            _ => {
                self.words = 0;
                self.flags = flag::UNREADABLE as u32;
                false
            }
        }
    }

    /// Follows the path to the set. Returns `Some(false)` for a thread without labels.
    #[inline(always)]
    fn enter<M: Machine>(&mut self, machine: &mut M) -> Option<bool> {
        let mut at = machine.thread_pointer()?;
        let mut hop = 0;
        while hop < HOPS {
            if hop as u32 >= self.path.hops {
                break;
            }
            at = machine.read_memory(at.wrapping_add(self.path.offsets[hop] as u64))?;
            // The latter is in a vector of modules for storage that the thread hasn't used yet.
            if at == 0 || at == u64::MAX {
                return Some(false);
            }
            hop += 1;
        }
        match self.path.layout {
            layout::SLICE => self.enter_slice(machine, at),
            layout::CONTEXT => self.copy_context(machine, at),
            _ => self.enter_map(machine, at),
        }
    }

    #[inline(always)]
    fn enter_slice<M: Machine>(&mut self, machine: &mut M, at: u64) -> Option<bool> {
        let header = machine.read_object(at, 24)?;
        let (array, length, capacity) = (header[0], header[1], header[2]);
        if length > capacity || capacity > MAX_CAPACITY || array % 8 != 0 {
            return None;
        }
        let mut left = length as u32;
        if length > MAX_PAIRS as u64 {
            left = MAX_PAIRS;
            self.flags |= flag::CUT as u32;
        }
        self.left = left;
        if left == 0 {
            return Some(false);
        }
        machine.read_words(&mut self.pairs, array, left * PAIR_WORDS as u32 * 8).then_some(true)
    }

    /// Copies a thread context: its head, and its attributes if all of them fit. An attribute replaces an earlier one with its key, so
    /// that a part of them could be wrong.
    #[inline(always)]
    fn copy_context<M: Machine>(&mut self, machine: &mut M, at: u64) -> Option<bool> {
        if at & 1 != 0 {
            return None;
        }
        let head = machine.read_object(at, CONTEXT_HEAD)?;
        let (trace, span, fields) = ([head[0], head[1]], head[2], head[3] as u32);
        if fields & 0xff != VALID {
            return Some(false);
        }
        machine.put_label_word(0, trace[0]);
        machine.put_label_word(1, trace[1]);
        machine.put_label_word(2, span);
        machine.put_label_word(3, fields as u64);
        self.words = CONTEXT_WORDS as u32;
        self.flags |= flag::CONTEXT as u32;
        let size = fields >> 16;
        if size > (MAX_WORDS - CONTEXT_WORDS) as u32 * 8 {
            self.flags |= flag::CUT as u32;
            return Some(false);
        }
        copy_text(machine, CONTEXT_WORDS as u32, at.wrapping_add(CONTEXT_HEAD as u64), size)?;
        self.words += size.div_ceil(8);
        Some(false)
    }

    #[inline(always)]
    fn enter_map<M: Machine>(&mut self, machine: &mut M, at: u64) -> Option<bool> {
        let header = machine.read_object(at, 32)?;
        let (count, flags, buckets, old) = (header[0], header[1], header[2], header[3]);
        let log = flags >> 8 & 0xff;
        if count > MAX_MAPPED as u64 || log > MAX_LOG || flags & 0xff > MAX_FLAGS {
            return None;
        }
        self.left = count as u32;
        self.buckets = 1 << (log & MAX_LOG);
        self.old_buckets = if flags & GROWS_IN_SIZE == 0 { self.buckets / 2 } else { self.buckets };
        self.old = old;
        self.bucket = 0;
        self.array = buckets;
        self.at = buckets;
        Some(count > 0)
    }

    /// Copies the next pair of a slice.
    #[inline(always)]
    fn pair_of_slice<M: Machine>(&mut self, machine: &mut M) -> Option<bool> {
        // Masked for the verifier.
        let at = (self.next % MAX_PAIRS) as usize * PAIR_WORDS;
        self.next += 1;
        let (key, value) = ([self.pairs[at], self.pairs[at + 1]], [self.pairs[at + 2], self.pairs[at + 3]]);
        self.copy(machine, key, value)?;
        Some(self.left > 0)
    }

    /// Copies the pair in a slot of the current bucket, if there is one.
    #[inline(always)]
    fn slot_of_map<M: Machine>(&mut self, machine: &mut M, slot: u32) -> Option<bool> {
        if slot == 0 {
            self.used = machine.read_memory(self.at)?;
        }
        if self.used >> (slot * 8) & 0xff >= MIN_USED {
            let words = machine.read_object(self.at.wrapping_add(8 + slot as u64 * 16), 16)?;
            let key = [words[0], words[1]];
            let words = machine.read_object(self.at.wrapping_add(136 + slot as u64 * 16), 16)?;
            let value = [words[0], words[1]];
            self.copy(machine, key, value)?;
            if self.left == 0 {
                return Some(false);
            }
        }
        if slot == SLOTS - 1 {
            self.next_bucket(machine)?;
        }
        Some(true)
    }

    /// Goes to the next bucket; `None` at the end of all.
    #[inline(always)]
    fn next_bucket<M: Machine>(&mut self, machine: &mut M) -> Option<()> {
        let further = machine.read_memory(self.at.wrapping_add(264))?;
        if further != 0 {
            self.at = further;
            return Some(());
        }
        self.bucket += 1;
        if self.bucket >= self.buckets {
            if self.old == 0 {
                return None;
            }
            self.array = self.old;
            self.buckets = self.old_buckets;
            self.old = 0;
            self.bucket = 0;
        }
        self.at = self.array.wrapping_add(self.bucket as u64 * BUCKET);
        Some(())
    }

    /// Copies a pair of strings, each an address and a length.
    #[inline(always)]
    fn copy<M: Machine>(&mut self, machine: &mut M, key: [u64; 2], value: [u64; 2]) -> Option<()> {
        if key[1] > MAX_LENGTH || value[1] > MAX_LENGTH {
            return None;
        }
        self.left = self.left.wrapping_sub(1);
        let (mut first, mut key_size, mut value_size) = (0, key[1] as u32, value[1] as u32);
        if key_size > MAX_KEY as u32 {
            (key_size, first) = (MAX_KEY as u32, pair::KEY_IS_CUT);
        }
        if value_size > MAX_VALUE as u32 {
            (value_size, first) = (MAX_VALUE as u32, first | pair::VALUE_IS_CUT);
        }
        let (key_is_constant, value_is_constant) = (self.is_constant(key), self.is_constant(value));
        let at_key = self.words + 1;
        let at_value = at_key + if key_is_constant { 1 } else { key_size.div_ceil(8) };
        let end = at_value + if value_is_constant { 1 } else { value_size.div_ceil(8) };
        if end > MAX_WORDS as u32 || first != 0 {
            self.flags |= flag::CUT as u32;
        }
        if end > MAX_WORDS as u32 {
            return Some(());
        }
        first |= if key_is_constant { pair::KEY_IS_CONSTANT } else { 0 };
        first |= if value_is_constant { pair::VALUE_IS_CONSTANT } else { 0 };
        let sizes = key_size as u64 | (value_size as u64) << pair::VALUE_SHIFT;
        machine.put_label_word(self.words, first | sizes);
        self.words = end;
        if key_is_constant {
            machine.put_label_word(at_key, key[0]);
        } else {
            self.copy_or_take(machine, at_key, key[0], key_size)?;
        }
        if value_is_constant {
            machine.put_label_word(at_value, value[0]);
            return Some(());
        }
        self.copy_or_take(machine, at_value, value[0], value_size)
    }

    /// Returns `true` if a string is among the constants of the program.
    #[inline(always)]
    fn is_constant(&self, [address, length]: [u64; 2]) -> bool {
        let offset = address.wrapping_sub(self.path.constants);
        length != 0 && offset < self.path.constants_size && self.path.constants_size - offset >= length
    }

    /// Copies a string to words from number `at` on, a short one from the window.
    #[inline(always)]
    fn copy_or_take<M: Machine>(&mut self, machine: &mut M, at: u32, address: u64, size: u32) -> Option<()> {
        if size == 0 {
            return Some(());
        }
        if size > SHORT as u32 || !self.ensure_window(machine, address, size) {
            return copy_text(machine, at, address, size);
        }
        let offset = address.wrapping_sub(self.window_at);
        let (first, shift) = ((offset / 8) as usize & (WINDOW / 8 - 1), (offset % 8 * 8) as u32);
        let mut word = 0;
        while word < SHORT / 8 {
            let left = size.wrapping_sub(word as u32 * 8);
            let low = self.window[first + word] >> shift;
            // Zero for no shift.
            let high = match self.window.get(first + word + 1) {
                Some(next) => (next << 1) << (63 - shift),
                None => 0,
            };
            if left <= 8 {
                machine.put_label_word(at + word as u32, (low | high) & u64::MAX >> (64 - left * 8));
                break;
            }
            machine.put_label_word(at + word as u32, low | high);
            word += 1;
        }
        Some(())
    }

    /// Copies the memory around a string, unless the window has it. Returns `false` if it doesn't have it then.
    #[inline(always)]
    fn ensure_window<M: Machine>(&mut self, machine: &mut M, address: u64, size: u32) -> bool {
        let has = |at: u64, len: u32| {
            let offset = address.wrapping_sub(at);
            offset < len as u64 && len as u64 - offset >= size as u64
        };
        if has(self.window_at, self.window_len) {
            return true;
        }
        // Within one page: the next one may not be readable.
        let in_page = address as u32 & (PAGE - 1);
        let before = if in_page < BEFORE { in_page } else { BEFORE + in_page % 8 };
        let (at, left) = (address.wrapping_sub(before as u64), PAGE - (in_page - before));
        let len = if left < WINDOW as u32 { left } else { WINDOW as u32 };
        self.window_len = 0;
        if !machine.read_words(&mut self.window, at, len) {
            return false;
        }
        (self.window_at, self.window_len) = (at, len);
        has(at, len)
    }
}

impl Default for LabelReader {
    fn default() -> LabelReader {
        LabelReader {
            words: 0,
            flags: 0,
            left: 0,
            buckets: 0,
            bucket: 0,
            old_buckets: 0,
            next: 0,
            window_len: 0,
            window_at: 0,
            at: 0,
            array: 0,
            old: 0,
            used: 0,
            path: LabelPath::default(),
            pairs: [0; PAIR_WORDS * MAX_PAIRS as usize],
            window: [0; WINDOW / 8 + SHORT / 8],
        }
    }
}

/// Copies a string to words from number `at` on.
#[inline(always)]
fn copy_text<M: Machine>(machine: &mut M, at: u32, address: u64, size: u32) -> Option<()> {
    if size == 0 {
        return Some(());
    }
    // The bytes behind its end.
    machine.put_label_word(at + (size - 1) / 8, 0);
    machine.copy_label(at, address, size).then_some(())
}

/// Words of a pair of a slice.
const PAIR_WORDS: usize = 4;

/// Bytes of the window: a copy of so many costs little more than one of a word.
const WINDOW: usize = 512;

/// Bytes of the window before the string for which it was copied, at least.
const BEFORE: u32 = 256;

/// Maximum size of a string that is taken from the window.
const SHORT: usize = 40;

/// Bytes in a page.
const PAGE: u32 = 4096;

/// Bytes of a thread context before its attributes.
const CONTEXT_HEAD: u32 = 28;

/// Slots in a bucket of a map.
const SLOTS: u32 = 8;

/// Size of a bucket in bytes.
const BUCKET: u64 = 272;

/// Smallest value of the byte of a slot that has a pair; smaller ones are of slots that are empty, or were moved to another bucket.
const MIN_USED: u64 = 5;

/// Maximum log₂ of the number of buckets; one less than a power of two, so that it is also a mask. A map of 16 pairs has 2.
const MAX_LOG: u64 = 3;

/// All flags of a map.
const MAX_FLAGS: u64 = 31;

/// Flag of a map that moves its pairs to as many buckets.
const GROWS_IN_SIZE: u64 = 8;

/// Maximum capacity of a slice that is plausible.
const MAX_CAPACITY: u64 = 1 << 16;

/// Maximum length of a key or value that is plausible.
const MAX_LENGTH: u64 = 1 << 30;

#[cfg(test)]
mod tests;
