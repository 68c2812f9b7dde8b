//! Walking a stack: from a frame to its caller, until the root or a reason to stop.
//!
//! ```text
//!   registers ──► mapping ──► row ──► rule ──► registers of the caller
//!                    │          │
//!                    │          └─ no data: frame_pointer (guess, check, mark)
//!                    ├─ no table: frame_pointer, or stop
//!                    ├─ none, but the trampoline of uretprobes: uretprobe (the original return address)
//!                    ├─ code of a runtime: the runtime's walker
//!                    └─ an interpreter loop: interpreter (frames of its list, then the caller)
//! ```
//!
//! [`Walk::step`] unwinds one frame and is independent of the loop that drives it: `bpf_loop` in the kernel, a plain loop on
//! the host. Each step may be followed by [`Walk::run`], which takes frames with a plain rule in half the time; in the
//! kernel only those whose rule is cached.
//!
//! # Examples
//!
//! A walk over constructed tables and a constructed stack, on the host. The same code runs in the sampling interrupt:
//!
//! ```
//! use ebpf_programs::abi::arena::BLOCK_WORDS;
//! use ebpf_programs::abi::{VERSION, mapping::Process, reason::Stop, record::frame, registers::x86_64};
//! use ebpf_programs::{machine::Machine, walk::Walk, walk::arch::X86_64};
//!
//! /// One block of tables, and a stack that starts at 0x7000.
//! struct World { tables: [u32; BLOCK_WORDS], stack: Vec<u64>, frames: Vec<u64> }
//!
//! impl Machine for World {
//!     fn words_from(&self, word: u32) -> Option<&[u32]> {
//!         self.tables.get(word as usize..)
//!     }
//!     fn read_stack(&mut self, address: u64) -> Option<u64> {
//!         self.stack.get(address.checked_sub(0x7000)? as usize / 8).copied()
//!     }
//!     fn read_memory(&mut self, address: u64) -> Option<u64> {
//!         self.read_stack(address) // only for code without unwind data, and for interpreters
//!     }
//!     fn push_frame(&mut self, frame: u64) {
//!         self.frames.push(frame & frame::ADDRESS);
//!     }
//! }
//!
//! let mut tables = [0; BLOCK_WORDS];
//! // Arena offset 0, a mapping: start, end, bias (low word first), arena offset of its table, kind::TABLE.
//! tables[..8].copy_from_slice(&[0x400000, 0, 0x401000, 0, 0xffc00000, 0xffffffff, 1, 1]);
//! // Arena offset 1, a table: base, pages, rules, rows, size, version and bits of a page; a row before all others
//! tables[16..24].copy_from_slice(&[0, 0, 1, 4, 3, 124, 16 << 16 | VERSION, 0]);
//! tables[24..27].copy_from_slice(&[1 << 16, 2 << 16 | 0x100, 3 << 16 | 0x200]); // rows from 0, 0x100, 0x200 on
//! tables[32..36].copy_from_slice(&[0x0703, 16, 0, 0]); // rule 1: cfa = rsp + 16, ra = [cfa - 8]
//! tables[36..40].copy_from_slice(&[0x0703, 32, 0, 0]); // rule 2: cfa = rsp + 32, ra = [cfa - 8]
//! tables[40] = 2; // rule 3: the outermost frame
//! tables[44..46].copy_from_slice(&[8, 60]); // a group: its rows start at index 8, its pages at index 60
//! tables[46] = 11 << 16 | 8; // the page has rows 8 to 11
//!
//! let mut world = World { tables, stack: vec![0, 0x400123, 0, 0, 0, 0x400205], frames: vec![] };
//! let mut walk = Walk::default();
//! walk.process = Process { mappings: 0, count: 1, ..Process::default() };
//! walk.registers.pc = 0x400010;
//! walk.registers.values[x86_64::SP] = 0x7000;
//! walk.registers.known = 1 << x86_64::SP;
//! walk.begin();
//! let stop = loop {
//!     if let Some(stop) = walk.step::<X86_64, _>(&mut world) {
//!         break stop;
//!     }
//! };
//! assert_eq!(world.frames, [0x400010, 0x400122, 0x400204]); // callers: the last byte of the call
//! assert_eq!(stop, Stop::Root);
//! ```

