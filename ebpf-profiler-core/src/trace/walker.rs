//! The kernel side's walkers, run in user space.

use ebpf_programs::abi::interpreter::FRAME_BYTES;
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::reason::Stop;
use ebpf_programs::abi::record::MAX_STEPS;
use ebpf_programs::abi::registers::Registers;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::Walk;
use ebpf_programs::walk::arch::Arch;

use super::FrameWord;
use crate::tables::Tables;

/// The memory of a walked thread.
pub trait Stack {
    /// Returns eight bytes at `address`, anywhere in the process; `None` if they cannot be read.
    fn read(&mut self, address: u64) -> Option<u64>;

    /// Returns eight bytes of a stack at `address`; `None` if they cannot be read, or have changed
    /// since the sample. The default implementation calls [`read`](Stack::read).
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.read(address)
    }
}

impl<F: FnMut(u64) -> Option<u64>> Stack for F {
    fn read(&mut self, address: u64) -> Option<u64> {
        self(address)
    }
}

/// Unwinds one stack with tables and memory of any kind.
///
/// Runs the same code as the kernel side, without its cache of rules.
#[derive(Debug, Default)]
pub struct Walker {
    walk: Walk,
    frames: Vec<u64>,
}

struct World<'a, T: ?Sized, S: ?Sized> {
    tables: &'a T,
    memory: &'a mut S,
    frames: &'a mut Vec<u64>,
    thread: u64,
    object: [u64; FRAME_BYTES / 8],
}

impl<T: Tables + ?Sized, S: Stack + ?Sized> Machine for World<'_, T, S> {
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        self.tables.piece(word)
    }

    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.memory.read_stack(address)
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        self.memory.read(address)
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        self.read_words(address, size, S::read)
    }

    fn read_frame(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        self.read_words(address, size, S::read_stack)
    }

    fn thread_pointer(&mut self) -> Option<u64> {
        (self.thread != 0).then_some(self.thread)
    }

    fn push_frame(&mut self, frame: u64) {
        self.frames.push(frame);
    }

    fn push_interpreter_frame(&mut self, function: u64, detail: u64) {
        self.frames.extend([function, detail]);
    }
}

impl<T: ?Sized, S: ?Sized> World<'_, T, S> {
    /// Reads `size` bytes into `object`.
    fn read_words(
        &mut self,
        address: u64,
        size: u32,
        read: fn(&mut S, u64) -> Option<u64>,
    ) -> Option<&[u64; FRAME_BYTES / 8]> {
        for index in 0..size.div_ceil(8).min(self.object.len() as u32) {
            self.object[index as usize] = read(self.memory, address.wrapping_add(u64::from(index) * 8))?;
        }
        Some(&self.object)
    }
}

impl Walker {
    /// Unwinds from `registers` in `process` and returns the stop reason.
    pub fn walk<A: Arch>(
        &mut self,
        registers: &Registers,
        process: &Process,
        tables: &(impl Tables + ?Sized),
        memory: &mut (impl Stack + ?Sized),
    ) -> Stop {
        self.frames.clear();
        self.walk.registers = *registers;
        self.walk.process = *process;
        self.walk.begin();
        let thread = registers.thread;
        let object = [0; FRAME_BYTES / 8];
        let mut world = World { tables, memory, frames: &mut self.frames, thread, object };
        for _ in 0..MAX_STEPS {
            if let Some(stop) = self.walk.step::<A, _>(&mut world) {
                return stop;
            }
            self.walk.run::<A, _>(&mut world);
        }
        Stop::TooLong
    }

    /// Returns `true` if the last walk ended in memory that may belong to a runtime that isn't
    /// attached yet.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.walk.takes_raw_budget(Stop::Pending)
    }

    /// Removes the frames of the last walk.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// Returns the [words of frames](ebpf_programs::abi::record) of the last walk, leaf first.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// Returns the address of the frame in which the last walk ended.
    pub fn address(&self) -> u64 {
        let native = self.frames.iter().map(|&word| FrameWord(word)).rfind(|word| word.is_native());
        native.map_or(self.walk.registers.pc, FrameWord::address)
    }
}
