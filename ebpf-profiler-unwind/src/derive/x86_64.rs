//! States of x86_64 code.

use ebpf_profiler_core::internal::x86_64::{Instruction, Operand, TWO_BYTES, decode};
use ebpf_profiler_core::unwind::Entry;
use ebpf_programs::abi::table::{Rule, cfa, fp, kept, ra};

use crate::rule::DERIVED;
use crate::table::rules::Packed;

use super::flow::{self, Callees, ENTRY, Flow, Step};

const RSP: usize = 4;
const RBP: usize = 5;

/// Registers that callees preserve: `rbx`, `rsp`, `rbp`, and `r12` to `r15`.
const PRESERVED: u16 = 0xf038;

/// Numbers of the registers in DWARF.
const DWARF: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// The value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    /// The canonical frame address, and an offset.
    Frame(i32),
    /// The base of the lower part of the frame, and an offset: the stack pointer when it was last aligned, or moved by an
    /// unknown distance.
    Lower(i32),
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
    /// Place of a frame address in the lower part of the frame, as an offset from its base, and the frame address.
    spilled: Option<(i32, i32)>,
    /// Place of the caller's frame pointer in the lower part.
    saved_lower: Option<i32>,
    callees: Callees,
}

impl flow::State for State {
    fn at_entry(entry: Entry, callees: Callees) -> State {
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
        State { registers, saved, returns: Some(-8), spilled: None, saved_lower: None, callees }
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
        merged.spilled = self.spilled.filter(|_| self.spilled == other.spilled);
        merged.saved_lower = self.saved_lower.filter(|_| self.saved_lower == other.saved_lower);
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

    fn is_end(&self) -> Option<bool> {
        Some(self.stack()? == ENTRY && self.returns == Some(ENTRY) && self.is_unlinked())
    }

    fn is_aligned(&self) -> bool {
        self.stack().is_none_or(|stack| stack & 15 == 0)
    }

    fn has_frame(&self) -> bool {
        self.cfa().is_some()
    }

    fn is_beyond(&self) -> bool {
        self.stack().is_some_and(|stack| stack > ENTRY)
    }

    fn has_same_frame(&self, other: &State) -> bool {
        self.registers[RBP] == other.registers[RBP]
            && self.saved == other.saved
            && self.returns == other.returns
            && (!self.is_unlinked() || self.registers[RSP] == other.registers[RSP])
    }

    fn rule(&self, lost: Option<u16>) -> Option<Packed> {
        let Rule { cfa, register, offset, aux, .. } = self.cfa()?;
        let (ra, aux) = match self.returns {
            Some(-8) => (ra::BELOW, aux),
            _ if cfa != cfa::REGISTER => return None,
            Some(offset) => (ra::SAVED, offset),
            None => {
                let register = self.registers.iter().position(|&value| value == Value::Return)?;
                (ra::REGISTER, i32::from(DWARF[register]))
            }
        };
        let (fp, fp_offset) = self.fp();
        let mark = if self.callees == Callees::Standard { DERIVED } else { 0 };
        let (number, location) = lost.map_or((0, 0), |lost| (lost as u8 & kept::NUMBER, kept::LOST));
        Some(Packed::of(&Rule {
            cfa,
            register,
            ra: ra | number << kept::SHIFT | mark,
            fp: fp | location << kept::SHIFT,
            offset,
            aux,
            fp_offset,
        }))
    }
}

impl State {
    /// Returns the offsets of registers from the canonical frame address, in DWARF's numbering.
    pub(super) fn offsets(&self) -> [Option<i32>; 16] {
        let mut offsets = [None; 16];
        for (register, number) in DWARF.into_iter().enumerate() {
            offsets[usize::from(number)] = self.offset_in(register);
        }
        offsets
    }