pub mod arch;

mod arena;

mod beam;

mod compiled;

mod dotnet;

mod frame_pointer;

mod interpreter;

mod labels;

mod native;

#[doc(hidden)]
pub mod identity;

mod hotspot;

mod luajit;

mod php;

mod ruby;

mod runtime;

mod table;

mod uretprobe;

mod v8;

use crate::abi::mapping::{Mapping, Process, kind};
use crate::abi::reason::Stop;
use crate::abi::record::{MAX_STEPS, frame};
use crate::abi::registers::Registers;
use crate::machine::Machine;
use arch::Arch;
use beam::BeamState;
use dotnet::DotnetState;
use hotspot::HotSpotState;
use identity::Checked;
use interpreter::{InterpreterState, phase};
use table::Table;
use uretprobe::ReplacedReturns;

pub use arena::find_mapping;
pub use labels::{LABEL_STEPS, LabelReader};
pub use table::find_rule;

/// Maximum number of switches to a lower stack address in one walk.
const MAX_SWITCHES: u32 = 4;

/// Maximum number of frames in a run: [verified](Machine::VERIFIED), and not.
const RUN: [u32; 2] = [8, 64];

/// End of the addresses that unprivileged programs cannot map (default of `vm.mmap_min_addr`).
const NULL_PAGE: u64 = 4096;

/// Returns `true` if an address is a null pointer, or a small offset from one.
#[inline(always)]
fn is_null(address: u64) -> bool {
    address < NULL_PAGE
}

/// State of a walk.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// Registers at the current frame.
    pub registers: Registers,
    /// Process of the walked thread.
    pub process: Process,
    /// [Flags](frame) of the current frame.
    pub flags: u64,
    /// Number of frames emitted so far.
    pub taken: u32,
    /// Number of words that they occupy.
    pub words: u32,
    /// Number of frames found without unwind data.
    pub guessed: u32,
    /// Number of switches to a lower stack address.
    switches: u32,
    /// Number of the next guess for the current frame's caller, from 1; 0 if its caller is not guessed.
    guesses: u32,
    /// Mapping of the previous frame; usually the current frame is in it, too.
    mapping: Mapping,
    /// Header of the table that was searched last.
    table: Table,
    /// State of the interpreter frames.
    interpreter: InterpreterState,
    /// State of the walker of HotSpot's frames.
    hotspot: HotSpotState,
    /// State of the walker of BEAM's frames.
    beam: BeamState,
    /// State of the walker of .NET's frames.
    dotnet: DotnetState,
    /// State of the search for return addresses that uretprobes have replaced.
    uretprobe: ReplacedReturns,
    /// Checks of functions that were read.
    checked: Checked,
}

