//! What a CPU works with during one tick, and how a walker sees the machine from there.

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_kernel, bpf_probe_read_user,
};
use ebpf_programs::abi::arena::{Block, CHUNK_BLOCKS};
use ebpf_programs::abi::interpreter::FRAME_BYTES;
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::record::{Head, LEAF_WORDS, MAX_WORDS};
use ebpf_programs::abi::table::Rule;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::Walk;

use crate::maps::{ARENA, CONFIG};
use crate::raw::Copy;
use crate::user_registers::Saved;

/// Bytes of stack that are copied at a time. One copy of this size costs little more than one of a word.
const WINDOW: usize = 2048;

/// Words of eight bytes in the record buffer; a power of two, so that an index can be masked.
pub(crate) const RECORD_WORDS: usize = 8192;

/// Where frames begin in a record.
pub(crate) const HEAD_WORDS: u32 = (size_of::<Head>() / 8) as u32;

/// Calls in scripts that a CPU remembers to have sent; a power of two.
const REPORTED: usize = 1024;

/// Rules that a CPU remembers; a power of two.
const RULES: usize = 512;

/// A page, the step in which the stack is copied into a raw record.
pub(crate) const PAGE: usize = 4096;

/// A record, with room behind it for one page beyond any masked index.
pub(crate) type Record = [u64; RECORD_WORDS + PAGE / 8];

/// The memory of one CPU: what every tick touches comes first, because a tick finds the caches cold.
#[repr(C, align(8))]
pub(crate) struct Scratch {
    /// The walk on its way.
    pub(crate) walk: Walk,
    /// The registers that the kernel saved.
    pub(crate) saved: Saved,
    /// Where user frames begin in the record.
    pub(crate) user_at: u32,
    /// A [`Stop`](ebpf_programs::abi::reason::Stop) by number.
    pub(crate) stop: u32,
    /// Not 0 where the walk met a function of a script that this CPU doesn't remember to have sent, or an interpreter
    /// that wasn't ready before: user space had better ask at once.
    pub(crate) urgent: u32,
    /// The number of the tables that this tick walks by, from the settings.
    tables: u32,
    /// The copy for a raw record on its way.
    pub(crate) copy: Copy,
    /// Where the copied window of the stack begins.
    window_at: u64,
    /// How many bytes of it were copied.
    window_len: u64,
    /// A piece of an interpreter's memory.
    object: [u64; FRAME_BYTES / 8],
    /// The copied window.
    window: [u64; WINDOW / 8],
    /// The record that is being put together.
    pub(crate) record: Record,
    /// The functions that were sent, each in the place that its address gives it.
    reported: [u64; REPORTED],
    /// The rules that were looked up last, each in the place that its key gives it.
    rules: [CachedRule; RULES],
}

/// A rule, and what it is the rule of.
#[repr(C)]
struct CachedRule {
    key: u64,
    place: u32,
    tables: u32,
    rule: Rule,
}

impl Scratch {
    /// Forgets what an earlier tick left, and prepares to walk through `process`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, process: Process, tables: u32) {
        self.tables = tables;
        self.window_len = 0;
        self.urgent = 0;
        self.walk.begin();
        self.walk.process = process;
    }

    /// The head of the record.
    #[inline(always)]
    pub(crate) fn head(&mut self) -> &mut Head {
        // SAFETY: the record begins with it, is as aligned, and each of its fields is good with any bits.
        unsafe { &mut *self.record.as_mut_ptr().cast::<Head>() }
    }

    /// Word `index` of the record.
    #[inline(always)]
    pub(crate) fn word(&mut self, index: u32) -> &mut u64 {
        &mut self.record[index as usize & (RECORD_WORDS - 1)]
    }

    /// The stack's word at `address`, from a fresh window.
    #[inline(always)]
    fn refill(&mut self, address: u64) -> Option<u64> {
        self.window_at = address;
        self.window_len = WINDOW as u64;
        if !self.copy_window(address, WINDOW as u32) {
            // The window reaches beyond the stack: only what is left of the page, then.
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
        // SAFETY: `window` has `WINDOW` bytes and `size` is at most as many; a failing read doesn't fault.
        unsafe { bpf_probe_read_user(window, size, address as *const _) == 0 }
    }
}

impl Machine for Scratch {
    const VERIFIED: bool = true;

    #[inline(always)]
    fn block(&self, index: u32) -> Option<&Block> {
        ARENA.get_value(index / CHUNK_BLOCKS, &(index % CHUNK_BLOCKS))
    }

    #[inline(always)]
    fn cached_rule(&self, place: u32, key: u64) -> Option<Rule> {
        let known = &self.rules[slot(place, key)];
        (known.key == key && known.place == place && known.tables == self.tables).then_some(known.rule)
    }

    #[inline(always)]
    fn cache_rule(&mut self, place: u32, key: u64, rule: &Rule) {
        let tables = self.tables;
        self.rules[slot(place, key)] = CachedRule { key, place, tables, rule: *rule };
    }

    #[inline(always)]
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        match self.read_cached(address) {
            None => self.refill(address),
            word => word,
        }
    }

    /// What lies in the window.
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

    #[inline(always)]
    fn thread_pointer(&mut self) -> Option<u64> {
        thread_pointer()
    }

    #[inline(always)]
    fn request_wakeup(&mut self) {
        self.urgent = 1;
    }

    /// When there are more frames than fit, the second half of the buffer goes round: the leaf side stays, and
    /// of the rest the last, which is the root side.
    #[inline(always)]
    fn push_frame(&mut self, frame: u64) {
        self.put(self.walk.words, frame);
    }

    #[inline(always)]
    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        // SAFETY: the helper has no conditions.
        let pid = unsafe { bpf_get_current_pid_tgid() } >> 32;
        let key = function ^ pid << 32 ^ detail & (u32::MAX as u64) << 32;
        let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & (REPORTED - 1);
        if self.reported[place] != key {
            self.reported[place] = key;
            self.urgent = 1;
        }
        self.put(self.walk.words, function);
        self.put(self.walk.words + 1, detail);
    }
}

impl Scratch {
    /// Puts a word of a frame into the record, `number` words after the leaf.
    #[inline(always)]
    fn put(&mut self, number: u32, word: u64) {
        const REST: u32 = (MAX_WORDS - LEAF_WORDS) as u32;
        let slot = if number < MAX_WORDS as u32 { number } else { LEAF_WORDS as u32 + number % REST };
        let at = self.user_at.wrapping_add(slot);
        *self.word(at) = word;
    }
}

/// Where a rule is remembered.
#[inline(always)]
fn slot(place: u32, key: u64) -> usize {
    ((key ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & (RULES - 1)
}

/// The thread pointer of the current thread, as the kernel saved it.
#[inline(always)]
pub(crate) fn thread_pointer() -> Option<u64> {
    let at = CONFIG.get(0)?.fsbase_offset;
    let mut value = 0u64;
    // SAFETY: `value` has eight bytes; the helper fails without a fault.
    let error = unsafe {
        let task = bpf_get_current_task();
        bpf_probe_read_kernel((&raw mut value).cast(), 8, (task + at as u64) as *const _)
    };
    (at != 0 && error == 0).then_some(value)
}
