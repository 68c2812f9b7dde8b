//! Decoder of x86_64 instructions: lengths of all, operands of the few that [`State`](super::State) executes.
//!
//! ```text
//!   prefixes  REX  opcode   ModRM  SIB  displacement  immediate
//!   66 64 ..  4x   8d       3d          d4 db 26 00                 lea 0x26dbd4(%rip),%rdi
//! ```

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Length in bytes.
    pub(super) len: u64,
    /// The opcode: [`TWO_BYTES`] is set behind `0f`; [`OTHER`] replaces it behind longer escapes and vector prefixes.
    pub(super) opcode: u32,
    /// `true` if its operands have 64 bits.
    pub(super) wide: bool,
    /// `true` if its memory operand is relative to the thread pointer.
    pub(super) thread: bool,
    /// The field of ModRM, or of the opcode, that names a register or selects the instruction.
    pub(super) reg: usize,
    /// The other operand.
    pub(super) operand: Operand,
    /// The sign-extended immediate: a number or the distance of a jump.
    pub(super) immediate: i64,
}

/// The operand of an instruction that is a register or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    None,
    Register(usize),
    /// At a displacement from a register.
    Based(usize, i64),
    /// At a displacement from the end of the instruction.
    Relative(i64),
    /// At an absolute address.
    Absolute(i64),
    /// At an address with an index register.
    Indexed,
}

/// Flag of [`Instruction::opcode`]: the opcode follows `0f`.
pub(super) const TWO_BYTES: u32 = 0x0f00;

/// Value of [`Instruction::opcode`] for all opcodes that are not executed.
pub(super) const OTHER: u32 = 0x1_0000;

/// Decodes the instruction at the start of `bytes`. Returns `None` if it is invalid or truncated.
pub(super) fn decode(bytes: &[u8]) -> Option<Instruction> {
    let mut reader = Reader { bytes, at: 0 };
    let mut prefixes = Prefixes::default();
    let mut byte = reader.byte()?;
    while prefixes.take(byte) {
        byte = reader.byte()?;
    }
    if byte & 0xf0 == 0x40 {
        prefixes.rex = byte;
        byte = reader.byte()?;
    }
    let (map, opcode) = reader.opcode(byte, &mut prefixes)?;
    let (reg, operand) = match has_modrm(map, opcode) {
        true => reader.modrm(prefixes.rex)?,
        false => (usize::from(opcode & 7 | (prefixes.rex & 1) << 3), Operand::None),
    };
    let immediate = reader.immediate(immediate_size(map, opcode, reg & 7, &prefixes)?)?;
    let opcode = match map {
        Map::One => opcode.into(),
        Map::Two if !prefixes.vector => TWO_BYTES | u32::from(opcode),
        _ => OTHER,
    };
    let wide = prefixes.rex & 8 != 0;
    Some(Instruction {
        len: reader.at as u64,
        opcode,
        wide,
        thread: prefixes.thread,
        reg,
        operand,
        immediate,
    })
}

/// Opcode map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    One,
    Two,
    /// Behind `0f 38`.
    Three,
    /// Behind `0f 3a`.
    ThreeWithByte,
}

#[derive(Default)]
struct Prefixes {
    half: bool,
    thread: bool,
    vector: bool,
    rex: u8,
}

