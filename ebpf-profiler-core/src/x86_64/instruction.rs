//! Decoder of x86_64 instructions: their lengths, operands, and the general registers that they write.
//!
//! ```text
//!   prefixes  REX  opcode   ModRM  SIB  displacement  immediate
//!   66 64 ..  4x   8d       3d          d4 db 26 00                 lea 0x26dbd4(%rip),%rdi
//! ```

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Length in bytes.
    pub len: u64,
    /// The opcode, behind [`TWO_BYTES`], [`THREE_BYTES`] or [`THREE_BYTES_NUMBER`], with [`VECTOR`] behind a vector prefix; or
    /// [`XOP`], its map in the second byte, and the opcode.
    pub opcode: u32,
    /// `true` if its operands have 64 bits.
    pub wide: bool,
    /// `true` if the operand size is 16 bits, or the prefix selects another instruction.
    pub half: bool,
    /// `true` if its memory operand is relative to the thread pointer.
    pub thread: bool,
    /// The field of ModRM, or of the opcode, that names a register or selects the instruction.
    pub reg: usize,
    /// The other operand.
    pub operand: Operand,
    /// The sign-extended immediate: a number or the distance of a jump.
    pub immediate: i64,
    /// The last prefix `f2` or `f3`, 0 for none.
    pub(super) repeat: u8,
    /// `true` if the numbers 4 to 7 name the low bytes of registers, as with a REX prefix.
    pub has_low_bytes: bool,
    /// The third register of vector instructions.
    pub third: usize,
}

/// The operand of an instruction that is a register or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// No operand.
    None,
    /// A register.
    Register(usize),
    /// At a displacement from a register.
    Based(usize, i64),
    /// At a displacement from the end of the instruction.
    Relative(i64),
    /// At an absolute address.
    Absolute(i64),
    /// At an address with an index register, behind this base.
    Indexed(Option<usize>),
}

/// Flag of [`Instruction::opcode`]: the opcode follows `0f`.
pub const TWO_BYTES: u32 = 0x0f00;

/// Flag of [`Instruction::opcode`]: the opcode follows `0f 38`.
pub const THREE_BYTES: u32 = 0x3800;

/// Flag of [`Instruction::opcode`]: the opcode follows `0f 3a`, and a number of one byte the operands.
pub const THREE_BYTES_NUMBER: u32 = 0x3a00;

/// Flag of [`Instruction::opcode`]: the opcode is in a map for numbers of 16 bits, which only a vector prefix selects.
pub(super) const HALF_FLOAT: u32 = 0x0500;

/// Flag of [`Instruction::opcode`]: the instruction has a vector prefix.
pub const VECTOR: u32 = 0x1_0000;

/// Flag of [`Instruction::opcode`]: the instruction has AMD's XOP prefix.
pub const XOP: u32 = 0x2_0000;

