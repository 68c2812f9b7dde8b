//! Working memory of one sample, and the [`Machine`] of the kernel side.

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_kernel, bpf_probe_read_user,
};
use ebpf_programs::abi::arena::{Block, CHUNK_BLOCKS};
use ebpf_programs::abi::interpreter::{FRAME_BYTES, walker};
use ebpf_programs::abi::labels;
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::record::{self, Head, LEAF_WORDS, MAX_WORDS};
use ebpf_programs::abi::table::Rule;
use ebpf_programs::abi::uretprobe::ReplacedReturn;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::{LabelReader, Walk};

use crate::WALKERS;
use crate::arch::Saved;
use crate::maps::{ARENA, CONFIG};
use crate::raw::Copy;
use crate::uretprobe;

/// Bytes of stack copied at a time. A copy of this size costs little more than one of a word.
const WINDOW: usize = 2048;

/// Words of eight bytes in the record buffer; a power of two, so that an index can be masked. A walked record has at most 2,312, the
/// head of a raw one up to its stack at most 1,428.
pub(crate) const RECORD_WORDS: usize = 4096;

/// Words of eight bytes in the head of a record.
pub(crate) const HEAD_WORDS: u32 = record::HEAD_WORDS as u32;

/// Mask of the index of a word before the user frames: head, kernel frames and labels have at most 264.
pub(crate) const FRONT: usize = 511;

/// Maximum size of a string of a label, and of the attributes of a thread context.
const LABEL_BYTES: u32 = labels::MAX_WORDS as u32 * 8;

/// Entries in a slot's cache of reported functions; a power of two.
const REPORTED: usize = 1024;

/// Entries in a slot's cache of rules; a power of two.
const RULES: usize = 512;

/// Bytes in a page, the unit in which the stack is copied into a raw record.
pub(crate) const PAGE: usize = 4096;

/// Buffer for a walked record, and for all of a raw one but the copy of the stack.
pub(crate) type Record = [u64; RECORD_WORDS];

/// All walkers of languages.
pub(crate) const ALL: u32 = u32::MAX;

/// The walker of lists alone, which the clock's program has from the start.
pub(crate) const LISTS: u32 = 1 << walker::LIST;

/// Working memory of one sample. Fields that each sample uses come first, because a sample finds the CPU's caches cold.
///
/// It is a [`Machine`] that has no other walkers of languages than those in `SET`, a bit for each.
#[repr(C, align(8))]
pub(crate) struct Scratch<const SET: u32 = ALL> {
    /// State of the walk.
    pub(crate) walk: Walk,
    /// Registers that the kernel saved on entry.
    pub(crate) saved: Saved,
    /// Index of this working memory.
    #[cfg(feature = "kernel_5_10")]
    pub(crate) slot: u32,
    /// Word of the record at which user frames start.
    pub(crate) user_at: u32,
    /// Number of the [`Stop`](ebpf_programs::abi::reason::Stop).
    pub(crate) stop: u32,
    /// Not 0 if user space is to be woken at once: the walk reached a function of a script that is not in the slot's cache,
    /// or an interpreter whose path is [unknown](ebpf_programs::abi::interpreter::from::UNKNOWN).
    pub(crate) urgent: u32,
    /// Time at which a walk without frames ends.
    pub(crate) walk_end: u64,
    /// Value of the sample in the next kind; 0 if there is none.
    pub(crate) second: u64,
    /// [`HELD`](ebpf_programs::abi::record::kind::HELD) for a sample that is held, else 0.
    pub(crate) flag: u8,
    /// Table generation at the start of the sample.
    table_generation: u32,
    /// Progress of the stack copy for a raw record.
    pub(crate) copy: Copy,
    /// Address of the copied window of the stack.
    window_at: u64,
    /// Number of valid bytes in the window.
    window_len: u64,
    /// Buffer for [`read_object`](Machine::read_object).
    object: [u64; FRAME_BYTES / 8],
    /// The copy of the thread's labels, which precede the user frames.
    pub(crate) labels: LabelReader,
    /// Copied window of the stack, followed by room for one frame after any masked index.
    window: [u64; WINDOW / 8 + FRAME_BYTES / 8],
    /// Record under construction.
    pub(crate) record: Record,
    /// Cache of the functions that were reported to user space, direct-mapped by a hash of the key.
    reported: [u64; REPORTED],
    /// Cache of the rules that were looked up, direct-mapped by a hash of the key.
    rules: [CachedRule; RULES],
}

/// Cached rule with its key.
#[repr(C)]
struct CachedRule {
    key: u64,
    place: u32,
    table_generation: u32,
    rule: Rule,
}

