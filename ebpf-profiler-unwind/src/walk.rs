//! Stack walks: registers and memory in, frames out.
//!
//! ```text
//!   registers ──┐
//!   memory    ──┼──► Walk ──► Frame, Frame, Frame, ... ──► Stop
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

/// Iterator over the frames of a stack, leaf first.
///
/// Runs the walkers of the kernel side over any memory: that of a core dump, of a recorded
/// [case](crate::case::Case), a closure that reads a process.
///
/// # Examples
///
/// `bash` waiting for a child, from a file of 3 KB:
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
    target: Target<'a, M>,
    steps: u32,
    stop: Option<Stop>,
}

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// A frame of native code.
    Native(NativeFrame),
    /// A call in a script, executed by the interpreter loop in the frame before it.
    Call(ScriptCall),
}

/// A frame of native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeFrame {
    /// Address of the frame in the process: the instruction pointer, or one byte before the return
    /// address, which is inside the call.
    pub address: u64,
    /// `true` if `address` is an instruction pointer: in the leaf and in code interrupted by a
    /// signal.
    pub exact: bool,
    /// Method by which the frame was found.
    pub found: Found,
    /// `true` if the frame is an interpreter loop.
    pub is_loop: bool,
    /// Index of its mapping in the list for [`Modules::new`]; `None` if the address is unmapped.
    pub mapping: Option<usize>,
    /// `address` as a virtual address in the mapped file, for symbol look-up; equals `address` if
    /// `mapping` is `None`.
    pub file_address: u64,
}

/// A call in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptCall {
    /// Index of the interpreter in the list for [`Modules::with_interpreters`].
    pub interpreter: usize,
    /// Address of the function; 0 if the frame cannot be read.
    pub function: u64,
    /// Check word: differs if another function was allocated at the same address.
    pub check: u32,
    /// Position in the function, in units of the interpreter.
    pub position: u32,
    /// `true` if the name of the function comes from the call in the next frame, its caller.
    pub is_named_by_caller: bool,
}

impl Frame {
    /// Returns the frame if it is native.
    pub fn native(&self) -> Option<&NativeFrame> {
        match self {
            Frame::Native(native) => Some(native),
            Frame::Call(_) => None,
        }
    }

    /// Decodes the next frame from the walker's words.
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
            is_named_by_caller: second & frame::NAMED_BY_CALLER != 0,
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

    /// Returns the instruction pointer, which is the return address in callers.
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
    /// Creates a walk from the registers of a thread of the process.
    pub fn new(modules: &'a Modules, registers: &Registers, memory: M) -> Walk<'a, M> {
        let mut walk = walk::Walk::default();
        (walk.registers, walk.process) = (*registers, modules.process());
        walk.begin();
        let (thread, object) = (registers.thread, [0; OBJECT]);
        let target = Target { modules, memory, frames: VecDeque::new(), thread, object };
        Walk { walk, target, steps: 0, stop: None }
    }

    /// Returns the reason for the end of the walk, or `None` while frames may follow.
    pub fn stop(&self) -> Option<Stop> {
        self.stop.filter(|_| self.target.frames.is_empty())
    }

    fn step(&mut self) {
        if self.steps == MAX_STEPS {
            self.stop = Some(Stop::TooLong);
            return;
        }
        self.steps += 1;
        match self.target.modules.arch() {
            Arch::X86_64 => self.advance::<X86_64>(),
            Arch::Aarch64 => self.advance::<Aarch64>(),
            _ => self.stop = Some(Stop::Unsupported),
        }
    }

    fn advance<A: walk::arch::Arch>(&mut self) {
        self.stop = self.walk.step::<A, _>(&mut self.target);
        if self.stop.is_none() {
            self.walk.run::<A, _>(&mut self.target);
        }
    }
}

impl<M: Stack> Iterator for Walk<'_, M> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        while self.target.frames.is_empty() && self.stop.is_none() {
            self.step();
        }
        Frame::take(&mut self.target.frames, self.target.modules)
    }
}

/// State that the walkers query.
#[derive(Debug)]
struct Target<'a, M> {
    modules: &'a Modules,
    memory: M,
    /// Words of frames that were found and not returned yet.
    frames: VecDeque<u64>,
    thread: u64,
    object: [u64; OBJECT],
}

/// Maximum size of an object that a walker reads, in words.
const OBJECT: usize = FRAME_BYTES / 8;

impl<M: Stack> Machine for Target<'_, M> {
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
