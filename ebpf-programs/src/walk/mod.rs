//! From a frame to its caller, again and again.
//!
//! ```text
//!   registers ──► mapping ──► row ──► rule ──► registers of the caller
//!                    │          │
//!                    │          └─ no data: frame_pointer (guess, check, mark)
//!                    ├─ no table: frame_pointer, or stop
//!                    └─ an interpreter's loop: interpreter (calls of its list, then on)
//! ```
//!
//! [`Walk::step`] takes one frame and knows nothing of the loop that drives it: `bpf_loop` in the kernel, a
//! plain loop on the host. [`Walk::run`] may follow each step: most frames are left by the same kind of rule, and these few lines
//! take them in half the time; in the kernel, where rules are remembered, those like one that was met before.

pub mod arch;

mod arena;

mod frame_pointer;

mod interpreter;

mod native;

mod table;

use crate::abi::mapping::{Mapping, Process, kind};
use crate::abi::reason::Stop;
use crate::abi::record::{MAX_STEPS, frame};
use crate::abi::registers::Registers;
use crate::machine::Machine;
use arch::Arch;
use interpreter::{InterpreterState, phase};
use table::Table;

pub use arena::find_mapping;
pub use table::find_rule;

/// How often a walk may go to a lower address.
const MAX_SWITCHES: u32 = 4;

/// How many frames a run takes at most where a [verifier](Machine::VERIFIED) looks on, and where none does.
const RUN: [u32; 2] = [8, 64];

/// The first addresses, where nothing can be mapped by whoever hasn't asked the administrator.
const NULL_PAGE: u64 = 4096;

/// Whether an address is a null pointer.
#[inline(always)]
fn is_null(address: u64) -> bool {
    address < NULL_PAGE
}

/// A walk on its way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// The registers in the current frame.
    pub registers: Registers,
    /// The process that is walked.
    pub process: Process,
    /// Flags of the current frame: how it was found.
    pub flags: u64,
    /// Frames taken so far.
    pub taken: u32,
    /// Words that they take.
    pub words: u32,
    /// Frames taken that were found by guessing.
    pub guessed: u32,
    /// How often the walk went to a lower address.
    switches: u32,
    /// The number of the next guess for the caller of the current frame, from 1 on; 0 where nothing is guessed.
    guesses: u32,
    /// The mapping of the frame before, which is the current one's too more often than not.
    mapping: Mapping,
    /// The head of the table that was searched last.
    table: Table,
    /// The calls in scripts.
    interpreter: InterpreterState,
}

