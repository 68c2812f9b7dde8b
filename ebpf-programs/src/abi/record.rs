//! What leaves the kernel.
//!
//! ```text
//!   walked   Head | kernel frames: u64 × kernel | words of user frames: u64 × user
//!   raw      Head | kernel frames: u64 × kernel | Registers | words of calls: u64 × user | stack: u8 × copied
//! ```
//!
//! A native frame is one word: an address with [`frame`] flags in its top byte. A call in a script is two:
//!
//! ```text
//!   INTERPRETED   | interpreter 2 bits at 56 | address of the function, 0 where the frame can't be read
//!   DETAIL | check 24 bits at 32      | position in the function, 32 bits
//! ```
//!
//! All of them stand leaf first. Behind a native frame that is an interpreter's [`LOOP`](frame::LOOP) follow the calls
//! that it runs.
//! A raw record has the calls of the process's first interpreter alone: their memory has changed by the time that
//! anyone else looks. Behind each run stands the word `LOOP`.

use super::registers::Registers;

/// The head of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The process (thread group) id, in the initial namespace.
    pub pid: u32,
    /// The thread id, in the initial namespace.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// A [`Stop`](super::reason::Stop) by number.
    pub stop: u8,
    /// How many kernel frames follow.
    pub kernel: u16,
    /// How many words of user frames follow, or of calls ([`kind::RAW`]).
    pub user: u32,
    /// How many words were left out between the two halves of the buffer.
    pub omitted: u32,
    /// How many bytes of stack follow ([`kind::RAW`]).
    pub copied: u32,
    /// How many user frames were taken, of which some may be left out ([`kind::WALKED`]).
    pub taken: u32,
    /// The thread's name, ended by a zero byte.
    pub comm: [u8; 16],
}

/// What a record carries behind its head.
pub mod kind {
    /// A stack that the kernel side walked.
    pub const WALKED: u8 = 1;
    /// Registers and a piece of the stack, to be walked in user space.
    pub const RAW: u8 = 2;
}

/// Bits of a user frame above its address.
pub mod frame {
    /// The bits that are the address.
    pub const ADDRESS: u64 = (1 << 56) - 1;
    /// The address is that of an instruction that was about to run, not a return address.
    pub const EXACT: u64 = 1 << 63;
    /// The frame was found through the frame pointer, without unwind data.
    pub const GUESSED: u64 = 1 << 62;
    /// The frame lies in code without a file behind it.
    pub const BARE: u64 = 1 << 61;
    /// The first word of a call in a script.
    pub const INTERPRETED: u64 = 1 << 60;
    /// The second word of a call in a script.
    pub const DETAIL: u64 = 1 << 59;
    /// The frame is one of an interpreter's loop.
    pub const LOOP: u64 = 1 << 58;
    /// Where in the first word of a call the number of the interpreter stands.
    pub const INTERPRETER_SHIFT: u32 = 56;
    /// The bits of a check.
    pub const CHECK: u64 = (1 << 24) - 1;
}

/// Words of user frames at most in one record: 2,048 native frames, or 1,024 calls.
pub const MAX_WORDS: usize = 2048;

/// Of those, how many are kept from the leaf side when there are more.
pub const LEAF_WORDS: usize = 1024;

/// Words of calls at most in a raw record, but for one call more.
pub const MAX_RAW_WORDS: u32 = 1024;

/// Kernel frames at most in one record.
pub const MAX_KERNEL_FRAMES: usize = 127;

/// Steps of a walk at most. Frames that come in runs are no steps, but there are none any more behind as many frames.
pub const MAX_STEPS: u32 = 8192;

/// Bytes of stack at most in a raw record.
pub const MAX_COPY: usize = 60 * 1024;

const _: () = {
    assert!(size_of::<Head>() == 56);
    assert!(size_of::<Registers>().is_multiple_of(8));
};
