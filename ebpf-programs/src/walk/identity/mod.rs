//! Checks of functions, in the kernel and in user space.
//!
//! A function that was freed is replaced by one of the same shape at the same addresses soon, as are its texts. So a check covers what
//! differs between such functions: numbers that the runtime never uses again, hashes and characters of texts. It must not change while
//! the function lives. Reads have constant sizes, or the verifier of 6.1 finds no bound.

pub mod beam;

pub mod dotnet;

pub mod hotspot;

pub mod luajit;

pub mod perl;

pub mod ruby;

pub mod texts;

pub mod v8;

use crate::abi::interpreter::FRAME_BYTES;
use crate::machine::Machine;

/// Words that are read at a time.
type Words = [u64; FRAME_BYTES / 8];

/// Words of the text that [`text`] covers.
const TEXT: usize = 12;

/// The last text of a walk, and its hash: functions of one file follow each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LastText {
    address: u64,
    hash: u64,
}

/// Checks of a walk. A function is not freed while it runs, so each is read once for a row of frames.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct Checked {
    /// The last functions and their checks, in slots by their address.
    functions: [[u64; 2]; CHECKED],
    /// Bit set of the slots that are used.
    used: u32,
    /// The last text of a function.
    pub(in crate::walk) text: LastText,
}

/// Functions whose checks are kept; a power of two.
const CHECKED: usize = 8;

impl Checked {
    /// Forgets the functions of a previous walk.
    #[inline(always)]
    pub(in crate::walk) fn begin(&mut self) {
        self.used = 0;
        self.text = LastText::default();
    }

    /// Returns the check of a function, with further bits that its walker keeps.
    #[inline(always)]
    pub(in crate::walk) fn get(&self, function: u64) -> Option<u64> {
        let slot = slot(function);
        let [known, check] = self.functions[slot];
        (known == function && self.used >> slot & 1 != 0).then_some(check)
    }

    /// Keeps the check of a function for the rest of the walk.
    #[inline(always)]
    pub(in crate::walk) fn keep(&mut self, function: u64, check: u64) {
        let slot = slot(function);
        self.used |= 1 << slot;
        self.functions[slot] = [function, check];
    }
}

/// Returns the slot of a function's check.
#[inline(always)]
fn slot(function: u64) -> usize {
    (function >> 5 ^ function >> 9) as usize & (CHECKED - 1)
}

/// Returns the check with a hash.
#[inline(always)]
const fn check(hash: u64) -> u32 {
    (hash >> 40) as u32
}

/// Returns the hash of the first 96 bytes of a text that ends with a zero byte. Returns `None` if it is unreadable.
#[inline(always)]
fn text<M: Machine>(machine: &mut M, at: u64) -> Option<u64> {
    if let Some(words) = machine.read_object(at, TEXT as u32 * 8) {
        return Some(words_of_text::<TEXT>(words, 0));
    }
    // It may be the last object of a mapping.
    Some(mix(0, machine.read_memory(at)?))
}

/// Returns the hash of `COUNT` words from `first` on, up to the first zero byte.
#[inline(always)]
fn words_of_text<const COUNT: usize>(words: &Words, first: usize) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let (mut sum, mut is_over) = (0, 0);
    let mut index = 0;
    while index < COUNT {
        let word = words[first + index];
        let zeros = word.wrapping_sub(LOW) & !word & LOW << 7;
        // The bytes before the first zero byte.
        let kept = ((zeros & zeros.wrapping_neg()) >> 7).wrapping_sub(1);
        if is_over == 0 {
            sum = mix(sum, word & kept);
        }
        is_over |= zeros;
        index += 1;
    }
    sum
}

/// Adds `taken` bytes to a hash, from a word on; at most `COUNT` words.
#[inline(always)]
fn bytes<const COUNT: usize>(mut sum: u64, words: &Words, first: usize, taken: u64) -> u64 {
    let mut index = 0;
    while index < COUNT {
        let before = index as u64 * 8;
        if before < taken {
            let left = taken - before;
            let word = words[first + index];
            // Bytes behind the end belong to something else.
            let unused = if left < 8 { (8 - left) as u32 * 8 } else { 0 };
            sum = mix(sum, word << (unused & 63));
        }
        index += 1;
    }
    sum
}

/// Adds a word to a hash.
#[inline(always)]
const fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn texts_end_with_a_zero_byte() {
    let hash = |text: &[u8]| {
        let mut bytes = [0xee; FRAME_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        let mut words = [0; FRAME_BYTES / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words_of_text::<TEXT>(&words, 0)
    };
    assert_eq!(hash(b"/srv/first.pl\0"), hash(b"/srv/first.pl\0other"));
    assert_ne!(hash(b"/srv/first.pl\0"), hash(b"/srv/other.pl\0"));
    assert_ne!(hash(b"/srv/file-11.pl\0"), hash(b"/srv/file-12.pl\0"));
    assert_eq!(hash(b"\0a"), hash(b"\0b"));
    assert_ne!(hash(b"12345678\0"), hash(b"1234567\0"));
}
