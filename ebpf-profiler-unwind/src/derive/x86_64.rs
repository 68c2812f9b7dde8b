//! States of x86_64 code.

use ebpf_profiler_core::internal::x86_64::{Instruction, Operand, TWO_BYTES, decode};
use ebpf_profiler_core::unwind::Entry;
use ebpf_programs::abi::table::{Rule, cfa, fp, kept, ra};

use crate::table::rules::Packed;

use super::flow::{self, ENTRY, Flow, Step};

const RSP: usize = 4;
const RBP: usize = 5;

/// Numbers of the registers in DWARF.
const DWARF: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// The value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    /// The canonical frame address, and an offset.
    Frame(i32),
    /// The frame pointer of the caller.
    CallerFrame,
    /// The return address.
    Return,
}

/// See [`flow::State`].
///
/// While only a register holds the return address, arguments are pushed or popped, so that the stack pointer of the caller is
/// not fixed: it is the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    registers: [Value; 16],
    /// Place of the caller's frame pointer: an offset from the canonical frame address.
    saved: Option<i32>,
    /// Place of the return address, as such an offset.
    returns: Option<i32>,
}

impl flow::State for State {
    fn at_entry(entry: Entry) -> State {
        let mut registers = [Value::Unknown; 16];
        let saved = match entry {
            Entry::Framed => {
                registers[RBP] = Value::Frame(-16);
                Some(-16)
            }
            _ => {
                registers[RSP] = Value::Frame(ENTRY);
                registers[RBP] = Value::CallerFrame;
                None
            }
        };
        State { registers, saved, returns: Some(-8) }
    }

    fn merge(&self, other: &State) -> State {
        let mut merged = *self;
        for (value, other) in merged.registers.iter_mut().zip(other.registers) {
            if *value != other {
                *value = Value::Unknown;
            }
        }
        merged.saved = self.saved.filter(|_| self.saved == other.saved);
        merged.returns = self.returns.filter(|_| self.returns == other.returns);
        merged
    }

    fn step(&mut self, code: &[u8]) -> Option<Step> {
        let instruction = decode(code)?;
        let flow = self.execute(&instruction);
        let stores_indexed = may_store(&instruction) && instruction.operand == Operand::Indexed(Some(RSP));
        if stores_indexed && self.stack().is_none() && self.is_unlinked() {
            // Arguments are moved on the stack.
            self.returns = None;
        }
        if self.returns.is_none() && self.registers.contains(&Value::Return) {
            self.rebase();
        }
        Some(Step { size: instruction.len as usize, flow, stores_indexed })
    }

    fn stack(&self) -> Option<i32> {
        self.offset_in(RSP)
    }

    fn with_stack(mut self, offset: i32) -> State {
        self.registers[RSP] = Value::Frame(offset);
        self.returns = Some(-8);
        self
    }

    fn is_unlinked(&self) -> bool {
        self.registers[RBP] == Value::CallerFrame
    }

    fn has_same_frame(&self, other: &State) -> bool {
        self.registers[RBP] == other.registers[RBP]
            && self.saved == other.saved
            && self.returns == other.returns
            && (!self.is_unlinked() || self.registers[RSP] == other.registers[RSP])
    }

    fn rule(&self, lost: Option<u16>) -> Option<Packed> {
        let mut bases = [RBP, RSP].into_iter().chain(0..16);
        let (base, offset) = bases.find_map(|base| Some((base, self.offset_in(base)?)))?;
        let (ra, aux) = match self.returns {
            Some(-8) => (ra::BELOW, 0),
            Some(offset) => (ra::SAVED, offset),
            None => {
                let register = self.registers.iter().position(|&value| value == Value::Return)?;
                (ra::REGISTER, i32::from(DWARF[register]))
            }
        };
        let (fp, fp_offset) = match (self.registers[RBP], self.saved) {
            (Value::CallerFrame, _) => (fp::SAME, 0),
            (_, Some(offset)) => (fp::SAVED, offset),
            (_, None) => (fp::UNKNOWN, 0),
        };
        let (number, location) = lost.map_or((0, 0), |lost| (lost as u8 & kept::NUMBER, kept::LOST));
        Some(Packed::of(&Rule {
            cfa: cfa::REGISTER,
            register: DWARF[base],
            ra: ra | number << kept::SHIFT,
            fp: fp | location << kept::SHIFT,
            offset: offset.checked_neg()?,
            aux,
            fp_offset,
        }))
    }
}