impl Prefixes {
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            0x66 => self.half = true,
            0x64 => self.thread = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x65 | 0x67 | 0xf0 | 0xf2 | 0xf3 => {}
            _ => return false,
        }
        true
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        // No instruction is longer than 15 bytes.
        let byte = *self.bytes.get(self.at).filter(|_| self.at < 15)?;
        self.at += 1;
        Some(byte)
    }

    fn opcode(&mut self, first: u8, prefixes: &mut Prefixes) -> Option<(Map, u8)> {
        let vector_map = match first {
            0xc5 => {
                self.byte()?;
                1
            }
            0xc4 => {
                let map = self.byte()? & 0x1f;
                self.byte()?;
                map
            }
            0x62 => {
                let map = self.byte()? & 7;
                self.byte()?;
                self.byte()?;
                map
            }
            0x0f => return self.escaped(),
            _ => return Some((Map::One, first)),
        };
        prefixes.vector = true;
        let map = match vector_map {
            1 => Map::Two,
            2 | 5 | 6 => Map::Three,
            3 => Map::ThreeWithByte,
            _ => return None,
        };
        Some((map, self.byte()?))
    }

    fn escaped(&mut self) -> Option<(Map, u8)> {
        match self.byte()? {
            0x38 => Some((Map::Three, self.byte()?)),
            0x3a => Some((Map::ThreeWithByte, self.byte()?)),
            opcode => Some((Map::Two, opcode)),
        }
    }

    fn modrm(&mut self, rex: u8) -> Option<(usize, Operand)> {
        let modrm = self.byte()?;
        let extend = |field: u8, bit: u8| usize::from(field & 7 | (rex >> bit & 1) << 3);
        let reg = extend(modrm >> 3, 2);
        let mode = modrm >> 6;
        if mode == 3 {
            return Some((reg, Operand::Register(extend(modrm, 0))));
        }
        let mut base = Some(extend(modrm, 0));
        let mut indexed = false;
        if modrm & 7 == 4 {
            let sib = self.byte()?;
            indexed = extend(sib >> 3, 1) != 4;
            base = (mode != 0 || sib & 7 != 5).then_some(extend(sib, 0));
        }
        let displacement = match mode {
            0 if modrm & 7 == 5 => return Some((reg, Operand::Relative(self.immediate(4)?))),
            0 if base.is_none() => self.immediate(4)?,
            0 => 0,
            1 => self.immediate(1)?,
            _ => self.immediate(4)?,
        };
        let operand = match base {
            _ if indexed => Operand::Indexed,
            Some(base) => Operand::Based(base, displacement),
            None => Operand::Absolute(displacement),
        };
        Some((reg, operand))
    }

    /// Reads a sign-extended number of `size` bytes.
    fn immediate(&mut self, size: usize) -> Option<i64> {
        let mut bytes = [0; 8];
        for byte in &mut bytes[..size] {
            *byte = self.byte()?;
        }
        let unused = 64 - 8 * size as u32;
        Some(i64::from_le_bytes(bytes).checked_shl(unused).map_or(0, |shifted| shifted >> unused))
    }
}

fn has_modrm(map: Map, opcode: u8) -> bool {
    match map {
        Map::One => match opcode {
            0x00..=0x3f => opcode & 7 < 4,
            0x63 | 0x69 | 0x6b | 0x80..=0x8f | 0xc0 | 0xc1 | 0xc6 | 0xc7 => true,
            0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => true,
            _ => false,
        },
        Map::Two => !matches!(
            opcode,
            0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0x80..=0x8f | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf
        ),
        Map::Three | Map::ThreeWithByte => true,
    }
}

/// Returns the size of the immediate in bytes, `None` for invalid instructions.
fn immediate_size(map: Map, opcode: u8, select: usize, prefixes: &Prefixes) -> Option<usize> {
    let number = if prefixes.half { 2 } else { 4 };
    Some(match (map, opcode) {
        (Map::One, 0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f) => {
            return None;
        }
        (Map::One, 0x60 | 0x61 | 0x82 | 0x9a | 0xd4 | 0xd5 | 0xd6 | 0xea) => return None,
        (Map::One, 0x00..=0x3f) if opcode & 7 == 4 => 1,
        (Map::One, 0x00..=0x3f) if opcode & 7 == 5 => number,
        (Map::One, 0x68 | 0x69 | 0x81 | 0xa9 | 0xc7) => number,
        (Map::One, 0x6a | 0x6b | 0x70..=0x7f | 0x80 | 0x83 | 0xa8 | 0xb0..=0xb7) => 1,
        (Map::One, 0xc0 | 0xc1 | 0xc6 | 0xcd | 0xe0..=0xe7 | 0xeb) => 1,
        (Map::One, 0xa0..=0xa3) => 8,
        (Map::One, 0xb8..=0xbf) if prefixes.rex & 8 != 0 => 8,
        (Map::One, 0xb8..=0xbf) => number,
        (Map::One, 0xc2 | 0xca) => 2,
        (Map::One, 0xc8) => 3,
        (Map::One, 0xe8 | 0xe9) => 4,
        (Map::One, 0xf6) if select < 2 => 1,
        (Map::One, 0xf7) if select < 2 => number,
        (Map::Two, 0x80..=0x8f) if !prefixes.vector => 4,
        (Map::Two, 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) => 1,
        (Map::ThreeWithByte, _) => 1,
        _ => 0,
    })
}
