//! What leaves the kernel through the ring buffer.
//!
//! ```text
//!   walked   Tick | kernel frames: u64 × kernel | user frames: u64 × user
//!   raw      Tick | kernel frames: u64 × kernel | Registers | stack: u8 × copied
//! ```
//!
//! A user frame is an address with [`frame`] flags in its top byte, leaf first.

use super::registers::Registers;

/// The head of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
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
    /// How many user frames follow ([`kind::WALKED`]).
    pub user: u32,
    /// How many user frames were left out between the two halves of the buffer.
    pub omitted: u32,
    /// How many bytes of stack follow ([`kind::RAW`]).
    pub copied: u32,
    /// Zero.
    pub reserved: u32,
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
}

/// User frames at most in one record.
pub const MAX_FRAMES: usize = 1024;

/// Of those, how many are kept from the leaf side when there are more.
pub const LEAF_FRAMES: usize = 512;

/// Kernel frames at most in one record.
pub const MAX_KERNEL_FRAMES: usize = 127;

/// Frames that a walk visits at most.
pub const MAX_STEPS: u32 = 8192;

/// Bytes of stack at most in a raw record.
pub const MAX_COPY: usize = 64 * 1024;

const _: () = {
    assert!(size_of::<Tick>() == 56);
    assert!(size_of::<Registers>().is_multiple_of(8));
};