    /// Returns the parts of the rule for the canonical frame address.
    fn cfa(&self) -> Option<Rule> {
        let first = match self.callees {
            Callees::Standard => [RSP, RBP],
            Callees::PopArguments => [RBP, RSP],
        };
        let mut bases = first.into_iter().chain(0..16);
        let frame = bases.clone().find_map(|base| Some((base, self.offset_in(base)?)));
        if let Some((base, offset)) = frame {
            let (register, offset) = (DWARF[base], offset.checked_neg()?);
            return Some(Rule { cfa: cfa::REGISTER, register, offset, ..Rule::CANNOT });
        }
        let (place, address) = self.spilled?;
        let (base, lower) = bases.find_map(|base| match self.registers[base] {
            Value::Lower(offset) => Some((base, offset)),
            _ => None,
        })?;
        let offset = place.checked_sub(lower)?;
        Some(Rule {
            cfa: cfa::DEREF,
            register: DWARF[base],
            offset,
            aux: address.checked_neg()?,
            ..Rule::CANNOT
        })
    }

    /// Returns kind and offset of the caller's frame pointer.
    fn fp(&self) -> (u8, i32) {
        match (self.registers[RBP], self.saved, self.saved_lower) {
            (Value::CallerFrame, None, _) => (fp::SAME, 0),
            (Value::CallerFrame, ..) if self.callees == Callees::PopArguments => (fp::SAME, 0),
            (_, Some(offset), _) => (fp::SAVED, offset),
            (Value::Lower(base), _, Some(place)) => (fp::DIRECT, place.wrapping_sub(base)),
            _ => (fp::UNKNOWN, 0),
        }
    }

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
            (0xe8, _) if it.immediate == 0 && self.callees == Callees::Standard => {
                // It pushes the address of the next instruction, which pops it.
                self.push(Value::Unknown);
                Flow::Next
            }
            (0xe8, _) | (0xff, 2) => {
                self.call();
                Flow::Call
            }
            _ => return None,
        })
    }

    /// Executes what a callee may do.
    fn call(&mut self) {
        let preserved = match self.callees {
            Callees::Standard => PRESERVED,
            // They may pop arguments.
            Callees::PopArguments if matches!(self.registers[RBP], Value::Frame(_)) => 1 << RBP,
            Callees::PopArguments => 1 << RBP | 1 << RSP,
        };
        for (number, value) in self.registers.iter_mut().enumerate() {
            if preserved >> number & 1 == 0 {
                *value = Value::Unknown;
            }
        }
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
                let sum = self.value(it.operand).plus(number);
                self.write(it.operand, sum);
            }
            (0x81 | 0x83, 4) if it.wide && it.immediate < 0 && it.operand == Operand::Register(RSP) => {
                self.lower();
            }
            // sub rsp, register
            (0x29, _) if it.wide && it.operand == Operand::Register(RSP) => self.lower(),
            (0x2b, _) if it.wide && it.reg == RSP => self.lower(),
            (0x8d, _) if it.wide => self.set(it.reg & 15, self.address(it.operand)),
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

    /// Begins another lower part of the frame at the stack pointer, which is moved by an unknown distance.
    fn lower(&mut self) {
        for value in &mut self.registers {
            if matches!(value, Value::Lower(_)) {
                *value = Value::Unknown;
            }
        }
        (self.spilled, self.saved_lower) = (None, None);
        if self.callees == Callees::Standard {
            self.registers[RSP] = Value::Lower(0);
        } else {
            self.registers[RSP] = Value::Unknown;
        }
    }

    /// Makes the stack pointer the canonical frame address.
    fn rebase(&mut self) {
        for value in &mut self.registers {
            if matches!(value, Value::Frame(_) | Value::Lower(_)) {
                *value = Value::Unknown;
            }
        }
        (self.saved, self.spilled, self.saved_lower) = (None, None, None);
        self.registers[RSP] = Value::Frame(0);
    }

    fn offset_in(&self, register: usize) -> Option<i32> {
        match self.registers[register] {
            Value::Frame(offset) => Some(offset),
            _ => None,
        }
    }

    /// Returns the address of an operand.
    fn address(&self, operand: Operand) -> Value {
        match operand {
            Operand::Based(base, displacement) => self.registers[base & 15].plus(displacement),
            _ => Value::Unknown,
        }
    }

    /// Returns the value of an operand of eight bytes.
    fn value(&self, operand: Operand) -> Value {
        match operand {
            Operand::Register(number) => self.registers[number & 15],
            _ => self.load(self.address(operand)),
        }
    }

    fn load(&self, address: Value) -> Value {
        match address {
            Value::Frame(at) if self.saved == Some(at) => Value::CallerFrame,
            Value::Frame(at) if self.returns == Some(at) => Value::Return,
            Value::Lower(at) if self.saved_lower == Some(at) => Value::CallerFrame,
            Value::Lower(at) => match self.spilled {
                Some((place, address)) if place == at => Value::Frame(address),
                _ => Value::Unknown,
            },
            _ => Value::Unknown,
        }
    }

    /// Writes an operand of eight bytes.
    fn write(&mut self, operand: Operand, value: Value) {
        if let Operand::Register(number) = operand {
            self.set(number & 15, value);
        } else {
            self.store(self.address(operand), value);
        }
    }

    fn set(&mut self, register: usize, value: Value) {
        self.registers[register] = value;
    }

    fn store(&mut self, address: Value, value: Value) {
        match address {
            Value::Frame(at) => self.store_upper(at, value),
            Value::Lower(at) => self.store_lower(at, value),
            _ => {}
        }
    }

    fn store_upper(&mut self, at: i32, value: Value) {
        for slot in [&mut self.saved, &mut self.returns] {
            if slot.is_some_and(|slot| slot.abs_diff(at) < 8) {
                *slot = None;
            }
        }
        match value {
            Value::CallerFrame if self.saved.is_none() => self.saved = Some(at),
            Value::Return if self.returns.is_none() => self.returns = Some(at),
            _ => {}
        }
    }

    fn store_lower(&mut self, at: i32, value: Value) {
        self.spilled = self.spilled.filter(|(place, _)| place.abs_diff(at) >= 8);
        self.saved_lower = self.saved_lower.filter(|place| place.abs_diff(at) >= 8);
        match value {
            Value::Frame(address) if self.spilled.is_none() => self.spilled = Some((at, address)),
            Value::CallerFrame if self.saved_lower.is_none() => self.saved_lower = Some(at),
            _ => {}
        }
    }

    fn push(&mut self, value: Value) {
        self.move_stack(-8);
        self.store(self.registers[RSP], value);
    }

    fn pop(&mut self) -> Value {
        let value = self.load(self.registers[RSP]);
        self.move_stack(8);
        value
    }

    fn move_stack(&mut self, distance: i64) {
        self.registers[RSP] = self.registers[RSP].plus(distance);
        self.forget_below_stack();
    }

    /// Memory below the stack pointer may be overwritten at any time.
    fn forget_below_stack(&mut self) {
        match self.registers[RSP] {
            Value::Frame(stack) => {
                self.saved = self.saved.filter(|&slot| slot >= stack);
                self.returns = self.returns.filter(|&slot| slot >= stack);
                (self.spilled, self.saved_lower) = (None, None);
            }
            Value::Lower(stack) => {
                self.spilled = self.spilled.filter(|&(slot, _)| slot >= stack);
                self.saved_lower = self.saved_lower.filter(|&slot| slot >= stack);
            }
            _ => {}
        }
    }
}

impl Value {
    /// Returns the sum of an address and a number.
    fn plus(self, number: i64) -> Value {
        let sum = |offset: i32| offset.checked_add(i32::try_from(number).ok()?);
        match self {
            Value::Frame(offset) => sum(offset).map_or(Value::Unknown, Value::Frame),
            Value::Lower(offset) => sum(offset).map_or(Value::Unknown, Value::Lower),
            _ => Value::Unknown,
        }
    }
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
