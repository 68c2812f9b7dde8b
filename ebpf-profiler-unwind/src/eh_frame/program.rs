//! Executes call frame instructions.
//!
//! ```text
//!   00 nop                          40+n advance n             80+r offset r, uleb        c0+r restore r
//!   01 set location                 02-04 advance 1, 2, 4 B    05 offset r, uleb          06 restore r
//!   07 undefined r                  08 same r                  09 register r, r           0a remember   0b restore
//!   0c cfa = r + uleb               0d cfa register r          0e cfa offset uleb         0f cfa = expression
//!   10 r at expression              11 offset r, sleb          12 cfa = r + sleb          13 cfa offset sleb
//!   14 r = cfa + uleb               15 r = cfa + sleb          16 r = expression
//!   2d negate signing (arm64)       2e size of arguments       2f offset r, -uleb
//! ```

use std::ops::Range;

use crate::arch::{Registers, Translated};
use crate::bytes::Bytes;
use crate::table::rules::Packed;

use super::cie::Cie;
use super::plain::Progress;
use super::pointer;
use super::state::{Cfa, Place, State};

/// Execution of the instructions of a function.
pub(crate) struct Program<'p, 'a> {
    cie: &'p Cie<'a>,
    registers: &'p Registers,
    end: u64,
    at: u64,
    state: State<'a>,
    remembered: [Option<State<'a>>; DEPTH],
    /// Number of remembered states.
    depth: usize,
}

/// Effect of an instruction.
enum Flow {
    /// Continues the row.
    On,
    /// Finishes the row; the next begins this many code units behind it.
    By(u64),
    /// Finishes the row; the next begins at this address.
    To(u64),
}

/// `None` if the instruction is malformed.
type Step = Option<Flow>;

const ON: Step = Some(Flow::On);

/// Maximum number of remembered states; compilers use one.
pub(crate) const DEPTH: usize = 8;

impl<'p, 'a> Program<'p, 'a> {
    /// Creates a program for the function at `range`.
    pub(crate) fn new(cie: &'p Cie<'a>, registers: &'p Registers, range: Range<u64>) -> Program<'p, 'a> {
        let (at, end) = (range.start, range.end);
        Program { cie, registers, end, at, state: cie.initial, remembered: [None; DEPTH], depth: 0 }
    }

    /// Creates a program for the rest of a function that ends at `end`, behind its plain
    /// instructions. `first` is its first rule.
    pub(crate) fn resume(
        cie: &'p Cie<'a>,
        registers: &'p Registers,
        end: u64,
        (first, progress): (Packed, &Progress),
    ) -> Program<'p, 'a> {
        let state = |rule| State::of(rule, &cie.initial, first);
        Program {
            state: state(progress.rule),
            remembered: progress.remembered.map(|rule| Some(state(rule))),
            depth: progress.depth,
            ..Program::new(cie, registers, progress.at..end)
        }
    }

    /// Returns the current row.
    pub(crate) fn state(&self) -> State<'a> {
        self.state
    }

    /// Returns the address from which on the current row is in effect.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Executes `code` and passes the rule of each finished row to `row`, with its address.
    ///
    /// Returns `None` at a malformed instruction, after the rows before it.
    pub(crate) fn run(&mut self, mut code: Bytes<'a>, mut row: impl FnMut(u64, Translated)) -> Option<()> {
        loop {
            let to = match code.u8() {
                Some(byte) => match self.step(byte, &mut code)? {
                    Flow::On => continue,
                    Flow::By(units) => self.at.checked_add(units.wrapping_mul(self.cie.code_align))?,
                    Flow::To(to) => to,
                },
                None => self.end,
            };
            if to > self.at {
                row(self.at, self.registers.rule(&self.state, self.cie.signal));
            } else if to < self.at {
                return None;
            }
            self.at = to;
            if to >= self.end {
                return Some(());
            }
        }
    }

    fn step(&mut self, byte: u8, code: &mut Bytes<'a>) -> Step {
        let operand = byte & 0x3f;
        match byte & 0xc0 {
            0x40 => by(operand),
            0x80 => self.offset(operand.into(), code),
            0xc0 => self.restore(operand.into()),
            _ => self.extended(byte, code),
        }
    }

