//! What a CPU works with during one tick, and how a walker sees the machine from there.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use ebpf_programs::abi::arena::{Block, CHUNK_BLOCKS};
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::record::{LEAF_FRAMES, MAX_FRAMES, Tick};
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::Walk;

use crate::maps::ARENA;
use crate::raw::Copy;

/// Bytes of stack that are copied at a time. One copy of this size costs little more than one of a word.
const WINDOW: usize = 2048;

/// Words of eight bytes in the record buffer; a power of two, so that an index can be masked.
pub(crate) const RECORD_WORDS: usize = 8192;

/// Where frames begin in a record.
pub(crate) const TICK_WORDS: u32 = (size_of::<Tick>() / 8) as u32;

/// A page, the step in which the stack is copied into a raw record.
pub(crate) const PAGE: usize = 4096;

/// The memory of one CPU.
#[repr(C, align(8))]
pub(crate) struct Scratch {
    /// The walk on its way.
    pub(crate) walk: Walk,
    /// Where the copied window of the stack begins.
    window_at: u64,
    /// How many bytes of it were copied.
    window_len: u64,
    /// The copied window.
    window: [u64; WINDOW / 8],
    /// The record that is being put together, with room behind it for one page beyond any masked index.
    pub(crate) record: [u64; RECORD_WORDS + PAGE / 8],
    /// Where user frames begin in it.
    pub(crate) user_at: u32,
    /// A [`Stop`](ebpf_programs::abi::reason::Stop) by number.
    pub(crate) stop: u32,
    /// The copy for a raw record on its way.
    pub(crate) copy: Copy,
}

impl Scratch {
    /// Forgets what an earlier tick left, and prepares to walk through `process`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, process: Process) {
        self.window_len = 0;
        self.walk.begin();
        self.walk.process = process;
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
    #[inline(always)]
    fn block(&self, index: u32) -> Option<&Block> {
        ARENA.get_value(index / CHUNK_BLOCKS, &(index % CHUNK_BLOCKS))
    }

    #[inline(always)]
    fn stack(&mut self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.window_at);
        if offset & 7 == 0 && offset < self.window_len {
            return Some(self.window[(offset / 8) as usize & (WINDOW / 8 - 1)]);
        }
        self.refill(address)
    }

    #[inline(always)]
    fn memory(&mut self, address: u64) -> Option<u64> {
        let mut value = 0u64;
        // SAFETY: `value` has eight bytes; the helper fails without a fault.
        let error = unsafe { bpf_probe_read_user((&raw mut value).cast(), 8, address as *const _) };
        (error == 0).then_some(value)
    }

    /// When there are more frames than fit, the second half of the buffer goes round: the leaf side stays, and
    /// of the rest the last, which is the root side.
    #[inline(always)]
    fn frame(&mut self, frame: u64) {
        const REST: u32 = (MAX_FRAMES - LEAF_FRAMES) as u32;
        let taken = self.walk.taken;
        let slot = if taken < MAX_FRAMES as u32 { taken } else { LEAF_FRAMES as u32 + taken % REST };
        let at = self.user_at.wrapping_add(slot);
        *self.word(at) = frame;
    }
}
