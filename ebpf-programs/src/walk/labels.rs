//! Labels that a program set for the work of the sampled thread: follows their path and copies them.

use super::arena::{UNIT_WORDS, block, read_u64, word};
use crate::abi::labels::{
    HOPS, LabelPath, MAX_KEY, MAX_MAPPED, MAX_PAIRS, MAX_VALUE, MAX_WORDS, flag, layout, pair,
};
use crate::abi::mapping::Process;
use crate::machine::Machine;

/// Maximum number of steps that a set takes: the path, then a pair of a slice, or a slot of a map, each.
pub const LABEL_STEPS: u32 = 1 + 8 * SLOTS;

/// Progress of a copy of labels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
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
    /// Address of the slice's array, or of the current bucket.
    at: u64,
    /// Address of the current array of buckets.
    array: u64,
    /// Address of the old buckets, from which a growing map moves pairs to new ones; 0 for none.
    old: u64,
    /// First word of the current bucket: a byte for each slot.
    used: u64,
    path: LabelPath,
}

impl LabelReader {
    /// Prepares to read labels of a process. Returns `false` if it has no label path.
    #[inline(always)]
    pub fn begin<M: Machine>(&mut self, machine: &M, process: &Process) -> bool {
        self.words = 0;
        self.flags = 0;
        self.left = 0;
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
        true
    }

    /// Takes step `index`. Returns `false` at the end.
    #[inline(always)]
    pub fn step<M: Machine>(&mut self, machine: &mut M, index: u32) -> bool {
        let more = if index == 0 {
            self.enter(machine)
        } else if self.path.layout == layout::SLICE {
            self.pair_of_slice(machine)
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
            if at == 0 {
                return Some(false);
            }
            hop += 1;
        }
        if self.path.layout == layout::SLICE {
            return self.enter_slice(machine, at);
        }
        self.enter_map(machine, at)
    }

    #[inline(always)]
    fn enter_slice<M: Machine>(&mut self, machine: &mut M, at: u64) -> Option<bool> {
        let header = machine.read_object(at, 24)?;
        let (array, length, capacity) = (header[0], header[1], header[2]);
        if length > capacity || capacity > MAX_CAPACITY || array % 8 != 0 {
            return None;
        }
        self.at = array;
        self.left = length as u32;
        if length > MAX_PAIRS as u64 {
            self.left = MAX_PAIRS;
            self.flags |= flag::CUT as u32;
        }
        Some(length > 0)
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
        let at = self.at;
        self.at = at.wrapping_add(32);
        let words = machine.read_object(at, 32)?;
        let (key, value) = ([words[0], words[1]], [words[2], words[3]]);
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
        let at_key = self.words + 1;
        let at_value = at_key + key_size.div_ceil(8);
        let end = at_value + value_size.div_ceil(8);
        if end > MAX_WORDS as u32 || first != 0 {
            self.flags |= flag::CUT as u32;
        }
        if end > MAX_WORDS as u32 {
            return Some(());
        }
        machine
            .put_label_word(self.words, first | key_size as u64 | (value_size as u64) << pair::VALUE_SHIFT);
        self.words = end;
        copy_text(machine, at_key, key[0], key_size)?;
        copy_text(machine, at_value, value[0], value_size)
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
