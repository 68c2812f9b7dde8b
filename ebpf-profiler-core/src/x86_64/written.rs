//! The general registers that an instruction writes.

use super::instruction::{
    HALF_FLOAT, Instruction, Operand, THREE_BYTES, THREE_BYTES_NUMBER, TWO_BYTES, VECTOR, XOP,
};

/// A set of registers, a bit for each.
pub type Registers = u16;

/// All registers, for instructions with unknown effects.
const ALL: Registers = !0;

const RAX: Registers = 1;
const RCX: Registers = 1 << 1;
const RDX: Registers = 1 << 2;
const RBX: Registers = 1 << 3;
const RSP: Registers = 1 << 4;
const RBP: Registers = 1 << 5;
const RSI: Registers = 1 << 6;
const RDI: Registers = 1 << 7;
const R11: Registers = 1 << 11;

impl Instruction {
    /// Returns the general registers that the instruction may write. Instructions that are not known write all of them.
    pub fn written(&self) -> Registers {
        let opcode = self.opcode as u8;
        match self.opcode & !0xff {
            0 => self.written_by_one(opcode),
            TWO_BYTES => self.written_by_two(opcode),
            THREE_BYTES => match opcode {
                0xf0 | 0xf1 | 0xf6 => self.reg() | self.rm(),
                0xf2..=0xff => ALL,
                _ => 0,
            },
            THREE_BYTES_NUMBER => match opcode {
                0x14..=0x17 => self.rm(),
                0x60..=0x63 => RCX,
                _ => 0,
            },
            xop if xop & XOP != 0 => self.written_by_xop(xop & !XOP, opcode),
            vector => self.written_by_vector(vector & !VECTOR, opcode),
        }
    }

    fn written_by_one(&self, opcode: u8) -> Registers {
        match opcode {
            0x38..=0x3d => 0,
            0x00..=0x3f => match opcode & 7 {
                0 => self.rm_byte(),
                1 => self.rm(),
                2 => self.reg_byte(),
                3 => self.reg(),
                _ => RAX,
            },
            0x50..=0x57 | 0x68 | 0x6a | 0x9c => RSP,
            0x58..=0x5f => RSP | self.reg(),
            0x63 | 0x69 | 0x6b | 0x8b | 0x8d => self.reg(),
            0x70..=0x7f
            | 0x84
            | 0x85
            | 0x8e
            | 0x9b
            | 0xa8
            | 0xa9
            | 0xcc
            | 0xe9
            | 0xeb
            | 0xf4
            | 0xf5
            | 0xf8..=0xfd => 0,
            0x80 | 0x81 | 0x83 if self.reg & 7 == 7 => 0,
            0x80 | 0xc0 | 0xc6 | 0xd0 | 0xd2 | 0xfe => self.rm_byte(),
            0x81 | 0x83 | 0x89 | 0x8c | 0xc1 | 0xc7 | 0xd1 | 0xd3 => self.rm(),
            0x86 => self.rm_byte() | self.reg_byte(),
            0x87 => self.rm() | self.reg(),
            0x88 => self.rm_byte(),
            0x8a => self.reg_byte(),
            0x8f => RSP | self.rm(),
            0x90 if self.reg == 0 => 0,
            0x90..=0x97 => RAX | self.reg(),
            0x98 | 0x9f | 0xa0 | 0xa1 | 0xd7 => RAX,
            0x99 => RDX,
            0x9d => RSP,
            0x9e | 0xa2 | 0xa3 => 0,
            0xa4..=0xa7 => RSI | RDI | RCX,
            0xaa..=0xaf => RAX | RSI | RDI | RCX,
            0xb0..=0xb7 => self.reg_byte(),
            0xb8..=0xbf => self.reg(),
            0xc2 | 0xc3 => RSP,
            0xc8 | 0xc9 => RSP | RBP,
            0xd8..=0xde => 0,
            0xdf => RAX,
            0xe0..=0xe3 => RCX,
            0xf6 | 0xf7 => match self.reg & 7 {
                0 | 1 => 0,
                2 | 3 if opcode == 0xf6 => self.rm_byte(),
                2 | 3 => self.rm(),
                _ => RAX | RDX,
            },
            0xff => match self.reg & 7 {
                0 | 1 => self.rm(),
                4 | 5 => 0,
                6 => RSP,
                _ => ALL,
            },
            _ => ALL,
        }
    }

