//! Symbolic execution of arm64 instructions.

use super::distance;
use crate::accessor::follow::{self, Next};
use crate::accessor::value::Value;
use crate::accessor::{Location, Origin};

/// The first argument and the result of a function; the number of the zero register.
const X0: usize = 0;
const ZERO: usize = 31;

/// Registers that a call may overwrite.
const SCRATCH: std::ops::Range<usize> = 0..19;

/// The registers at one instruction of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    registers: [Value; 32],
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
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        Some((4, self.execute(word, at, is_key)))
    }

    fn field(&self) -> Option<i64> {
        self.field
    }

    fn result(&self) -> Value {
        self.registers[X0]
    }

    fn dereferenced(&self) -> Option<Origin> {
        self.dereferenced
    }

    fn loaded(&self) -> Option<u64> {
        self.loaded
    }
}

impl State {
    fn execute(&mut self, word: u32, at: u64, is_key: &dyn Fn(u64) -> bool) -> Next {
        const JUMP: u32 = 0x1400_0000;
        if let Some(distance) = distance(word) {
            let target = at.wrapping_add_signed(distance);
            if word & 0xfc00_0000 == JUMP {
                return self.argument(is_key).map_or(Next::Jump(target), Next::Found);
            }
            // cbz, cbnz
            if word & 0x7e00_0000 == 0x3400_0000 {
                self.compare(low(word, 0));
            }
            return Next::Branch(target);
        }
        match word {
            // bl
            _ if word & 0xfc00_0000 == 0x9400_0000 => self.call(is_key),
            // blr
            _ if word & 0xffff_fc1f == 0xd63f_0000 => self.call_indirect(low(word, 5), is_key),
            // br
            _ if word & 0xffff_fc1f == 0xd61f_0000 => self.argument(is_key).map_or(Next::End, Next::Found),
            // ret
            _ if word & 0xffff_fc1f == 0xd65f_0000 => match self.registers[X0] {
                Value::ThreadWord(origin) => Next::Found(origin),
                _ => Next::End,
            },
            _ => {
                self.compute(word, at);
                Next::On
            }
        }
    }

    fn compute(&mut self, word: u32, at: u64) {
        let (to, base) = (low(word, 0), low(word, 5));
        let value = match word {
            // mrs, of the thread pointer
            _ if word & 0xffff_ffe0 == 0xd53b_d040 => Value::ThreadPointer(0),
            // adrp, adr
            _ if word & 0x9f00_0000 == 0x9000_0000 => Value::Address(Location::at(page(at, word))),
            _ if word & 0x9f00_0000 == 0x1000_0000 => {
                Value::Address(Location::at(at.wrapping_add_signed(immediate(word))))
            }
            // add and sub of an immediate
            _ if word & 0xff80_0000 == 0x9100_0000 => self.registers[base].add(number(word)),
            _ if word & 0xff80_0000 == 0xd100_0000 => self.registers[base].add(-number(word)),
            // add of a register
            _ if word & 0xffe0_fc00 == 0x8b00_0000 => {
                self.registers[base].plus(self.registers[low(word, 16)])
            }
            // mov of a register, of an immediate
            _ if word & 0xffe0_ffe0 == 0xaa00_03e0 => self.registers[low(word, 16)],
            _ if word & 0xffe0_0000 == 0xd280_0000 => Value::Number(i64::from(word >> 5 & 0xffff)),
            // ldr of eight bytes, of four; ldur
            _ if word & 0xffc0_0000 == 0xf940_0000 => {
                if let Value::ThreadWord(origin) = self.registers[base] {
                    self.dereferenced = self.dereferenced.or(Some(origin));
                }
                self.registers[base].load(i64::from(word >> 10 & 0xfff) * 8, true)
            }
            _ if word & 0xffc0_0000 == 0xb940_0000 => {
                self.registers[base].load(i64::from(word >> 10 & 0xfff) * 4, false)
            }
            _ if word & 0xffe0_0c00 == 0xf840_0000 => {
                let distance = (word << 11) as i32 >> 23;
                self.registers[base].load(distance.into(), true)
            }
            // ldr at the sum of two registers
            _ if word & 0xffe0_fc00 == 0xf860_6800 => {
                self.registers[base].plus(self.registers[low(word, 16)]).load(0, true)
            }
            // ldp writes two registers
            _ if word & 0x7c40_0000 == 0x2840_0000 => {
                self.registers[low(word, 10)] = Value::Unknown;
                Value::Unknown
            }
            // Any other instruction writes this register, if any.
            _ => Value::Unknown,
        };
        if let Value::ThreadWord(Origin::Static { offset }) = value {
            self.field = self.field.or(Some(offset));
        }
        if let Value::Word64(Location { pointer: None, plus }) = value {
            self.loaded = Some(plus);
        }
        if to != ZERO {
            self.registers[to] = value;
        }
    }

    fn compare(&mut self, register: usize) {
        if let Value::Word64(location) | Value::Word32(location) = self.registers[register] {
            self.compared = Some(location);
        }
    }

    /// Returns the key that a function is called with.
    fn argument(&self, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
        self.registers[X0].key(self.compared, is_key)
    }

    fn call(&mut self, is_key: &dyn Fn(u64) -> bool) -> Next {
        if let Some(origin) = self.argument(is_key) {
            return Next::Found(origin);
        }
        let result = self.registers[X0].called();
        self.registers[SCRATCH].fill(Value::Unknown);
        self.registers[X0] = result;
        Next::On
    }

    fn call_indirect(&mut self, function: usize, is_key: &dyn Fn(u64) -> bool) -> Next {
        // The resolver of a TLS descriptor is called with the descriptor's address, and changes no other
        // register.
        match (self.registers[X0], self.registers[function]) {
            (Value::Address(pair), Value::Word64(location)) if pair == location && pair.pointer.is_none() => {
                self.registers[X0] = Value::DescriptorOffset(pair.plus);
                Next::On
            }
            _ => self.call(is_key),
        }
    }
}

/// Returns the register number that begins at a bit.
fn low(word: u32, bit: u32) -> usize {
    (word >> bit & 31) as usize
}

/// Returns the immediate of `adr` and `adrp`: 19 high bits and two low bits.
fn immediate(word: u32) -> i64 {
    let high = i64::from((word << 8) as i32 >> 13);
    high << 2 | i64::from(word >> 29 & 3)
}

fn page(at: u64, word: u32) -> u64 {
    (at & !0xfff).wrapping_add_signed(immediate(word) << 12)
}

/// Returns the immediate of `add` and `sub`: 12 bits, shifted left by 12 if bit 22 is set.
fn number(word: u32) -> i64 {
    i64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1))
}