impl<const SET: u32> Scratch<SET> {
    /// Resets the state of the previous sample and prepares a walk through `process`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, process: Process, table_generation: u32) {
        self.table_generation = table_generation;
        self.window_len = 0;
        self.urgent = 0;
        self.walk.begin();
        self.walk.process = process;
    }

    /// Returns the head of the record.
    #[inline(always)]
    pub(crate) fn head(&mut self) -> &mut Head {
        // SAFETY: the record starts with it, has its alignment, and any bits are valid in its fields.
        unsafe { &mut *self.record.as_mut_ptr().cast::<Head>() }
    }

    /// Returns word `index` of the record.
    #[inline(always)]
    pub(crate) fn word(&mut self, index: u32) -> &mut u64 {
        &mut self.record[index as usize & (RECORD_WORDS - 1)]
    }

    /// Returns word `at` of the labels in the record.
    #[inline(always)]
    fn label_word(&mut self, at: u32) -> &mut u64 {
        &mut self.record[self.user_at.wrapping_add(at) as usize & FRONT]
    }

    /// Copies a new window that starts at `address`. Returns its first word.
    #[inline(always)]
    fn refill(&mut self, address: u64) -> Option<u64> {
        self.window_at = address;
        self.window_len = WINDOW as u64;
        if !self.copy_window(address, WINDOW as u32) {
            // The window crosses the end of the stack: retry with the rest of the page.
            let left = PAGE as u64 - (address & (PAGE as u64 - 1));
            self.window_len = if left > WINDOW as u64 { WINDOW as u64 } else { left };
            if !self.copy_window(address, self.window_len as u32) {
                self.window_len = 0;
                return None;
            }
        }
        Some(self.window[0])
    }

    #[inline(always)]
    fn copy_window(&mut self, address: u64, size: u32) -> bool {
        let window = self.window.as_mut_ptr().cast();
        // SAFETY: `window` has `WINDOW` bytes and `size` is at most as many; a failing read does not fault.
        unsafe { bpf_probe_read_user(window, size, address as *const _) == 0 }
    }
}

impl<const SET: u32> Machine for Scratch<SET> {
    const VERIFIED: bool = true;

    #[inline(always)]
    fn block(&self, index: u32) -> Option<&Block> {
        ARENA.get_value(index / CHUNK_BLOCKS, &(index % CHUNK_BLOCKS))
    }

    #[inline(always)]
    fn cached_rule(&self, place: u32, key: u64) -> Option<Rule> {
        let known = &self.rules[slot(place, key)];
        (known.key == key && known.place == place && known.table_generation == self.table_generation)
            .then_some(known.rule)
    }

    #[inline(always)]
    fn cache_rule(&mut self, place: u32, key: u64, rule: &Rule) {
        let table_generation = self.table_generation;
        self.rules[slot(place, key)] = CachedRule { key, place, table_generation, rule: *rule };
    }