    fn extended(&mut self, byte: u8, code: &mut Bytes<'a>) -> Step {
        match byte {
            0x00 => ON,
            0x01 => self.set_location(code),
            0x02 => by(code.u8()?),
            0x03 => by(code.u16()?),
            0x04 => by(code.u32()?),
            0x0a => self.remember(),
            0x0b => self.recall(),
            0x0c..=0x0f | 0x12 | 0x13 => self.define_cfa(byte, code),
            0x2d if self.registers.signs => {
                self.state.signed = !self.state.signed;
                ON
            }
            0x2e => code.uleb().and(ON),
            _ => self.define_register(byte, code),
        }
    }

    /// A relative address would need the address of the instruction; no compiler emits one.
    fn set_location(&mut self, code: &mut Bytes<'a>) -> Step {
        let absolute = self.cie.encoding & 0xf0 == 0;
        pointer::read(code, self.cie.encoding, 0).filter(|_| absolute).map(Flow::To)
    }

    fn define_cfa(&mut self, byte: u8, code: &mut Bytes<'a>) -> Step {
        self.state.cfa = match byte {
            0x0c => Cfa::Register { register: register(code)?, offset: code.uleb()? as i64 },
            0x0d => Cfa::Register { register: register(code)?, offset: self.cfa()?.1 },
            0x0e => Cfa::Register { register: self.cfa()?.0, offset: code.uleb()? as i64 },
            0x0f => Cfa::Expression(block(code)?),
            0x12 => Cfa::Register { register: register(code)?, offset: self.factored(code.sleb()?) },
            _ => Cfa::Register { register: self.cfa()?.0, offset: self.factored(code.sleb()?) },
        };
        ON
    }

    /// Returns register and offset of the canonical frame address, unless it is an expression.
    fn cfa(&self) -> Option<(u16, i64)> {
        match self.state.cfa {
            Cfa::Register { register, offset } => Some((register, offset)),
            Cfa::Expression(_) => None,
        }
    }

    fn offset(&mut self, register: u16, code: &mut Bytes<'a>) -> Step {
        let offset = self.factored(code.uleb()? as i64);
        self.set(register, Place::At(offset))
    }

    fn define_register(&mut self, byte: u8, code: &mut Bytes<'a>) -> Step {
        let named = register(code)?;
        let place = match byte {
            0x05 => Place::At(self.factored(code.uleb()? as i64)),
            0x06 => return self.restore(named),
            0x07 => Place::Undefined,
            0x08 => Place::Same,
            0x09 => Place::Register(register(code)?),
            0x10 => Place::Expression(block(code)?),
            0x11 => Place::At(self.factored(code.sleb()?)),
            0x14 => Place::Value(self.factored(code.uleb()? as i64)),
            0x15 => Place::Value(self.factored(code.sleb()?)),
            0x16 => Place::ValueExpression(block(code)?),
            0x2f => Place::At(self.factored((code.uleb()? as i64).wrapping_neg())),
            _ => return None,
        };
        self.set(named, place)
    }

    fn factored(&self, number: i64) -> i64 {
        number.wrapping_mul(self.cie.data_align)
    }

    fn set(&mut self, register: u16, place: Place<'a>) -> Step {
        if register == self.registers.fp {
            self.state.fp = place;
        }
        if register == self.cie.ra {
            self.state.ra = place;
        }
        if register == self.registers.kept {
            self.state.kept = place;
        }
        ON
    }

    fn restore(&mut self, register: u16) -> Step {
        let initial = &self.cie.initial;
        if register == self.cie.ra {
            self.set(register, initial.ra)
        } else if register == self.registers.fp {
            self.set(register, initial.fp)
        } else if register == self.registers.kept {
            self.set(register, initial.kept)
        } else {
            ON
        }
    }

    fn remember(&mut self) -> Step {
        *self.remembered.get_mut(self.depth)? = Some(self.state);
        self.depth += 1;
        ON
    }

    fn recall(&mut self) -> Step {
        self.depth = self.depth.checked_sub(1)?;
        self.state = self.remembered[self.depth]?;
        ON
    }
}

#[inline]
fn by(units: impl Into<u64>) -> Step {
    Some(Flow::By(units.into()))
}

#[inline]
fn register(code: &mut Bytes<'_>) -> Option<u16> {
    u16::try_from(code.uleb()?).ok()
}

fn block<'a>(code: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let size = code.uleb()?;
    code.take(size)
}
