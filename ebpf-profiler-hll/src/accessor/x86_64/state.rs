//! Symbolic execution of x86_64 instructions.

use ebpf_profiler_core::internal::x86_64::{Instruction, Operand, TWO_BYTES, decode};

use crate::accessor::follow::{self, Next};
use crate::accessor::value::Value;
use crate::accessor::{Location, Origin};

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSI: usize = 6;
const RDI: usize = 7;

/// Multi-byte `nop`, and `endbr64`.
const NOP: u32 = TWO_BYTES | 0x1f;
const ENDBR: u32 = TWO_BYTES | 0x1e;

/// Registers that a call may overwrite.
const SCRATCH: [usize; 9] = [RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11];

/// The registers at one instruction of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    registers: [Value; 16],
    /// The location last compared with 0.
    compared: Option<Location>,
    /// The first distance from the thread pointer that was read at.
    field: Option<i64>,
    /// The first word of the running thread that was dereferenced.
    dereferenced: Option<Origin>,
    /// The last variable of the file that was loaded.
    loaded: Option<u64>,
}

impl follow::State for State {
    fn step(&mut self, bytes: &[u8], at: u64, is_key: &dyn Fn(u64) -> bool) -> Option<(u64, Next)> {
        let instruction = decode(bytes)?;
        let next = at.wrapping_add(instruction.len);
        Some((instruction.len, self.execute(&instruction, next, is_key)))
    }

    fn field(&self) -> Option<i64> {
        self.field
    }

    fn result(&self) -> Value {
        self.registers[RAX]
    }

    fn dereferenced(&self) -> Option<Origin> {
        self.dereferenced
    }

    fn loaded(&self) -> Option<u64> {
        self.loaded
    }
}

impl State {
    /// Executes an instruction; `next` is the address of the following one.
    fn execute(&mut self, it: &Instruction, next: u64, is_key: &dyn Fn(u64) -> bool) -> Next {
        let target = next.wrapping_add_signed(it.immediate);
        match it.opcode {
            0x70..=0x7f => return Next::Branch(target),
            opcode if (TWO_BYTES | 0x80..=TWO_BYTES | 0x8f).contains(&opcode) => return Next::Branch(target),
            0xeb | 0xe9 => return self.argument(is_key).map_or(Next::Jump(target), Next::Found),
            0xe8 => return self.call(is_key),
            0xff if matches!(it.reg & 7, 2 | 3) => return self.call_indirect(it, is_key),
            0xff if matches!(it.reg & 7, 4 | 5) => {
                return self.argument(is_key).map_or(Next::End, Next::Found);
            }
            0xc3 | 0xc2 => {
                return match self.registers[RAX] {
                    Value::ThreadWord(origin) => Next::Found(origin),
                    _ => Next::End,
                };
            }
            0xcc | 0xf4 => return Next::End,
            _ => self.compute(it, next),
        }
        Next::On
    }

    fn compute(&mut self, it: &Instruction, next: u64) {
        match (it.opcode, it.operand) {
            (0x8d, operand) => self.registers[it.reg] = self.address(it, operand, next),
            (0x8b, Operand::Register(from)) if it.wide => self.registers[it.reg] = self.registers[from],
            (0x89, Operand::Register(to)) if it.wide => self.registers[to] = self.registers[it.reg],
            (0x8b, operand) => self.registers[it.reg] = self.load(it, operand, next),
            (0x03, operand) => self.registers[it.reg] = self.sum(it, operand, next),
            (0x81 | 0x83, Operand::Register(to)) if it.reg & 7 == 0 => {
                self.registers[to] = self.registers[to].add(it.immediate);
            }
            // cmp $0, memory
            (0x81 | 0x83, operand) if it.reg & 7 == 7 && it.immediate == 0 => {
                self.compared = self.location(operand, next).or(self.compared);
            }
            (0x85, Operand::Register(same)) if same == it.reg => {
                if let Value::Word64(location) | Value::Word32(location) = self.registers[same] {
                    self.compared = Some(location);
                }
            }
            (0xc7, Operand::Register(to)) if it.reg & 7 == 0 => {
                self.registers[to] = Value::Number(it.immediate)
            }
            (0xb8..=0xbf, _) => self.registers[it.reg] = Value::Number(it.immediate),
            (0x31 | 0x33, Operand::Register(same)) if same == it.reg => {
                self.registers[same] = Value::Number(0)
            }
            // Stores, comparisons, tests, pushes, nop.
            (0x38..=0x3d | 0x50..=0x57 | 0x84 | 0x85 | 0x88 | 0x90, _) => {}
            (NOP | ENDBR, _) => {}
            (0x89, operand) if !matches!(operand, Operand::Register(_)) => {}
            (0x80..=0x83, _) if it.reg & 7 == 7 => {}
            // Here the `reg` field selects an instruction and names no register.
            (0x80..=0x83 | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xf6 | 0xf7 | 0xfe | 0xff, operand) => {
                self.clobber(operand);
            }
            (_, operand) => {
                self.registers[it.reg] = Value::Unknown;
                self.clobber(operand);
            }
        }
    }