/// Decodes the instruction at the start of `bytes`. Returns `None` if it is invalid or truncated.
pub fn decode(bytes: &[u8]) -> Option<Instruction> {
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
        true => reader.modrm(prefixes.rex, is_of_registers(map, opcode))?,
        false => (usize::from(opcode & 7 | (prefixes.rex & 1) << 3), Operand::None),
    };
    let immediate = reader.immediate(immediate_size(map, opcode, reg & 7, &prefixes)?)?;
    let escape = match map {
        Map::One => 0,
        Map::Two => TWO_BYTES,
        Map::Three => THREE_BYTES,
        Map::ThreeWithByte => THREE_BYTES_NUMBER,
        Map::HalfFloat => HALF_FLOAT,
        Map::Xop(map) => XOP | u32::from(map) << 8,
    };
    Some(Instruction {
        len: reader.at as u64,
        opcode: escape | u32::from(opcode) | if prefixes.vector { VECTOR } else { 0 },
        wide: prefixes.rex & 8 != 0,
        half: prefixes.half,
        thread: prefixes.thread,
        reg,
        operand,
        immediate,
        repeat: prefixes.repeat,
        has_low_bytes: prefixes.rex != 0,
        third: prefixes.third,
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
    /// The maps 5 and 6 of a vector prefix.
    HalfFloat,
    /// Behind an XOP prefix with this map: with a number of one byte for 8, none for 9, and one of four bytes for 10.
    Xop(u8),
}

#[derive(Default)]
struct Prefixes {
    half: bool,
    thread: bool,
    short_address: bool,
    vector: bool,
    rex: u8,
    repeat: u8,
    pub third: usize,
}

impl Prefixes {
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            0x66 => self.half = true,
            0x64 => self.thread = true,
            0xf2 | 0xf3 => self.repeat = byte,
            0x67 => self.short_address = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x65 | 0xf0 => {}
            _ => return false,
        }
        true
    }

    /// Takes the second and third byte of a vector prefix: inverted bits of REX, then `W vvvv . pp`.
    fn take_vector(&mut self, extensions: u8, operands: u8) {
        self.vector = true;
        self.rex = 0x40 | !extensions >> 5 & 7 | operands >> 4 & 8;
        self.third = usize::from(!operands >> 3 & 15);
        self.repeat = [0, 0, 0xf3, 0xf2][usize::from(operands & 3)];
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
                let byte = self.byte()?;
                prefixes.take_vector(byte | 0x7f, byte & 0x7f);
                1
            }
            0xc4 => {
                let (extensions, operands) = (self.byte()?, self.byte()?);
                prefixes.take_vector(extensions, operands);
                extensions & 0x1f
            }
            0x62 => {
                let (extensions, operands) = (self.byte()?, self.byte()?);
                self.byte()?;
                prefixes.take_vector(extensions, operands);
                extensions & 7
            }
            0x0f => return self.escaped(),
            0x8f if self.bytes.get(self.at).is_some_and(|extensions| extensions & 0x1f >= 8) => {
                let (extensions, operands) = (self.byte()?, self.byte()?);
                prefixes.take_vector(extensions, operands);
                prefixes.vector = false;
                let map = Some(extensions & 0x1f).filter(|map| matches!(map, 8..=10))?;
                return Some((Map::Xop(map), self.byte()?));
            }
            _ => return Some((Map::One, first)),
        };
        let map = match vector_map {
            1 => Map::Two,
            2 => Map::Three,
            3 => Map::ThreeWithByte,
            5 | 6 => Map::HalfFloat,
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

    fn modrm(&mut self, rex: u8, is_of_registers: bool) -> Option<(usize, Operand)> {
        let modrm = self.byte()?;
        let extend = |field: u8, bit: u8| usize::from(field & 7 | (rex >> bit & 1) << 3);
        let reg = extend(modrm >> 3, 2);
        let mode = modrm >> 6;
        if mode == 3 || is_of_registers {
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
            base if indexed => Operand::Indexed(base),
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

/// Returns `true` for moves of control and debug registers, whose operand is a register in each mode.
fn is_of_registers(map: Map, opcode: u8) -> bool {
    matches!((map, opcode), (Map::Two, 0x20..=0x23))
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
        Map::Three | Map::ThreeWithByte | Map::HalfFloat | Map::Xop(_) => true,
    }
}

/// Returns the size of the immediate in bytes, `None` for invalid instructions.
fn immediate_size(map: Map, opcode: u8, select: usize, prefixes: &Prefixes) -> Option<usize> {
    let number = if prefixes.half && prefixes.rex & 8 == 0 { 2 } else { 4 };
    Some(match (map, opcode) {
        (Map::One, 0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f) => {
            return None;
        }
        (Map::One, 0x60 | 0x61 | 0x82 | 0x9a | 0xd4 | 0xd5 | 0xd6 | 0xea) => return None,
        (Map::One, 0x8f) if select != 0 => return None,
        (Map::One, 0x00..=0x3f) if opcode & 7 == 4 => 1,
        (Map::One, 0x00..=0x3f) if opcode & 7 == 5 => number,
        (Map::One, 0x68 | 0x69 | 0x81 | 0xa9 | 0xc7) => number,
        (Map::One, 0x6a | 0x6b | 0x70..=0x7f | 0x80 | 0x83 | 0xa8 | 0xb0..=0xb7) => 1,
        (Map::One, 0xc0 | 0xc1 | 0xc6 | 0xcd | 0xe0..=0xe7 | 0xeb) => 1,
        (Map::One, 0xa0..=0xa3) if prefixes.short_address => 4,
        (Map::One, 0xa0..=0xa3) => 8,
        (Map::One, 0xb8..=0xbf) if prefixes.rex & 8 != 0 => 8,
        (Map::One, 0xb8..=0xbf) => number,
        (Map::One, 0xc2 | 0xca) => 2,
        (Map::One, 0xc8) => 3,
        (Map::One, 0xe8 | 0xe9) => 4,
        (Map::One, 0xf6) if select < 2 => 1,
        (Map::One, 0xf7) if select < 2 => number,
        (Map::Two, 0x80..=0x8f) if !prefixes.vector => 4,
        // 3DNow, whose opcode is the last byte.
        (Map::Two, 0x0f) => 1,
        (Map::Two, 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) => 1,
        (Map::ThreeWithByte | Map::Xop(8), _) => 1,
        (Map::Xop(10), _) => 4,
        _ => 0,
    })
}
