//! What a walker may ask of whatever runs it.

use crate::abi::arena::{BLOCK_WORDS, Block};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::table::Rule;

/// The world of a walk: the sampling program in the kernel, a recorded sample, a core dump, a live process.
///
/// Every answer may be wrong or missing; the walker holds it against the others and gives up with a reason.
pub trait Machine {
    /// Whether the kernel's verifier follows every way through a walk before it lets it run. Then searches go by halves, from
    /// block to block, and a run takes only what is remembered.
    const VERIFIED: bool = false;

    /// The words of the [arena](crate::abi::arena), where the tables lie, from number `word` on: as many as there are in one
    /// piece, which ends where a block ends. Machines without tables have none.
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        let _ = word;
        None
    }

    /// Block `index` of the arena.
    fn block(&self, index: u32) -> Option<&Block> {
        self.words_from(index.checked_mul(BLOCK_WORDS as u32)?)?.first_chunk()
    }

    /// The rule of the table at `place` that was remembered under `key`. Machines without memory never know any.
    fn cached_rule(&self, place: u32, key: u64) -> Option<Rule> {
        let _ = (place, key);
        None
    }

    /// Remembers a rule, as most walks meet what one before them met.
    fn cache_rule(&mut self, place: u32, key: u64, rule: &Rule) {
        let _ = (place, key, rule);
    }

    /// Eight bytes of the walked thread's stack. Walks read upwards, in small steps.
    fn read_stack(&mut self, address: u64) -> Option<u64>;

    /// The same, if it costs next to nothing.
    fn read_cached(&mut self, address: u64) -> Option<u64> {
        self.read_stack(address)
    }

    /// Eight bytes anywhere in the walked program, at any alignment: a rare question, asked of code.
    fn read_memory(&mut self, address: u64) -> Option<u64>;

    /// `size` bytes anywhere in the walked program, as words; what lies behind them in the answer means nothing.
    /// Machines without scripts have none.
    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let _ = (address, size);
        None
    }

    /// Where the thread's own variables begin.
    fn thread_pointer(&mut self) -> Option<u64> {
        None
    }

    /// Something was met that user space had better look at soon.
    fn request_wakeup(&mut self) {}

    /// Takes the next frame, leaf first: an address and [`frame`](crate::abi::record::frame) flags.
    fn push_frame(&mut self, frame: u64);

    /// Takes the next call in a script: the two words of its [frame](crate::abi::record).
    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        let _ = (function, detail);
    }
}
