//! Carries out call frame instructions.
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

use crate::arch::Registers;
use crate::bytes::Bytes;

use super::cie::Cie;
use super::pointer;
use super::state::{Cfa, Place, State};

/// Instructions on their way through one function.
pub(crate) struct Program<'p, 'a> {
    cie: &'p Cie<'a>,
    registers: &'p Registers,
    range: Range<u64>,
    at: u64,
    state: State<'a>,
    remembered: &'p mut Vec<State<'a>>,
}

/// Whether there is more to do.
type Step = Option<bool>;

const GO_ON: Step = Some(true);

/// How many states can be remembered at a time; compilers use one.
const DEPTH: usize = 8;

impl<'p, 'a> Program<'p, 'a> {
    /// A program for the function at `range`; `remembered` is room that is used again and again.
    #[inline]
    pub(crate) fn new(
        cie: &'p Cie<'a>,
        registers: &'p Registers,
        range: Range<u64>,
        remembered: &'p mut Vec<State<'a>>,
    ) -> Program<'p, 'a> {
        remembered.clear();
        Program { cie, registers, at: range.start, range, state: cie.initial, remembered }
    }

    /// The row in force.
    pub(crate) fn state(&self) -> State<'a> {
        self.state
    }

    /// From where on the row in force holds.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Carries out `code`, giving each finished row to `emit`: from which address on it holds, and the row.
    ///
    /// `None` when an instruction makes no sense; rows up to there have been given.
    #[inline]
    pub(crate) fn run(&mut self, mut code: Bytes<'a>, mut emit: impl FnMut(u64, &State<'a>)) -> Option<()> {
        while let Some(byte) = code.u8() {
            let operand = byte & 0x3f;
            let go_on = match byte >> 6 {
                1 => self.advance(operand.into(), &mut emit),
                2 => self.offset(operand.into(), &mut code),
                3 => self.restore(operand.into()),
                _ => self.extended(byte, &mut code, &mut emit),
            }?;
            if !go_on {
                return Some(());
            }
        }
        emit(self.at, &self.state);
        Some(())
    }

    #[inline]
    fn extended(&mut self, byte: u8, code: &mut Bytes<'a>, emit: &mut impl FnMut(u64, &State<'a>)) -> Step {
        match byte {
            0x00 => GO_ON,
            0x01 => {
                let to =
                    pointer::read(code, self.cie.encoding, 0).filter(|_| self.cie.encoding & 0xf0 == 0)?;
                self.go_to(to, emit)
            }
            0x02 => self.advance(code.u8()?.into(), emit),
            0x03 => self.advance(code.u16()?.into(), emit),
            0x04 => self.advance(code.u32()?.into(), emit),
            0x0a => self.remember(),
            0x0b => self.recall(),
            0x0c..=0x0f | 0x12 | 0x13 => self.define_cfa(byte, code),
            0x2d if self.registers.signs => {
                self.state.signed = !self.state.signed;
                GO_ON
            }
            0x2e => code.uleb().and(GO_ON),
            _ => self.define_register(byte, code),
        }
    }

    #[inline]
    fn advance(&mut self, delta: u64, emit: &mut impl FnMut(u64, &State<'a>)) -> Step {
        let to = self.at.checked_add(delta.wrapping_mul(self.cie.code_align))?;
        self.go_to(to, emit)
    }

    #[inline]
    fn go_to(&mut self, to: u64, emit: &mut impl FnMut(u64, &State<'a>)) -> Step {
        if to < self.at {
            return None;
        }
        if to > self.at {
            emit(self.at, &self.state);
            self.at = to;
        }
        Some(to < self.range.end)
    }

    #[inline]
    fn define_cfa(&mut self, byte: u8, code: &mut Bytes<'a>) -> Step {
        self.state.cfa = match byte {
            0x0c => Cfa::Register { register: register(code)?, offset: code.uleb()? as i64 },
            0x0d => Cfa::Register { register: register(code)?, offset: self.cfa()?.1 },
            0x0e => Cfa::Register { register: self.cfa()?.0, offset: code.uleb()? as i64 },
            0x0f => Cfa::Expression(block(code)?),
            0x12 => Cfa::Register { register: register(code)?, offset: self.factored(code.sleb()?) },
            _ => Cfa::Register { register: self.cfa()?.0, offset: self.factored(code.sleb()?) },
        };
        GO_ON
    }

    /// The parts of the present canonical frame address, where it has any.
    fn cfa(&self) -> Option<(u16, i64)> {
        match self.state.cfa {
            Cfa::Register { register, offset } => Some((register, offset)),
            Cfa::Expression(_) => None,
        }
    }

    #[inline]
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

    #[inline]
    fn set(&mut self, register: u16, place: Place<'a>) -> Step {
        if register == self.registers.fp {
            self.state.fp = place;
        }
        if register == self.cie.ra {
            self.state.ra = place;
        }
        GO_ON
    }

    #[inline]
    fn restore(&mut self, register: u16) -> Step {
        if register == self.registers.fp {
            self.state.fp = self.cie.initial.fp;
        }
        if register == self.cie.ra {
            self.state.ra = self.cie.initial.ra;
        }
        GO_ON
    }

    fn remember(&mut self) -> Step {
        if self.remembered.len() == DEPTH {
            return None;
        }
        self.remembered.push(self.state);
        GO_ON
    }

    fn recall(&mut self) -> Step {
        self.state = self.remembered.pop()?;
        GO_ON
    }
}

#[inline]
fn register(code: &mut Bytes<'_>) -> Option<u16> {
    u16::try_from(code.uleb()?).ok()
}

fn block<'a>(code: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let size = code.uleb()?;
    code.take(size)
}