impl State {
    /// Executes an instruction.
    fn execute(&mut self, it: &Instruction) -> Flow {
        if let Some(flow) = self.transfer(it) {
            return flow;
        }
        if !it.half && self.change_stack(it) {
            return if matches!(it.opcode, 0x50..=0x57 | 0x68 | 0x6a | 0xff) {
                Flow::Push
            } else {
                Flow::Next
            };
        }
        self.compute(it);
        Flow::Next
    }

    /// Executes a jump, call or return.
    fn transfer(&mut self, it: &Instruction) -> Option<Flow> {
        const UD2: u32 = TWO_BYTES | 0x0b;
        Some(match (it.opcode, it.reg & 7) {
            (0x70..=0x7f | 0xe0..=0xe3, _) => Flow::Branch(it.immediate),
            (opcode, _) if (TWO_BYTES | 0x80..=TWO_BYTES | 0x8f).contains(&opcode) => {
                Flow::Branch(it.immediate)
            }
            (0xe9 | 0xeb, _) => Flow::Jump(it.immediate),
            (0xff, 4) => Flow::Indirect,
            (0xc2 | 0xc3, _) => Flow::Return,
            // A jump or call to another segment, and a return from it or from an interrupt.
            (0xff, 3 | 5) | (0xca | 0xcb | 0xcf, _) => Flow::Trap,
            (0xcc | 0xf4 | UD2, _) => Flow::Trap,
            (0xe8, _) | (0xff, 2) => {
                // Callees may change all but the stack and the frame pointer, and pop arguments.
                if matches!(self.registers[RBP], Value::Frame(_)) {
                    self.registers[RSP] = Value::Unknown;
                }
                for (number, value) in self.registers.iter_mut().enumerate() {
                    if number != RSP && number != RBP {
                        *value = Value::Unknown;
                    }
                }
                Flow::Call
            }
            _ => return None,
        })
    }

    /// Executes an instruction that pushes or pops. Returns `false` if it is another one.
    fn change_stack(&mut self, it: &Instruction) -> bool {
        const PUSH_SEGMENT: [u32; 2] = [TWO_BYTES | 0xa0, TWO_BYTES | 0xa8];
        const POP_SEGMENT: [u32; 2] = [TWO_BYTES | 0xa1, TWO_BYTES | 0xa9];
        match it.opcode {
            0x50..=0x57 => self.push(self.registers[it.reg & 15]),
            0xff if it.reg & 7 == 6 => self.push(self.value(it.operand)),
            0x68 | 0x6a | 0x9c => self.push(Value::Unknown),
            0x58..=0x5f => {
                if let (RBP, Value::Unknown, Some(saved)) = (it.reg, self.registers[RSP], self.saved) {
                    // Nothing else is popped into the frame pointer.
                    self.registers[RSP] = Value::Frame(saved);
                }
                let value = self.pop();
                self.registers[it.reg & 15] = value;
            }
            0x8f => {
                // The address of the operand is that after the pop.
                let value = self.pop();
                self.write(it.operand, value);
            }
            0x9d => _ = self.pop(),
            0xc9 => {
                self.registers[RSP] = self.registers[RBP];
                let value = self.pop();
                self.registers[RBP] = value;
            }
            opcode if PUSH_SEGMENT.contains(&opcode) => self.push(Value::Unknown),
            opcode if POP_SEGMENT.contains(&opcode) => _ = self.pop(),
            _ => return false,
        }
        true
    }

    /// Executes an instruction that moves a value, or changes it.
    fn compute(&mut self, it: &Instruction) {
        match (it.opcode, it.reg & 7) {
            (0x81 | 0x83, 0 | 5) if it.wide && matches!(it.operand, Operand::Register(_)) => {
                let number = if it.reg & 7 == 0 { it.immediate } else { it.immediate.wrapping_neg() };
                let sum = match self.value(it.operand) {
                    Value::Frame(offset) => sum(offset, number),
                    _ => Value::Unknown,
                };
                self.write(it.operand, sum);
            }
            (0x8d, _) if it.wide => {
                let address = self.address(it.operand).map_or(Value::Unknown, Value::Frame);
                self.set(it.reg & 15, address);
            }
            (0x8b, _) if it.wide && !it.thread => self.set(it.reg & 15, self.value(it.operand)),
            (0x89, _) if it.wide => self.write(it.operand, self.registers[it.reg & 15]),
            _ => {
                let written = it.written();
                for (number, value) in self.registers.iter_mut().enumerate() {
                    if written >> number & 1 != 0 {
                        *value = Value::Unknown;
                    }
                }
                if may_store(it) && !matches!(it.operand, Operand::Register(_)) {
                    self.write(it.operand, Value::Unknown);
                }
            }
        }
        self.forget_below_stack();
    }

