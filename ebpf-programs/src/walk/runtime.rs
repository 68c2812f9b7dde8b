//! Frames in memory that a runtime owns: code that it compiles while it runs, or that has no unwind data in its file.
//!
//! ```text
//!   mapping of kind RUNTIME ──► description of its runtime ──► walker ──┬─ the frame, and its caller
//!                                                                      └─ no caller: a guess, as for other code without data
//! ```
//!
//! | walker | frames |
//! | --- | --- |
//! | HOTSPOT | of Java methods: [`hotspot`] |
//! | [V8](super::v8) | by frame pointer, with what the frame holds |
//! | LUAJIT | of traces: [`luajit`] |
//! | PHP | of the JIT's code: [`php`] |
//! | RUBY | of compiled methods: [`ruby`] |
//! | BEAM | of functions of modules, and shared fragments: [`beam`] |
//! | DOTNET | of methods, by their unwind codes: [`dotnet`] |
//! | COMPILED | of compiled code that is described: [`compiled`] |
//! | any other | native, by guesses |
//!
//! A program without the walker, which is loaded when the first runtime of its kind is found, ends the walk: the sample is sent
//! raw, as long as the process has a budget for it.
//!
//! A walker emits the frame at `pc`, of which nothing was emitted before: [`Walk::emit_runtime_frame`] for a function of the
//! runtime, [`Walk::emit_native`] for a stub. Then it enters the caller and returns `true`, or returns `false` if it doesn't
//! know it. A search that needs more than a few reads keeps its state in [`Walk`], emits nothing and returns `true`: the next
//! step continues at the same frame.

use super::arch::Arch;
use super::{Walk, beam, compiled, dotnet, hotspot, interpreter, luajit, php, ruby, v8};
use crate::abi::interpreter::walker;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// Emits the frame at `pc` in the current mapping and unwinds to its caller. Returns `false` if the caller is unknown.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    interpreter::load(walk, machine).ok_or(Stop::BadTable)?;
    match walk.interpreter.walker {
        walker::HOTSPOT if M::has_walker(walker::HOTSPOT) => hotspot::step::<A, M>(walk, machine, pc),
        walker::V8 if M::has_walker(walker::V8) => v8::step::<A, M>(walk, machine, pc),
        walker::LUAJIT if M::has_walker(walker::LUAJIT) => luajit::step::<A, M>(walk, machine, pc),
        walker::PHP if M::has_walker(walker::PHP) => php::step::<A, M>(walk, machine, pc),
        walker::RUBY if M::has_walker(walker::RUBY) => ruby::step::<A, M>(walk, machine, pc),
        walker::COMPILED if M::has_walker(walker::COMPILED) => compiled::step::<A, M>(walk, machine, pc),
        walker::BEAM if M::has_walker(walker::BEAM) => beam::step::<A, M>(walk, machine, pc),
        walker::DOTNET if M::has_walker(walker::DOTNET) => dotnet::step::<A, M>(walk, machine, pc),
        walker::HOTSPOT
        | walker::V8
        | walker::LUAJIT
        | walker::PHP
        | walker::RUBY
        | walker::COMPILED
        | walker::BEAM
        | walker::DOTNET
            if walk.process.raw_budget != 0 =>
        {
            Err(Stop::Pending)
        }
        _ => {
            walk.emit_native(machine, pc);
            Ok(false)
        }
    }
}

impl Walk {
    /// Emits a frame of the current mapping's runtime. The address is that of the object that names the function; above bit
    /// 48 is the shape.
    #[inline(always)]
    pub(super) fn emit_runtime_frame<M: Machine>(
        &mut self,
        machine: &mut M,
        shape: u8,
        address: u64,
        check: u32,
        position: u32,
    ) {
        let number = (self.interpreter.slot() as u64) << frame::INTERPRETER_SHIFT;
        let address = address & ((1 << frame::SHAPE_SHIFT) - 1) | (shape as u64) << frame::SHAPE_SHIFT;
        let detail = frame::DETAIL | (check as u64 & frame::CHECK) << 32 | position as u64;
        let guessed = self.flags & frame::GUESSED;
        machine.push_interpreter_frame(frame::INTERPRETED | guessed | number | address, detail);
        self.taken += 1;
        self.words += 2;
    }
}
