//! Walking a stack: registers and memory in, frames out.
//!
//! ```text
//!   registers ──┐
//!   memory    ──┼──► Walk ──► Frame, Frame, Frame, ... ──► why it ended
//!   [Modules] ──┘
//! ```

use std::collections::VecDeque;
use std::fmt;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::trace::{Found, Stack, Stop};
use ebpf_programs::abi::interpreter::FRAME_BYTES;
use ebpf_programs::abi::record::{MAX_STEPS, frame};
use ebpf_programs::abi::registers::Registers;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk;
use ebpf_programs::walk::arch::{Aarch64, X86_64};

use crate::modules::Modules;

/// The frames of one stack, leaf first.
///
/// These are the walkers that run in the kernel, over whatever memory they are given: a core dump's, a recorded
/// [case](crate::case::Case), a closure that reads a process.
///
/// # Examples
///
/// `bash` that waited for a child, from a file of 3 KB:
///
/// ```
/// use ebpf_profiler_unwind::Walk;
/// use ebpf_profiler_unwind::case::Case;
///
/// let case: Case = std::fs::read_to_string("tests/cases/bash.case")?.parse()?;
/// let (modules, registers, stack) = (case.modules(), case.registers(), case.memory());
/// for frame in Walk::new(&modules, registers, stack) {
///     println!("{frame}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Walk<'a, M> {
    walk: walk::Walk,
    world: World<'a, M>,
    steps: u32,
    stop: Option<Stop>,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// A function of the machine's own code.
    Native(NativeFrame),
    /// A call in a script, which the interpreter's loop runs that stands before it.
    Call(ScriptCall),
}

/// A frame of the machine's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeFrame {
    /// The address in the process that names the frame: of the instruction that was about to run, or one byte before
    /// the return address, so that it lies in the call.
    pub address: u64,
    /// Whether that is an instruction that was about to run: in the leaf, and where a signal came.
    pub exact: bool,
    /// How the walker got here.
    pub found: Found,
    /// Whether it is the loop of an interpreter.
    pub is_loop: bool,
    /// The number of its mapping in the list that [`Modules::new`] was given; none where nothing is mapped.
    pub mapping: Option<usize>,
    /// The virtual address in the mapped file.
    pub file_address: u64,
}

/// A call in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptCall {
    /// Which of the process's interpreters runs it, counted from 0.
    pub interpreter: usize,
    /// The address of the function; 0 where the frame can't be read.
    pub function: u64,
    /// What tells it from another one that comes to lie at its address.
    pub check: u32,
    /// Where in the function.
    pub position: u32,
}

impl Frame {
    /// The frame of the machine's own code, if it is one.
    pub fn native(&self) -> Option<&NativeFrame> {
        match self {
            Frame::Native(native) => Some(native),
            Frame::Call(_) => None,
        }
    }

    /// The next frame in the words that the walker has left.
    fn take(words: &mut VecDeque<u64>, modules: &Modules) -> Option<Frame> {
        let first = words.pop_front()?;
        if first & frame::INTERPRETED == 0 {
            return Some(Frame::Native(NativeFrame::new(first, modules)));
        }
        let second = words.pop_front()?;
        Some(Frame::Call(ScriptCall {
            interpreter: (first >> frame::INTERPRETER_SHIFT & 3) as usize,
            function: first & frame::ADDRESS,
            check: (second >> 32 & frame::CHECK) as u32,
            position: second as u32,
        }))
    }
}

impl NativeFrame {
    fn new(word: u64, modules: &Modules) -> NativeFrame {
        let address = word & frame::ADDRESS;
        let (mapping, bias) = modules.find(address).unzip();
        NativeFrame {
            address,
            exact: word & frame::EXACT != 0,
            found: if word & frame::GUESSED == 0 { Found::Exactly } else { Found::Guessed },
            is_loop: word & frame::LOOP != 0,
            mapping,
            file_address: address.wrapping_add(bias.unwrap_or(0)),
        }
    }

    /// What the program counter was: the return address in callers.
    pub fn pc(&self) -> u64 {
        if self.exact { self.address } else { self.address.wrapping_add(1) }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Native(native) => native.fmt(f),
            Frame::Call(call) => call.fmt(f),
        }
    }
}

impl fmt::Display for NativeFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.pc())?;
        if let Some(mapping) = self.mapping {
            write!(f, "  {:#x} in mapping {mapping}", self.file_address)?;
        }
        let guessed = self.found == Found::Guessed;
        f.write_str(if guessed { "  (guessed)" } else { "" })
    }
}

impl fmt::Display for ScriptCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScriptCall { interpreter, function, position, .. } = self;
        write!(f, "{function:#018x}  position {position} in a script of interpreter {interpreter}")
    }
}

impl<'a, M: Stack> Walk<'a, M> {
    /// A walk from `registers`, which are those of a thread of this process.
    pub fn new(modules: &'a Modules, registers: &Registers, memory: M) -> Walk<'a, M> {
        let mut walk = walk::Walk::default();
        (walk.registers, walk.process) = (*registers, modules.process());
        walk.begin();
        let (thread, object) = (registers.thread, [0; OBJECT]);
        let world = World { modules, memory, frames: VecDeque::new(), thread, object };
        Walk { walk, world, steps: 0, stop: None }
    }

    /// Why it ended; none while there may be more frames.
    pub fn stop(&self) -> Option<Stop> {
        self.stop.filter(|_| self.world.frames.is_empty())
    }

    fn step(&mut self) {
        if self.steps == MAX_STEPS {
            self.stop = Some(Stop::TooLong);
            return;
        }
        self.steps += 1;
        match self.world.modules.arch() {
            Arch::X86_64 => self.advance::<X86_64>(),
            Arch::Aarch64 => self.advance::<Aarch64>(),
            _ => self.stop = Some(Stop::Unsupported),
        }
    }

    fn advance<A: walk::arch::Arch>(&mut self) {
        self.stop = self.walk.step::<A, _>(&mut self.world);
        if self.stop.is_none() {
            self.walk.run::<A, _>(&mut self.world);
        }
    }
}

impl<M: Stack> Iterator for Walk<'_, M> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        while self.world.frames.is_empty() && self.stop.is_none() {
            self.step();
        }
        Frame::take(&mut self.world.frames, self.world.modules)
    }
}

/// What the walkers ask.
#[derive(Debug)]
struct World<'a, M> {
    modules: &'a Modules,
    memory: M,
    /// The words of those that were found and not yet handed out.
    frames: VecDeque<u64>,
    thread: u64,
    object: [u64; OBJECT],
}

/// Words of the largest object that is asked for.
const OBJECT: usize = FRAME_BYTES / 8;

impl<M: Stack> Machine for World<'_, M> {
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        self.modules.piece(word)
    }

    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.memory.read(address)
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        self.memory.read(address)
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; OBJECT]> {
        let words = self.object.iter_mut().take(size.div_ceil(8) as usize);
        for (number, word) in (0u64..).zip(words) {
            *word = self.memory.read(address.wrapping_add(number * 8))?;
        }
        Some(&self.object)
    }

    fn thread_pointer(&mut self) -> Option<u64> {
        (self.thread != 0).then_some(self.thread)
    }

    fn push_frame(&mut self, frame: u64) {
        self.frames.push_back(frame);
    }

    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        self.frames.extend([function, detail]);
    }
}