impl Walk {
    /// Prepares a walk from `self.registers` through `self.process`.
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
        self.hotspot.begin();
        self.beam.begin();
        self.dotnet.begin();
        self.uretprobe.begin();
        self.checked.begin();
    }

    /// Emits the current frame and unwinds to its caller. Returns the stop reason when the walk ends.
    #[inline(always)]
    pub fn step<A: Arch, M: Machine>(&mut self, machine: &mut M) -> Option<Stop> {
        match self.try_step::<A, M>(machine) {
            Err(Stop::Unmapped) if uretprobe::begin::<A, M>(self, machine) => None,
            result => result.err(),
        }
    }

    /// Emits further frames while they have a plain rule and the words that it reads are cached. In the kernel the rule must
    /// be cached too.
    ///
    /// Optional after each [`step`](Walk::step): the frames are the same without it. It must not precede a step, because the
    /// verifier would follow all paths through the step once per frame of the run.
    #[inline(always)]
    pub fn run<A: Arch, M: Machine>(&mut self, machine: &mut M) {
        let is_plain = self.flags == 0 && self.interpreter.phase == phase::OUTSIDE && self.guesses == 0;
        let is_native = self.mapping.kind == kind::TABLE && self.mapping.interpreter == 0;
        if !is_plain || !is_native || self.taken >= MAX_STEPS {
            return;
        }
        let [few, more] = RUN;
        for _ in 0..if M::VERIFIED { few } else { more } {
            if native::run::<A, M>(self, machine).is_none() {
                return;
            }
        }
    }

    /// Returns `true` if a sample that ended with `stop` takes one from the [budget](Process::raw_budget) when it is sent raw.
    #[inline(always)]
    pub fn takes_raw_budget(&self, stop: Stop) -> bool {
        match stop {
            Stop::Unmapped => true,
            Stop::Pending => self.mapping.kind >= kind::RUNTIME,
            _ => false,
        }
    }

    /// Prepares to take only the frames of the process's first interpreter. Returns `false` if it has none.
    #[inline(always)]
    pub fn begin_interpreter_frames(&mut self) -> bool {
        interpreter::begin_interpreter_frames(self)
    }

    /// Takes the next interpreter frame, or the word at the end of a run. Returns `true` at the end.
    #[inline(always)]
    pub fn step_interpreter_frames<M: Machine>(&mut self, machine: &mut M) -> bool {
        interpreter::step_interpreter_frames(self, machine)
    }

    #[inline(always)]
    fn try_step<A: Arch, M: Machine>(&mut self, machine: &mut M) -> Result<(), Stop> {
        // A return address is that of the instruction after the call, which may belong to the next function.
        let after_call = if self.flags & frame::EXACT == 0 { 1 } else { 0 };
        let pc = (self.registers.pc & frame::ADDRESS).wrapping_sub(after_call);
        // The most frequent case comes first.
        match self.interpreter.phase {
            phase::OUTSIDE if self.guesses == 0 => {
                if self.emit(machine, pc)? {
                    interpreter::enter(self, machine, self.registers.values[A::SP]);
                    return Ok(());
                }
            }
            phase::HOPPING
            | phase::TAKING
            | phase::COMPARING
            | phase::SEARCHING
            | phase::FIRST..=phase::ENDS => {
                interpreter::step(self, machine);
                return Ok(());
            }
            phase::RETURNS => return uretprobe::search::<A, M>(self, machine),
            _ if self.guesses != 0 => return frame_pointer::guess::<A, M>(self, machine, pc),
            // After the interpreter frames of a loop, whose own frame was emitted before them.
            _ => self.interpreter.phase = phase::OUTSIDE,
        }
        let is_unwound = match self.mapping.kind {
            kind::TABLE => native::step::<A, M>(self, machine, pc)?,
            // In this order and form the compiler keeps the fewest values on the stack, of which 6.1 has 352 bytes for a step.
            kind::RUNTIME => runtime::step::<A, M>(self, machine, pc)?,
            kind::BARE => false,
            other if other == kind::AWAITED && self.process.raw_budget == 0 => false,
            _ => return Err(Stop::Pending),
        };
        if !is_unwound {
            self.guesses = 1;
        }
        Ok(())
    }

    /// Finds the mapping of `pc` and emits the native frame there, unless a runtime's walker does. Returns `true` if it is an
    /// interpreter loop.
    #[inline(always)]
    fn emit<M: Machine>(&mut self, machine: &mut M, pc: u64) -> Result<bool, Stop> {
        if !self.is_in_mapping(pc) {
            let none = self.null_call_at(pc);
            self.mapping = find_mapping(machine, &self.process, pc).or(none).ok_or(Stop::Unmapped)?;
        }
        if self.mapping.kind == kind::RUNTIME {
            return Ok(false);
        }
        if self.mapping.kind == kind::BARE && uretprobe::is_leaf(self, machine, pc) {
            return Err(Stop::Unmapped);
        }
        let is_loop = self.mapping.interpreter != 0 && interpreter::is_loop(self, machine, pc);
        if self.interpreter.perl.skip() {
            return Ok(false);
        }
        self.emit_native(machine, pc | if is_loop { frame::LOOP } else { 0 });
        Ok(is_loop)
    }

    /// Emits a native frame at an address, which may have flags.
    #[inline(always)]
    fn emit_native<M: Machine>(&mut self, machine: &mut M, pc: u64) {
        let bare = if self.mapping.is_without_data() { frame::BARE } else { 0 };
        machine.push_frame(pc | self.flags | bare);
        self.taken += 1;
        self.words += 1;
    }

    /// Returns a mapping without unwind data for the frame of a call through a null pointer.
    #[inline(always)]
    fn null_call_at(&self, pc: u64) -> Option<Mapping> {
        let is_called = self.flags & frame::EXACT != 0 && is_null(pc);
        is_called.then_some(Mapping { end: NULL_PAGE, kind: kind::BARE, ..Mapping::default() })
    }

    /// Returns `true` if `pc` lies in the current mapping.
    #[inline(always)]
    fn is_in_mapping(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.mapping.start) < self.mapping.end.wrapping_sub(self.mapping.start)
    }

    /// Returns the mapping that `pc` lies in.
    #[inline(always)]
    fn mapping_of<M: Machine>(&self, machine: &M, pc: u64) -> Option<Mapping> {
        if self.is_in_mapping(pc) {
            return Some(self.mapping);
        }
        find_mapping(machine, &self.process, pc)
    }

    /// Returns the value of a register, if it is known at this frame.
    #[inline(always)]
    fn register(&self, number: u8) -> Option<u64> {
        let number = (number & 31) as usize;
        if self.registers.known >> number & 1 == 0 {
            return None;
        }
        Some(self.registers.values[number])
    }

    /// Makes the caller's frame the current one, or returns the reason to stop.
    #[inline(always)]
    fn enter_caller<A: Arch>(&mut self, caller: &Caller) -> Result<(), Stop> {
        if caller.pc == 0 && caller.flags & frame::EXACT == 0 {
            return Err(Stop::Root);
        }
        let before = self.registers.values[A::SP];
        if caller.sp < before {
            // A switch to another stack: to that of Go's scheduler, or from that of a signal handler. A walk that
            // switches repeatedly runs in circles.
            self.switches += 1;
            if self.switches > MAX_SWITCHES {
                return Err(Stop::NoProgress);
            }
        } else if caller.sp == before && self.flags & frame::EXACT == 0 {
            // Only a leaf has no frame: on arm64, and after a jump to an exception handler.
            return Err(Stop::NoProgress);
        }
        self.set_caller::<A>(caller);
        Ok(())
    }

    /// Sets the registers and flags to those of the caller, without checks. All other registers become unknown.
    #[inline(always)]
    fn set_caller<A: Arch>(&mut self, caller: &Caller) {
        self.registers.pc = caller.pc;
        self.registers.values[A::SP] = caller.sp;
        self.registers.known = 1 << A::SP | (caller.is_fp_known as u64) << A::FP;
        self.registers.values[A::FP] = caller.fp;
        if let Some((number, value)) = caller.kept {
            let number = (number & 31) as usize;
            self.registers.values[number] = value;
            self.registers.known |= 1 << number;
        }
        self.flags = caller.flags;
    }
}

/// Registers and flags of a caller's frame.
struct Caller {
    /// The program counter, without a signature; 0 for none.
    pc: u64,
    /// The stack pointer.
    sp: u64,
    /// The frame pointer, 0 if unknown.
    fp: u64,
    /// `true` if the frame pointer is known. Not an `Option`, so that the verifier has one path for both.
    is_fp_known: bool,
    /// DWARF number and value of one further register, if known.
    kept: Option<(u8, u64)>,
    /// [Flags](frame) of the frame.
    flags: u64,
}