    /// Makes the stack pointer the canonical frame address.
    fn rebase(&mut self) {
        for value in &mut self.registers {
            if matches!(value, Value::Frame(_)) {
                *value = Value::Unknown;
            }
        }
        self.saved = None;
        self.registers[RSP] = Value::Frame(0);
    }

    fn offset_in(&self, register: usize) -> Option<i32> {
        match self.registers[register] {
            Value::Frame(offset) => Some(offset),
            _ => None,
        }
    }

    /// Returns the address of an operand as an offset from the canonical frame address.
    fn address(&self, operand: Operand) -> Option<i32> {
        let Operand::Based(base, displacement) = operand else { return None };
        self.offset_in(base & 15)?.checked_add(i32::try_from(displacement).ok()?)
    }

    /// Returns the value of an operand of eight bytes.
    fn value(&self, operand: Operand) -> Value {
        match operand {
            Operand::Register(number) => self.registers[number & 15],
            _ => self.load(self.address(operand)),
        }
    }

    fn load(&self, address: Option<i32>) -> Value {
        match address {
            Some(_) if address == self.saved => Value::CallerFrame,
            Some(_) if address == self.returns => Value::Return,
            _ => Value::Unknown,
        }
    }

    /// Writes an operand of eight bytes.
    fn write(&mut self, operand: Operand, value: Value) {
        if let Operand::Register(number) = operand {
            self.set(number & 15, value);
        } else if let Some(address) = self.address(operand) {
            self.store(address, value);
        }
    }

    fn set(&mut self, register: usize, value: Value) {
        self.registers[register] = value;
    }

    fn store(&mut self, address: i32, value: Value) {
        for slot in [&mut self.saved, &mut self.returns] {
            if slot.is_some_and(|slot| slot.abs_diff(address) < 8) {
                *slot = None;
            }
        }
        match value {
            Value::CallerFrame if self.saved.is_none() => self.saved = Some(address),
            Value::Return if self.returns.is_none() => self.returns = Some(address),
            _ => {}
        }
    }

    fn push(&mut self, value: Value) {
        self.move_stack(-8);
        if let Some(address) = self.offset_in(RSP) {
            self.store(address, value);
        }
    }

    fn pop(&mut self) -> Value {
        let value = self.load(self.offset_in(RSP));
        self.move_stack(8);
        value
    }

    fn move_stack(&mut self, distance: i64) {
        self.registers[RSP] = match self.registers[RSP] {
            Value::Frame(offset) => sum(offset, distance),
            _ => Value::Unknown,
        };
        self.forget_below_stack();
    }

    /// Memory below the stack pointer may be overwritten at any time.
    fn forget_below_stack(&mut self) {
        let Some(stack) = self.offset_in(RSP) else { return };
        for slot in [&mut self.saved, &mut self.returns] {
            if slot.is_some_and(|slot| slot < stack) {
                *slot = None;
            }
        }
    }
}

/// Returns the canonical frame address and the sum of two offsets.
fn sum(offset: i32, number: i64) -> Value {
    let number = i32::try_from(number).ok();
    number.and_then(|number| offset.checked_add(number)).map_or(Value::Unknown, Value::Frame)
}

/// Returns `true` if an instruction may store a word in its operand. Stores of vectors are left out: no compiler overwrites what
/// a function saved.
fn may_store(it: &Instruction) -> bool {
    match it.opcode {
        0x80 | 0x81 | 0x83 => it.reg & 7 != 7,
        0x00..=0x37 => it.opcode & 7 < 2,
        0x86..=0x89 | 0xc6 | 0xc7 | 0xc0 | 0xc1 | 0xd0..=0xd3 | 0xfe => true,
        0xf6 | 0xf7 => matches!(it.reg & 7, 2 | 3),
        0xff => it.reg & 7 < 2,
        _ => false,
    }
}