    #[inline(always)]
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        match self.read_cached(address) {
            None => self.refill(address),
            word => word,
        }
    }

    /// Reads from the copied window only.
    #[inline(always)]
    fn read_cached(&mut self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.window_at);
        if offset & 7 == 0 && offset < self.window_len {
            return Some(self.window[(offset / 8) as usize & (WINDOW / 8 - 1)]);
        }
        None
    }

    #[inline(always)]
    fn read_memory(&mut self, address: u64) -> Option<u64> {
        let mut value = 0u64;
        // SAFETY: `value` has eight bytes; the helper fails without a fault.
        let error = unsafe { bpf_probe_read_user((&raw mut value).cast(), 8, address as *const _) };
        (error == 0).then_some(value)
    }

    #[inline(always)]
    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let size = if size > FRAME_BYTES as u32 { FRAME_BYTES as u32 } else { size };
        let to = self.object.as_mut_ptr().cast();
        // SAFETY: `object` has at least `size` bytes; the helper fails without a fault.
        let error = unsafe { bpf_probe_read_user(to, size, address as *const _) };
        (error == 0).then_some(&self.object)
    }

    /// Reads from the copied window, if it can be there.
    #[inline(always)]
    fn read_frame(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let mut offset = address.wrapping_sub(self.window_at);
        let is_copied = |offset: u64, length: u64| offset < length && length - offset >= size as u64;
        if !is_copied(offset, self.window_len) && self.refill(address).is_some() {
            offset = 0;
        }
        if offset & 7 != 0 || !is_copied(offset, self.window_len) {
            return self.read_object(address, size);
        }
        self.window.get((offset / 8) as usize & (WINDOW / 8 - 1)..)?.first_chunk()
    }

    #[inline(always)]
    fn has_walker(number: u32) -> bool {
        SET >> number & 1 != 0 && walkers() >> number & 1 != 0
    }

    #[inline(always)]
    fn thread_pointer(&mut self) -> Option<u64> {
        thread_pointer()
    }

    #[inline(always)]
    fn uprobes_page(&mut self) -> Option<u64> {
        uretprobe::page()
    }

    #[inline(always)]
    fn original_instruction(&mut self, pc: u64) -> Option<u64> {
        uretprobe::original_instruction(pc)
    }

    #[inline(always)]
    fn first_replaced(&mut self) -> Option<u64> {
        uretprobe::first()
    }

    #[inline(always)]
    fn replaced(&mut self, address: u64) -> Option<ReplacedReturn> {
        uretprobe::instance(address)
    }

    #[inline(always)]
    fn read_words<const N: usize>(&mut self, to: &mut [u64; N], address: u64, size: u32) -> bool {
        let size = if size as usize > N * 8 { (N * 8) as u32 } else { size };
        // SAFETY: `to` has at least `size` bytes; the helper fails without a fault.
        unsafe { bpf_probe_read_user(to.as_mut_ptr().cast(), size, address as *const _) == 0 }
    }

    #[inline(always)]
    fn copy_label(&mut self, at: u32, address: u64, size: u32) -> bool {
        let size = if size > LABEL_BYTES { LABEL_BYTES } else { size };
        let to = self.label_word(at);
        // SAFETY: the record has room for that many bytes after every masked index; the helper fails without a fault.
        unsafe { bpf_probe_read_user((&raw mut *to).cast(), size, address as *const _) == 0 }
    }

    #[inline(always)]
    fn put_label_word(&mut self, at: u32, word: u64) {
        *self.label_word(at) = word;
    }

    #[inline(always)]
    fn request_wakeup(&mut self) {
        self.urgent = 1;
    }

    /// If there are more frames than fit, the second half of the buffer is used as a ring: the leaf side is kept, and the
    /// last frames of the root side.
    #[inline(always)]
    fn push_frame(&mut self, frame: u64) {
        self.put(self.walk.words, frame);
    }

    #[inline(always)]
    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        // SAFETY: the helper has no conditions.
        let pid = unsafe { bpf_get_current_pid_tgid() } >> 32;
        let names = (self.walk.process.names as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let key = function ^ pid << 32 ^ detail & (u32::MAX as u64) << 32 ^ names;
        let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & (REPORTED - 1);
        if self.reported[place] != key {
            self.reported[place] = key;
            self.urgent = 1;
        }
        self.put(self.walk.words, function);
        self.put(self.walk.words + 1, detail);
    }
}

impl<const SET: u32> Scratch<SET> {
    /// Stores a word of a frame in the record, `number` words after the leaf.
    #[inline(always)]
    fn put(&mut self, number: u32, word: u64) {
        const REST: u32 = (MAX_WORDS - LEAF_WORDS) as u32;
        let slot = if number < MAX_WORDS as u32 { number } else { LEAF_WORDS as u32 + number % REST };
        let at = self.user_at.wrapping_add(slot);
        *self.word(at) = word;
    }
}

/// Returns the walkers that this program has: [`WALKERS`].
#[inline(always)]
pub(crate) fn walkers() -> u32 {
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    unsafe { (&raw const WALKERS).read_volatile() }
}

/// Returns the index of a rule in the cache.
#[inline(always)]
fn slot(place: u32, key: u64) -> usize {
    ((key ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & (RULES - 1)
}

/// Returns the thread pointer of the current thread, as saved by the kernel; `None` if its offset is unknown.
#[inline(always)]
pub(crate) fn thread_pointer() -> Option<u64> {
    let at = CONFIG.get(0)?.fsbase_offset;
    // SAFETY: the helper has no conditions.
    let value = kernel_word(unsafe { bpf_get_current_task() }, at);
    value.filter(|_| at != 0)
}

/// Returns the word `offset` bytes behind an address of the kernel; `None` if it isn't readable.
#[inline(always)]
pub(crate) fn kernel_word(address: u64, offset: u32) -> Option<u64> {
    let mut value = 0u64;
    let at = address.wrapping_add(offset as u64);
    // SAFETY: `value` has eight bytes; the helper fails without a fault.
    let error = unsafe { bpf_probe_read_kernel((&raw mut value).cast(), 8, at as *const _) };
    (error == 0).then_some(value)
}