impl Walk {
    /// Prepares for a walk from `self.registers` through `self.process`.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.flags = frame::EXACT;
        self.taken = 0;
        self.words = 0;
        self.guessed = 0;
        self.switches = 0;
        self.guesses = 0;
        self.mapping = Mapping::default();
        self.table.begin();
        self.interpreter.begin();
    }

    /// Takes the current frame and goes to its caller's; `Some` when the walk is over.
    #[inline(always)]
    pub fn step<A: Arch, M: Machine>(&mut self, machine: &mut M) -> Option<Stop> {
        self.try_step::<A, M>(machine).err()
    }

    /// Takes a few further frames, as long as all that [`step`](Walk::step) would do is to apply a rule of the usual kind, one
    /// that is remembered where a [verifier](Machine::VERIFIED) looks on, to words that are at hand.
    ///
    /// Never needed, and the frames are the same without it. It is for what stands behind a step: in front of one the
    /// verifier would follow all ways through the step for each frame that may have been taken before.
    #[inline(always)]
    pub fn run<A: Arch, M: Machine>(&mut self, machine: &mut M) {
        let is_usual = self.flags == 0 && self.interpreter.phase == phase::OUTSIDE && self.guesses == 0;
        let is_native = self.mapping.kind == kind::TABLE && self.mapping.interpreter == 0;
        if !is_usual || !is_native || self.taken >= MAX_STEPS {
            return;
        }
        let [few, more] = RUN;
        for _ in 0..if M::VERIFIED { few } else { more } {
            if native::usual::<A, M>(self, machine).is_none() {
                return;
            }
        }
    }

    /// Prepares to take the calls of the process's first interpreter alone; false where it has none.
    #[inline(always)]
    pub fn begin_interpreter_frames(&mut self) -> bool {
        interpreter::begin_interpreter_frames(self)
    }

    /// Takes the next of them, or the word behind a run; whether there are no more.
    #[inline(always)]
    pub fn step_interpreter_frames<M: Machine>(&mut self, machine: &mut M) -> bool {
        interpreter::step_interpreter_frames(self, machine)
    }

    #[inline(always)]
    fn try_step<A: Arch, M: Machine>(&mut self, machine: &mut M) -> Result<(), Stop> {
        // A return address lies behind its call, perhaps already in the next function.
        let behind = if self.flags & frame::EXACT == 0 { 1 } else { 0 };
        let pc = (self.registers.pc & frame::ADDRESS).wrapping_sub(behind);
        // What nearly every step does comes first.
        match self.interpreter.phase {
            phase::OUTSIDE if self.guesses == 0 => {
                if self.emit(machine, pc)? {
                    interpreter::enter(self, machine);
                    return Ok(());
                }
            }
            phase::HOPPING
            | phase::TAKING
            | phase::COMPARING
            | phase::SEARCHING
            | phase::FIRST..=phase::NEXT => {
                interpreter::step(self, machine);
                return Ok(());
            }
            _ if self.guesses != 0 => return frame_pointer::guess::<A, M>(self, machine, pc),
            // Behind the calls of a loop, whose own frame is taken already.
            _ => self.interpreter.phase = phase::OUTSIDE,
        }
        let rule = match self.mapping.kind {
            kind::TABLE => native::rule(self, machine, pc)?,
            kind::BARE => None,
            _ => return Err(Stop::Pending),
        };
        match rule {
            Some(rule) => native::apply::<A, M>(self, machine, pc, &rule),
            None => {
                self.guesses = 1;
                Ok(())
            }
        }
    }

    /// Takes the native frame at `pc`; whether it is one of an interpreter's loop.
    #[inline(always)]
    fn emit<M: Machine>(&mut self, machine: &mut M, pc: u64) -> Result<bool, Stop> {
        if pc.wrapping_sub(self.mapping.start) >= self.mapping.end.wrapping_sub(self.mapping.start) {
            let none = self.null_call_at(pc);
            self.mapping = find_mapping(machine, &self.process, pc).or(none).ok_or(Stop::Unmapped)?;
        }
        let bare = if self.mapping.kind == kind::BARE { frame::BARE } else { 0 };
        let is_loop = self.mapping.interpreter != 0 && interpreter::is_loop(self, machine, pc);
        machine.push_frame(pc | self.flags | bare | if is_loop { frame::LOOP } else { 0 });
        self.taken += 1;
        self.words += 1;
        Ok(is_loop)
    }

    /// What stands for a mapping where a null pointer was called: code without unwind data.
    #[inline(always)]
    fn null_call_at(&self, pc: u64) -> Option<Mapping> {
        let is_called = self.flags & frame::EXACT != 0 && is_null(pc);
        is_called.then_some(Mapping { end: NULL_PAGE, kind: kind::BARE, ..Mapping::default() })
    }

    /// The mapping that `pc` lies in.
    #[inline(always)]
    fn mapping_of<M: Machine>(&self, machine: &M, pc: u64) -> Option<Mapping> {
        if pc.wrapping_sub(self.mapping.start) < self.mapping.end.wrapping_sub(self.mapping.start) {
            return Some(self.mapping);
        }
        find_mapping(machine, &self.process, pc)
    }

    /// The value of a register, if it is known in this frame.
    #[inline(always)]
    fn register(&self, number: u8) -> Option<u64> {
        let number = (number & 31) as usize;
        if self.registers.known >> number & 1 == 0 {
            return None;
        }
        Some(self.registers.values[number])
    }

    /// Goes to the caller's frame: only the program counter and the two pointers are known there.
    #[inline(always)]
    fn enter_caller<A: Arch>(&mut self, pc: u64, sp: u64, fp: Option<u64>) -> Result<(), Stop> {
        if A::strip(pc) == 0 {
            return Err(Stop::Root);
        }
        self.set_frame::<A>(pc, sp, fp)
    }

    /// The same, also where the program counter is 0.
    #[inline(always)]
    fn set_frame<A: Arch>(&mut self, pc: u64, sp: u64, fp: Option<u64>) -> Result<(), Stop> {
        let before = self.registers.values[A::SP];
        if sp < before {
            // Onto another stack: the scheduler's of Go, the one behind a signal handler's. A walk that does
            // this again and again goes in circles.
            self.switches += 1;
            if self.switches > MAX_SWITCHES {
                return Err(Stop::NoProgress);
            }
        } else if sp == before && self.flags & frame::EXACT == 0 {
            // Only a leaf has no frame of its own: on arm64, and where a jump leads to the handler of an exception.
            return Err(Stop::NoProgress);
        }
        self.registers.pc = A::strip(pc);
        self.registers.values[A::SP] = sp;
        self.registers.known = 1 << A::SP;
        if let Some(fp) = fp {
            self.registers.values[A::FP] = fp;
            self.registers.known |= 1 << A::FP;
        }
        Ok(())
    }
}
