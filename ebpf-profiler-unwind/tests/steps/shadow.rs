//! The shadow stack: what calls pushed and returns have not popped.

use super::ptrace::Registers;

/// A frame's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The return address, or the interrupted program counter.
    pub(crate) pc: u64,
    /// `true` if a signal interrupted it.
    pub(crate) is_interrupted: bool,
    /// Address of the return address.
    slot: u64,
}

/// The calls on one stack, outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) entries: Vec<Entry>,
    /// `true` if they begin with the program's entry.
    pub(crate) is_whole: bool,
    /// The last known stack pointer.
    sp: u64,
}

/// The stacks of a thread.
pub(crate) struct Shadow {
    stacks: Vec<Calls>,
    /// Index of the current one.
    current: usize,
    /// Program counter that a signal interrupted, until its handler begins.
    interrupted: Option<u64>,
    /// Number of changes from one stack to another.
    pub(crate) switches: u64,
}

/// Distance by which the stack pointer moves from one stack to another.
const STACK_DISTANCE: u64 = 1 << 20;

/// Maximum number of stacks.
const MAX_STACKS: usize = 1 << 12;

impl Shadow {
    /// Creates the stack of a program that begins.
    pub(crate) fn new(sp: u64) -> Shadow {
        let first = Calls { entries: Vec::new(), is_whole: true, sp };
        Shadow { stacks: vec![first], current: 0, interrupted: None, switches: 0 }
    }

    /// Returns the calls on the current stack.
    pub(crate) fn calls(&self) -> &Calls {
        &self.stacks[self.current]
    }

    /// A signal's handler begins with the next step.
    pub(crate) fn interrupt(&mut self, pc: u64) {
        self.interrupted = Some(pc);
    }

    /// Follows an instruction, whose bytes are `code`.
    pub(crate) fn step(
        &mut self,
        code: &[u8],
        before: &Registers,
        after: &Registers,
        word: impl FnOnce(u64) -> Option<u64>,
    ) {
        if after.rsp.abs_diff(before.rsp) > STACK_DISTANCE {
            self.change(after.rsp);
        }
        let is_call = call_size(code).filter(|_| after.rsp.wrapping_add(8) == before.rsp);
        let interrupted = self.interrupted.take().filter(|_| after.rsp < before.rsp);
        let calls = &mut self.stacks[self.current];
        calls.sp = after.rsp;
        while calls.entries.last().is_some_and(|entry| entry.slot < after.rsp) {
            calls.entries.pop();
        }
        if let Some(pc) = interrupted {
            calls.entries.push(Entry { pc, is_interrupted: true, slot: after.rsp });
            let restorer = word(after.rsp).unwrap_or_default();
            calls.entries.push(Entry { pc: restorer, is_interrupted: false, slot: after.rsp });
        } else if let Some(size) = is_call {
            let pc = before.rip.wrapping_add(size);
            calls.entries.push(Entry { pc, is_interrupted: false, slot: after.rsp });
        }
    }

    /// Changes to the stack at `sp`.
    fn change(&mut self, sp: u64) {
        self.switches += 1;
        let near = |calls: &Calls| calls.sp.abs_diff(sp) <= STACK_DISTANCE;
        if let Some(index) = self.stacks.iter().position(near) {
            self.current = index;
            return;
        }
        if self.stacks.len() >= MAX_STACKS {
            self.stacks.truncate(1);
        }
        self.stacks.push(Calls { sp, ..Calls::default() });
        self.current = self.stacks.len() - 1;
    }
}

/// Returns the size of a call instruction.
fn call_size(code: &[u8]) -> Option<u64> {
    use ebpf_profiler_core::internal::x86_64::decode;
    let instruction = decode(code)?;
    let is_call = instruction.opcode == 0xe8 || instruction.opcode == 0xff && instruction.reg & 7 == 2;
    is_call.then_some(instruction.len)
}
