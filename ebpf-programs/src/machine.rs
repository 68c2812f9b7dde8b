//! The trait through which a walker reads memory, tables and cached rules, and emits frames.

use crate::abi::arena::{BLOCK_WORDS, Block};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::table::Rule;
use crate::abi::uretprobe::ReplacedReturn;

/// Environment of a walk: the kernel side, a recorded sample, a core dump, a live process.
///
/// Any answer may be wrong or missing; the walker checks it and stops with a reason.
pub trait Machine {
    /// `true` if the kernel's verifier follows all paths through a walk. Then searches are binary and go through
    /// [`block`](Machine::block)s, and a [run](crate::walk::Walk::run) takes only cached rules.
    const VERIFIED: bool = false;

    /// Returns `true` if the walker with this [number](crate::abi::interpreter::walker) may be used. In the kernel a constant
    /// of the loaded program, so that the verifier doesn't see the others.
    fn has_walker(number: u32) -> bool {
        let _ = number;
        true
    }

    /// Returns the words of the [arena](crate::abi::arena) from number `word` on, as far as they are contiguous in memory, at
    /// least to the end of a block. `None` beyond the arena, and for machines without tables.
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        let _ = word;
        None
    }

    /// Returns block `index` of the arena.
    fn block(&self, index: u32) -> Option<&Block> {
        self.words_from(index.checked_mul(BLOCK_WORDS as u32)?)?.first_chunk()
    }

    /// Returns the rule that was cached under `key` for the table at arena offset `place`.
    fn cached_rule(&self, place: u32, key: u64) -> Option<Rule> {
        let _ = (place, key);
        None
    }

    /// Caches a rule, because most walks pass through the same code as earlier ones.
    fn cache_rule(&mut self, place: u32, key: u64, rule: &Rule) {
        let _ = (place, key, rule);
    }

    /// Reads eight bytes of the walked thread's stack. Walks read upwards, in small steps.
    fn read_stack(&mut self, address: u64) -> Option<u64>;

    /// Reads eight bytes of the stack if that costs next to nothing; `None` otherwise.
    fn read_cached(&mut self, address: u64) -> Option<u64> {
        self.read_stack(address)
    }

    /// Reads eight bytes of any memory of the walked process, at any alignment. Rare: used for code and interpreters.
    fn read_memory(&mut self, address: u64) -> Option<u64>;

    /// Reads `size` bytes, at most [`FRAME_BYTES`], of any memory of the walked process. The bytes after them in the answer
    /// have no meaning. Not needed without interpreters.
    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let _ = (address, size);
        None
    }

    /// Reads `size` bytes of the walked thread's stack, at most [`FRAME_BYTES`], as [`read_object`](Machine::read_object) does.
    fn read_frame(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        self.read_object(address, size)
    }

    /// Returns the thread pointer of the walked thread.
    fn thread_pointer(&mut self) -> Option<u64> {
        None
    }

    /// Returns the address of the page in which the kernel has the trampoline of [uretprobes](crate::abi::uretprobe), and copies of
    /// probed instructions; `None` if the process has none.
    fn uprobes_page(&mut self) -> Option<u64> {
        None
    }

    /// Returns the address of the instruction whose copy the walked thread executes at `pc`.
    fn original_instruction(&mut self, pc: u64) -> Option<u64> {
        let _ = pc;
        None
    }

    /// Returns the address of the newest instance of a return address that a uretprobe has replaced; `None` if there is none.
    fn first_replaced(&mut self) -> Option<u64> {
        None
    }

    /// Returns the instance at `address`, which another one or [`first_replaced`](Machine::first_replaced) gave.
    fn replaced(&mut self, address: u64) -> Option<ReplacedReturn> {
        let _ = address;
        None
    }

    /// Copies `size` bytes of any memory of the walked process to the first words of `to`. Returns `false` if they are not readable or
    /// don't fit.
    fn read_words<const N: usize>(&mut self, to: &mut [u64; N], address: u64, size: u32) -> bool {
        let _ = (to, address, size);
        false
    }

    /// Copies `size` bytes of any memory of the walked process, at most [`MAX_WORDS`](crate::abi::labels::MAX_WORDS) words, to the
    /// words of labels, from number `at` on. Returns `false` if they are not readable.
    fn copy_label(&mut self, at: u32, address: u64, size: u32) -> bool {
        let _ = (at, address, size);
        false
    }

    /// Stores a word of labels.
    fn put_label_word(&mut self, at: u32, word: u64) {
        let _ = (at, word);
    }

    /// Requests that user space is woken soon, because the walk reached an interpreter whose path is
    /// [unknown](crate::abi::interpreter::from::UNKNOWN).
    fn request_wakeup(&mut self) {}

    /// Receives the next frame, leaf first: an address with [`frame`](crate::abi::record::frame) flags.
    fn push_frame(&mut self, frame: u64);

    /// Receives the next interpreter frame: its two [words](crate::abi::record).
    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        let _ = (function, detail);
    }
}