    fn written_by_two(&self, opcode: u8) -> Registers {
        match opcode {
            // Registers of the system, and their contents.
            0x01 if self.reg & 7 == 4 => self.rm(),
            0x01 if matches!(self.operand, Operand::Register(_)) => RAX | RCX | RDX,
            0x01 => 0,
            0x05 => RAX | RCX | R11,
            0x0b
            | 0x0d
            | 0x0e
            | 0x0f
            | 0x10..=0x1d
            | 0x1f
            | 0x28..=0x2b
            | 0x2e
            | 0x2f
            | 0x51..=0x77
            | 0x7c
            | 0x7d
            | 0x7f..=0x8f => 0,
            0x1e => self.rm(),
            0x2c | 0x2d | 0x40..=0x50 | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf | 0xc5 | 0xd7 => self.reg(),
            0x31 => RAX | RDX,
            0x7e if self.repeat != 0 => 0,
            0x7e => self.rm(),
            0x90..=0x9f => self.rm_byte(),
            0xa0 | 0xa1 | 0xa8 | 0xa9 => RSP,
            0xa2 => RAX | RBX | RCX | RDX,
            0xa3 => 0,
            0xa4 | 0xa5 | 0xab | 0xac | 0xad | 0xae | 0xb3 | 0xbb => self.rm(),
            0xb0 => RAX | self.rm_byte(),
            0xb1 => RAX | self.rm(),
            0xba if self.reg & 7 == 4 => 0,
            0xba => self.rm(),
            0xc0 => self.rm_byte() | self.reg_byte(),
            0xc1 => self.rm() | self.reg(),
            0xc2..=0xc4 | 0xc6 | 0xd0..=0xfe => 0,
            0xc7 => RAX | RDX | self.rm(),
            0xc8..=0xcf => self.reg(),
            _ => ALL,
        }
    }

    fn written_by_vector(&self, map: u32, opcode: u8) -> Registers {
        match (map, opcode) {
            (TWO_BYTES, 0x2c | 0x2d | 0x50 | 0x78 | 0x79 | 0x93 | 0xc5 | 0xd7) => self.reg(),
            (TWO_BYTES, 0x7e) if self.repeat != 0 => 0,
            (TWO_BYTES, 0x7e) => self.rm(),
            (HALF_FLOAT, 0x2c | 0x2d | 0x78 | 0x79) => self.reg(),
            (HALF_FLOAT, 0x7e) => self.rm(),
            (THREE_BYTES, 0xe0..=0xef | 0xf2..=0xf7) => self.reg() | 1 << self.third,
            (THREE_BYTES_NUMBER, 0x14..=0x17) => self.rm(),
            (THREE_BYTES_NUMBER, 0x60..=0x63) => RCX,
            (THREE_BYTES_NUMBER, 0xf0) => self.reg(),
            _ => 0,
        }
    }

    fn written_by_xop(&self, map: u32, opcode: u8) -> Registers {
        match (map >> 8, opcode) {
            (9, 0x01 | 0x02) => 1 << self.third,
            (9, 0x12) => self.rm(),
            (10, 0x10) => self.reg(),
            _ => 0,
        }
    }

    fn reg(&self) -> Registers {
        1 << (self.reg & 15)
    }

    fn rm(&self) -> Registers {
        match self.operand {
            Operand::Register(number) => 1 << (number & 15),
            _ => 0,
        }
    }

    /// Returns the register of a byte: without a REX prefix, the numbers 4 to 7 are the second bytes of the registers 0 to 3.
    fn byte(&self, number: usize) -> Registers {
        match number {
            4..=7 if !self.has_low_bytes => 1 << (number - 4),
            number => 1 << (number & 15),
        }
    }

    fn reg_byte(&self) -> Registers {
        self.byte(self.reg)
    }

    fn rm_byte(&self) -> Registers {
        match self.operand {
            Operand::Register(number) => self.byte(number),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;

    #[test]
    fn opcodes_of_vector_maps_are_told_apart() {
        let written = |bytes: &[u8]| decode(bytes).unwrap().written();
        assert_eq!(written(&[0xc4, 0xe2, 0x7d, 0x79, 0xe4]), 0, "vpbroadcastw ymm4, xmm4");
        assert_eq!(written(&[0x62, 0xf2, 0x7d, 0x48, 0x7e, 0xe5]), 0, "vpermt2d zmm4, zmm0, zmm5");
        assert_eq!(written(&[0x62, 0xf5, 0x7e, 0x08, 0x78, 0xe9]), 1 << 5, "vcvttsh2usi ebp, xmm1");
        assert_eq!(written(&[0x62, 0xf5, 0x7d, 0x08, 0x7e, 0xcd]), 1 << 5, "vmovw ebp, xmm1");
    }
}
