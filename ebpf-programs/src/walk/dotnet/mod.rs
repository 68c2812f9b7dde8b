//! Frames of .NET's code; see [`abi::dotnet`](crate::abi::dotnet).
//!
//! ```text
//!   START ──► cached, or FRAGMENT ──► NIBBLES ──► ENTRIES ──► CODES: rule, cached
//!     ▲          map of ranges          │           ▲           │
//!     │                                 │ precompiled ┘         │
//!     └──────── the caller ◄────────────┴── STUB                ▼
//!                    ▲──────────────────────────────── emits the frame
//!                    └── HIJACKED: searches the original of a return address that the runtime has replaced
//! ```
//!
//! Unwind codes are those of Windows: each says how many bytes an instruction of the prologue puts on the stack, and how far the frame
//! pointer is from the stack pointer if the stack pointer moves behind the prologue. Half of all precompiled methods don't save the frame
//! pointer. The others save it first and let it point there. A handler of exceptions has the frame pointer of its method: the method's
//! caller follows, and the runtime's frames between both are left out. In precompiled code of .NET 10 nothing tells a handler from a
//! method, and these frames and the method's own are shown.
//!
//! | at | canonical frame address |
//! | --- | --- |
//! | prologue | rsp + 8 + bytes of the instructions before |
//! | method that moves the stack pointer | rbp + 8 + bytes of the prologue - distance |
//! | handler of exceptions: rbp is above its frame | rbp + 16 |
//! | other method | rsp + 8 + bytes of the prologue |
//! | `pop …; ret` | rsp + 8 + bytes popped |
//! | jump behind `pop` or `add rsp, n`; a stub | rsp + 8 |

mod caller;

mod codes;

mod entries;

mod hijack;

mod nibbles;

mod ranges;

use super::Walk;
use super::arch::Arch;
use crate::abi::reason::Stop;
use crate::machine::Machine;
use caller::{cached, stub, unwind};

/// State of the walker.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DotnetState {
    /// One of [`phase`].
    phase: u32,
    /// Number of steps of the current phase.
    steps: u32,
    /// Address of a fragment, of the word of nibbles that is read next, or of the link to a thread.
    at: u64,
    /// Start of the range section: unwind entries are relative to it.
    base: u64,
    /// First and last index of a search.
    first: u64,
    last: u64,
    /// The unwind entries that are searched.
    entries: u64,
    /// Start of the method; 0 for precompiled code.
    start: u64,
    /// Nibbles of the current word that are left, lowest next, and the offset of the bytes that the lowest one stands for.
    nibbles: u64,
    offset: u64,
    /// Address that the nibbles begin with.
    heap: u64,
    /// Unwind codes: number left that belong to the previous one, its kind, and bytes of the instructions before `pc`.
    operands: u32,
    operand: u32,
    bytes: u64,
    /// Distance from the stack pointer to the frame pointer when it is set.
    fp_distance: u64,
    /// [`codes::SAVES_FP`] and others; 1 if the frame pointer of a hijacked method's caller is known.
    flags: u64,
    /// Address of the unwind codes that are read next.
    codes: u64,
    /// Address of a return address that was replaced, and the caller's frame pointer.
    word: u64,
    fp: u64,
    /// Check of the method, or hash of its code.
    check: u32,
    /// Distance from the start of the entry.
    distance: u32,
}

/// Operations of the next step.
mod phase {
    /// Looks at a new frame.
    pub(super) const START: u32 = 0;
    /// Searches the fragments of a range of addresses.
    pub(super) const FRAGMENT: u32 = 1;
    /// Searches the nibbles for the start of the method.
    pub(super) const NIBBLES: u32 = 2;
    /// Searches the unwind entries.
    pub(super) const ENTRIES: u32 = 3;
    /// Reads the unwind codes.
    pub(super) const CODES: u32 = 4;
    /// Code that the runtime generates.
    pub(super) const STUB: u32 = 5;
    /// No code of a method.
    pub(super) const UNKNOWN: u32 = 6;
    /// Searches the original of a return address that was replaced.
    pub(super) const HIJACKED: u32 = 7;
}

impl DotnetState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.phase = phase::START;
    }

    #[inline(always)]
    fn enter(&mut self, phase: u32) {
        (self.phase, self.steps) = (phase, 0);
    }
}

/// Takes a step at the frame at `pc`. Returns `false` if it is no code of .NET.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    walk.dotnet.steps += 1;
    match walk.dotnet.phase {
        phase::START => {
            if let Some(rule) = cached(walk, machine, pc) {
                return unwind::<A, M>(walk, machine, pc, &rule);
            }
            walk.dotnet.enter(phase::UNKNOWN);
            ranges::levels(walk, machine, pc);
        }
        phase::FRAGMENT => ranges::fragment(walk, machine, pc),
        phase::NIBBLES => nibbles::nibbles(walk, machine, pc),
        phase::ENTRIES => entries::search(walk, machine, pc),
        phase::CODES => {
            if let Some(rule) = codes::codes(walk, machine, pc) {
                return unwind::<A, M>(walk, machine, pc, &rule);
            }
        }
        phase::HIJACKED => return hijack::step::<A, M>(walk, machine),
        other => return stub::<A, M>(walk, machine, pc, other == phase::STUB),
    }
    Ok(true)
}

#[inline(always)]
fn parameter(walk: &Walk, index: usize) -> u64 {
    walk.interpreter.parameters[index]
}

#[cfg(test)]
mod tests;
