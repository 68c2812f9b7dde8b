//! Records: what the kernel side sends to user space.
//!
//! ```text
//!   walked   Head | kernel frames: u64 × kernel | labels: u64 × labels | words of user frames: u64 × user
//!   raw      Head | kernel frames: u64 × kernel | labels: u64 × labels | Registers | words of interpreter frames: u64 × user
//!            | stack: u8 × copied
//!   end      Head | End
//! ```
//!
//! The head says its own length: what follows the fields of [`Head`] up to that length is for later versions.
//!
//! A native frame is one word: an address with [`frame`] flags in its top byte. An interpreter frame is two words:
//!
//! ```text
//!   INTERPRETED | GUESSED, for frames on the native stack | interpreter 2 bits at 56 | address of the function, 0 if the frame is not readable
//!   DETAIL      | check 24 bits at 32      | position in the function, 32 bits
//! ```
//!
//! A walker of a runtime may use bits 48 to 55 of the address, which no address of a program has, for a
//! [shape](frame::SHAPE_SHIFT): the kind of its frame.
//!
//! Frames are ordered leaf first. A native frame of an interpreter [`LOOP`](frame::LOOP) is followed by the interpreter
//! frames that it runs.
//!
//! A raw record holds the frames of the process's first interpreter only, copied at once because their memory changes
//! before user space could read it. Each run of frames ends with the word `LOOP`.

use super::registers::Registers;

/// Head of every record. Written by the kernel side, read by user space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Time of the sample, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Process (thread group) id in the initial namespace.
    pub pid: u32,
    /// Thread id in the initial namespace.
    pub tid: u32,
    /// CPU number.
    pub cpu: u32,
    /// One of [`kind`], and its flag.
    pub kind: u8,
    /// Number of a [`Stop`](super::reason::Stop).
    pub stop: u8,
    /// Number of kernel frames that follow, at most [`MAX_KERNEL_FRAMES`].
    pub kernel: u8,
    /// Length of the head in words of eight bytes, at least [`HEAD_WORDS`].
    pub length: u8,
    /// Number of words of user frames that follow, at most [`MAX_WORDS`]; in [`kind::RAW`], of interpreter frames.
    pub user: u32,
    /// Number of words dropped between the leaf side and the root side ([`kind::WALKED`]).
    pub omitted: u32,
    /// Number of words of stack that follow, eight bytes each ([`kind::RAW`]). Pages that could not be read are all zeros.
    pub copied: u16,
    /// Number of the sample's kind (CPU time, off-CPU time, …) in the run: user space assigns them from 0.
    pub event: u16,
    /// Number of user frames that were unwound, dropped ones included ([`kind::WALKED`]).
    pub taken: u32,
    /// Thread name, terminated by a zero byte.
    pub comm: [u8; 16],
    /// Value of the sample, in the unit of its kind.
    pub value: u64,
    /// [Number](super::mapping::Process::epoch) of the published state by which the stack was walked; 0 if there was none.
    pub epoch: u32,
    /// Number of words of [labels](super::labels) that follow the kernel frames.
    pub labels: u8,
    /// [Flags](super::labels::flag) of the labels.
    pub label_flags: u8,
    /// Reserved; must be zero.
    pub reserved: u16,
}

/// Words of eight bytes in the fields of [`Head`].
pub const HEAD_WORDS: usize = size_of::<Head>() / 8;

/// Kinds of records, by what follows the head.
pub mod kind {
    /// A stack that the kernel side unwound.
    pub const WALKED: u8 = 1;
    /// Registers and a copy of the stack, to be unwound in user space.
    pub const RAW: u8 = 2;
    /// The end of a [held](super::super::held) sample.
    pub const END: u8 = 3;
    /// Flag of a sample that is [held](super::super::held) until its end.
    pub const HELD: u8 = 1 << 7;
}

/// The held sample that a record [ends](kind::END), behind its head, which has process, kind and final value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Time of the sample.
    pub time: u64,
    /// CPU of the sample.
    pub cpu: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
}

/// Flags and fields in the words of user frames.
pub mod frame {
    /// Mask of the address.
    pub const ADDRESS: u64 = (1 << 56) - 1;
    /// The address is that of the next instruction, not of a call: the leaf, or a frame that a signal interrupted.
    pub const EXACT: u64 = 1 << 63;
    /// The frame was found without unwind data, by the frame pointer or by scanning the stack.
    pub const GUESSED: u64 = 1 << 62;
    /// The code has no unwind data: code generated at run time, or a file without any.
    pub const BARE: u64 = 1 << 61;
    /// Marks the first word of an interpreter frame.
    pub const INTERPRETED: u64 = 1 << 60;
    /// Marks the second word of an interpreter frame.
    pub const DETAIL: u64 = 1 << 59;
    /// The native frame is one of an interpreter loop.
    pub const LOOP: u64 = 1 << 58;
    /// Lowest bit of the interpreter index in the first word of an interpreter frame.
    pub const INTERPRETER_SHIFT: u32 = 56;
    /// Lowest bit of the shape in the first word of an interpreter frame: eight bits whose meaning is the runtime's.
    pub const SHAPE_SHIFT: u32 = 48;
    /// In the second word of an interpreter frame: the function has the name by which the next frame called it.
    pub const NAMED_BY_CALLER: u64 = 1 << 57;
    /// Mask of a check, after the shift by 32.
    pub const CHECK: u64 = (1 << 24) - 1;
}

/// Maximum number of words of user frames in one record: 2,048 native frames, or 1,024 interpreter frames.
pub const MAX_WORDS: usize = 2048;

/// Number of words kept from the leaf side of a stack that exceeds [`MAX_WORDS`]; the others are from the root side.
pub const LEAF_WORDS: usize = 1024;

/// Number of words of interpreter frames, 8 bytes each, after which a raw record takes no further one; the last frame may
/// exceed it.
pub const MAX_RAW_WORDS: u32 = 1024;

/// Maximum number of kernel frames in one record.
pub const MAX_KERNEL_FRAMES: usize = 127;

/// Maximum number of steps of a walk. After a step, `Walk::run` may emit further native frames, unless that many
/// frames have been emitted already.
pub const MAX_STEPS: u32 = 8192;

/// Maximum number of bytes of stack in a raw record. Few stacks are that large, but a single frame may be.
pub const MAX_COPY: usize = 124 * 1024;

const _: () = {
    assert!(
        size_of::<Head>() == 72 && MAX_KERNEL_FRAMES <= u8::MAX as usize && MAX_COPY / 8 <= u16::MAX as usize
    );
    assert!(size_of::<Registers>().is_multiple_of(8) && size_of::<End>() == 16);
};