    fn clobber(&mut self, operand: Operand) {
        if let Operand::Register(register) = operand {
            self.registers[register] = Value::Unknown;
        }
    }

    /// Returns the result of `lea`.
    fn address(&self, it: &Instruction, operand: Operand, next: u64) -> Value {
        match operand {
            _ if it.thread => Value::Unknown,
            Operand::Based(base, plus) => self.registers[base].add(plus),
            _ => self.location(operand, next).map_or(Value::Unknown, Value::Address),
        }
    }

    /// Returns the value loaded from memory.
    fn load(&mut self, it: &Instruction, operand: Operand, next: u64) -> Value {
        let loaded = match operand {
            _ if it.thread => return self.load_from_thread(operand),
            Operand::Based(base, plus) => {
                if let Value::ThreadWord(origin) = self.registers[base] {
                    self.dereferenced = self.dereferenced.or(Some(origin));
                }
                self.registers[base].load(plus, it.wide)
            }
            _ => self.address(it, operand, next).load(0, it.wide),
        };
        if let Value::Word64(Location { pointer: None, plus }) = loaded {
            self.loaded = Some(plus);
        }
        if let Value::ThreadWord(Origin::Static { offset }) = loaded {
            self.field = self.field.or(Some(offset));
        }
        loaded
    }

    /// Returns the value loaded relative to the thread pointer.
    fn load_from_thread(&mut self, operand: Operand) -> Value {
        let offset = match operand {
            // The word at the thread pointer is the thread pointer.
            Operand::Absolute(0) => return Value::ThreadPointer(0),
            Operand::Absolute(offset) => offset,
            Operand::Based(base, plus) => match self.registers[base] {
                Value::Number(0) if plus == 0 => return Value::ThreadPointer(0),
                Value::Number(offset) => offset.wrapping_add(plus),
                Value::Word64(Location { pointer: None, plus: slot }) => {
                    return Value::ThreadWord(Origin::Slot { slot, plus });
                }
                Value::DescriptorOffset(pair) => return Value::ThreadWord(Origin::Descriptor { pair, plus }),
                _ => return Value::Unknown,
            },
            _ => return Value::Unknown,
        };
        self.field = self.field.or(Some(offset));
        Value::ThreadWord(Origin::Static { offset })
    }

    /// Returns the result of `add`.
    fn sum(&self, it: &Instruction, operand: Operand, next: u64) -> Value {
        let other = match operand {
            Operand::Register(other) => self.registers[other],
            Operand::Absolute(0) if it.thread => Value::ThreadPointer(0),
            _ => self.location(operand, next).map_or(Value::Unknown, Value::Word64),
        };
        self.registers[it.reg].plus(other)
    }

    /// Returns the location of an operand in memory.
    fn location(&self, operand: Operand, next: u64) -> Option<Location> {
        match operand {
            Operand::Relative(distance) => Some(Location::at(next.wrapping_add_signed(distance))),
            Operand::Absolute(address) => u64::try_from(address).ok().map(Location::at),
            Operand::Based(base, plus) => match self.registers[base].add(plus) {
                Value::Address(location) => Some(location),
                Value::Number(address) => u64::try_from(address).ok().map(Location::at),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the key that a function is called with.
    fn argument(&self, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
        self.registers[RDI].key(self.compared, is_key)
    }

    fn call(&mut self, is_key: &dyn Fn(u64) -> bool) -> Next {
        if let Some(origin) = self.argument(is_key) {
            return Next::Found(origin);
        }
        let result = self.registers[RDI].called();
        for register in SCRATCH {
            self.registers[register] = Value::Unknown;
        }
        self.registers[RAX] = result;
        Next::On
    }

    fn call_indirect(&mut self, it: &Instruction, is_key: &dyn Fn(u64) -> bool) -> Next {
        // The resolver of a TLS descriptor is called with the descriptor's address, and changes no other
        // register.
        if let (Operand::Based(RAX, 0), Value::Address(Location { pointer: None, plus: pair })) =
            (it.operand, self.registers[RAX])
        {
            self.registers[RAX] = Value::DescriptorOffset(pair);
            return Next::On;
        }
        self.call(is_key)
    }
}
