//! Executes the few call frame instructions of which nearly all functions consist, directly on a
//! rule.
//!
//! ```text
//!   00 nop            02, 03 advance 1, 2 B     0a remember     0c cfa = r + uleb     0e cfa offset uleb
//!   40+n advance n    2d negate signing         0b restore      0d cfa register r
//!   80+r offset r, uleb, c0+r restore r: of frame pointer and return address; other registers are ignored
//! ```
//!
//! [`Program`](super::program::Program) executes the rest of a function from the first other
//! instruction on.

use ebpf_programs::abi::table::{cfa, fp};

use crate::arch::{NONE, Registers};
use crate::bytes::Bytes;
use crate::table::rules::Packed;

use super::cie::Cie;
use super::program::DEPTH;

/// Executor for the functions of a CIE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// Rule at the entry of a function.
    pub(crate) first: Packed,
    code_align: u64,
    data_align: i64,
    fp: u16,
    /// A bit for each register in rules: frame pointer and return address.
    tracked: u64,
    /// Number of registers that an address may start from.
    count: u16,
    signs: bool,
}

/// State of an execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Address from which on `rule` is in effect.
    pub(crate) at: u64,
    pub(crate) rule: Packed,
    pub(crate) remembered: [Packed; DEPTH],
    /// Number of remembered rules.
    pub(crate) depth: usize,
}

impl Progress {
    /// Creates the state at the start of a function.
    #[inline]
    pub(crate) fn new(begin: u64, first: Packed) -> Progress {
        Progress { at: begin, rule: first, remembered: [Packed::NO_DATA; DEPTH], depth: 0 }
    }
}

impl Plain {
    /// Returns the executor, or `None` if rules of the CIE are more than plain.
    pub(crate) fn of(cie: &Cie<'_>, registers: &Registers) -> Option<Plain> {
        let first = registers.rule(&cie.initial, cie.signal);
        let is_plain = first.complete
            && first.rule.cfa() == cfa::REGISTER
            && matches!(first.rule.fp(), fp::SAME | fp::SAVED)
            && registers.kept == NONE
            && registers.fp != cie.ra
            && !cie.signal;
        is_plain.then_some(Plain {
            first: first.rule,
            code_align: cie.code_align,
            data_align: cie.data_align,
            fp: registers.fp,
            tracked: bit(registers.fp) | bit(cie.ra),
            count: registers.count,
            signs: registers.signs,
        })
    }

    /// Executes `code` and passes each finished row to `row`, up to the first instruction that is
    /// not plain.
    ///
    /// Returns `true` if there was none: the function ends at `end`. All in one loop: helper
    /// functions make it slower, inlined or not, since nearly all rows come from its first arm.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        progress: &mut Progress,
        code: &mut Bytes<'_>,
        end: u64,
        mut row: impl FnMut(u64, Packed),
    ) -> bool {
        let (mut at, mut rule, mut rest) = (progress.at, progress.rule, code.0);
        let done = loop {
            code.0 = rest;
            let (units, after, next) = match *rest {
                [advance @ ADVANCE..OFFSET, DEF_CFA_OFFSET, offset @ 0..MIN_MULTIBYTE, ref after @ ..] => {
                    (u64::from(advance & OPERAND), after, rule.with_offset(offset.into()))
                }
                [advance @ ADVANCE..OFFSET, ref after @ ..] => (u64::from(advance & OPERAND), after, rule),
                [store @ OFFSET..RESTORE, offset @ 0..MIN_MULTIBYTE, ref after @ ..] => {
                    match self.stored(rule, store & OPERAND, offset.into()) {
                        Some(changed) => (rule, rest) = (changed, after),
                        None => break false,
                    }
                    continue;
                }
                [NOP, ref after @ ..] => {
                    rest = after;
                    continue;
                }
                [] => {
                    if at < end {
                        row(at, rule);
                    }
                    break at < end;
                }
                [byte, ref after @ ..] => {
                    let mut after = Bytes(after);
                    match self.rare(byte, rule, progress, &mut after) {
                        Some(Rare::Advance(units)) => (units, after.0, rule),
                        Some(Rare::Rule(changed)) => {
                            (rule, rest) = (changed, after.0);
                            continue;
                        }
                        None => break false,
                    }
                }
            };
            let Some(to) = at.checked_add(units.wrapping_mul(self.code_align)) else { break false };
            if to > at {
                row(at, rule);
            }
            (at, rule, rest) = (to, next, after);
            if to >= end {
                break true;
            }
        };
        progress.at = at;
        progress.rule = rule;
        done
    }

    /// Returns the rule after a register was stored.
    #[inline(always)]
    fn stored(&self, rule: Packed, register: u8, offset: u64) -> Option<Packed> {
        if self.tracked >> register & 1 == 0 {
            return Some(rule);
        }
        let offset = i32::try_from((offset as i64).wrapping_mul(self.data_align)).ok()?;
        let is_fp = u16::from(register) == self.fp;
        Some(if is_fp { rule.with_fp_at(offset) } else { rule.with_ra_at(offset) })
    }

    /// Returns the rule after a register was restored.
    #[inline(always)]
    fn restored(&self, rule: Packed, register: u8) -> Packed {
        if self.tracked >> register & 1 == 0 {
            return rule;
        }
        let is_fp = u16::from(register) == self.fp;
        if is_fp { rule.with_fp_of(self.first) } else { rule.with_ra_of(self.first) }
    }

    #[inline(always)]
    fn rare(&self, byte: u8, rule: Packed, progress: &mut Progress, rest: &mut Bytes<'_>) -> Option<Rare> {
        Some(match byte {
            DEF_CFA_OFFSET => Rare::Rule(rule.with_offset(offset(rest)?)),
            OFFSET..RESTORE => Rare::Rule(self.stored(rule, byte & OPERAND, rest.uleb()?)?),
            RESTORE.. => Rare::Rule(self.restored(rule, byte & OPERAND)),
            0x02 => Rare::Advance(rest.u8()?.into()),
            0x03 => Rare::Advance(rest.u16()?.into()),
            0x0a => {
                *progress.remembered.get_mut(progress.depth)? = rule;
                progress.depth += 1;
                Rare::Rule(rule)
            }
            0x0b => {
                progress.depth = progress.depth.checked_sub(1)?;
                Rare::Rule(*progress.remembered.get(progress.depth)?)
            }
            0x0c => {
                let from = self.from(rest)?;
                Rare::Rule(rule.with_register(from).with_offset(offset(rest)?))
            }
            0x0d => Rare::Rule(rule.with_register(self.from(rest)?)),
            0x2e => {
                rest.uleb()?;
                Rare::Rule(rule)
            }
            0x2d if self.signs => Rare::Rule(rule.with_other_signing()),
            _ => return None,
        })
    }

    /// Decodes a register that an address may start from.
    #[inline(always)]
    fn from(&self, rest: &mut Bytes<'_>) -> Option<u8> {
        rest.u8().filter(|&register| u16::from(register) < self.count)
    }
}

/// Effect of one of the rarer instructions.
enum Rare {
    Rule(Packed),
    Advance(u64),
}

/// Decodes an unsigned number; the fast path covers two bytes, as nearly all have.
#[inline(always)]
fn offset(rest: &mut Bytes<'_>) -> Option<i32> {
    let (number, after) = match *rest.0 {
        [number @ 0..MIN_MULTIBYTE, ref after @ ..] => (number.into(), after),
        [low, high @ 0..MIN_MULTIBYTE, ref after @ ..] => {
            (i32::from(low & !MIN_MULTIBYTE) | i32::from(high) << 7, after)
        }
        _ => long_offset(rest.0)?,
    };
    rest.0 = after;
    Some(number)
}

/// Decodes any number and returns the bytes behind it.
#[cold]
#[inline(never)]
fn long_offset(rest: &[u8]) -> Option<(i32, &[u8])> {
    let mut rest = Bytes(rest);
    Some((i32::try_from(rest.uleb()?).ok()?, rest.0))
}

/// Returns the bit of a register that fits an instruction of one byte.
fn bit(register: u16) -> u64 {
    1u64.checked_shl(register.into()).unwrap_or(0)
}

const NOP: u8 = 0;
const DEF_CFA_OFFSET: u8 = 0x0e;
const ADVANCE: u8 = 0x40;
const OFFSET: u8 = 0x80;
const RESTORE: u8 = 0xc0;
const OPERAND: u8 = 0x3f;
/// Numbers from here on have more than one byte.
const MIN_MULTIBYTE: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::aarch64;
    use crate::arch::x86_64;
    use crate::eh_frame::program::Program;
    use crate::eh_frame::state::{Cfa, Place, State};

    const END: u64 = 0x1_0000;

    fn cie(registers: &Registers, ra: u16, place: Place<'static>) -> Cie<'static> {
        let cfa = Cfa::Register { register: registers.count - 1, offset: 8 };
        let initial = State { cfa, ra: place, ..State::NEW };
        Cie { encoding: 0, augmented: false, signal: false, code_align: 1, data_align: -8, ra, initial }
    }

    /// Returns all rows, and `true` if all instructions are valid. Plain instructions are executed
    /// here or by the program.
    fn rows(cie: &Cie<'_>, registers: &Registers, code: &[u8], here: bool) -> (Vec<(u64, Packed)>, bool) {
        let mut rows = Vec::new();
        let mut rest = Bytes(code);
        let mut program = Program::new(cie, registers, 0..END);
        if here {
            let plain = Plain::of(cie, registers).unwrap();
            let mut progress = Progress::new(0, plain.first);
            if plain.run(&mut progress, &mut rest, END, |at, rule| rows.push((at, rule))) {
                return (rows, true);
            }
            program = Program::resume(cie, registers, END, (plain.first, &progress));
        }
        let done = program.run(rest, |at, translated| rows.push((at, translated.rule)));
        (rows, done.is_some())
    }

    /// Returns random instructions of all kinds, most of them plain.
    fn some_code(random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
        let mut code = Vec::new();
        for _ in 0..1 + random(24) {
            let fp_or_ra = [6, 16, 29, 30, 3][random(5) as usize];
            let limit = if random(8) == 0 { 256 } else { 128 };
            let number = random(limit) as u8;
            match random(12) {
                0..3 => code.push(0x41 + random(8) as u8),
                3 | 4 => code.extend([0x0e, number]),
                5 => code.extend([0x80 | fp_or_ra, number % 8]),
                6 => code.push(0xc0 | fp_or_ra),
                7 => code.push(0x0a + random(2) as u8),
                8 => code.extend([0x0c, number % 40, number]),
                9 => code.extend([0x0d, number % 40]),
                10 => code.extend([[0, 0x2d][random(2) as usize], 0x02, number]),
                _ => code.push(random(256) as u8),
            }
        }
        code
    }

    #[test]
    fn the_rows_are_those_of_the_program() {
        let mut state = 1u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % limit
        };
        let x86 = (&x86_64::REGISTERS, cie(&x86_64::REGISTERS, 16, Place::At(-8)));
        let arm = (&aarch64::REGISTERS, cie(&aarch64::REGISTERS, 30, Place::Unset));
        let mut whole = 0;
        for round in 0..20_000 {
            let (registers, cie) = if round % 2 == 0 { &x86 } else { &arm };
            let code = some_code(&mut random);
            let here = rows(cie, registers, &code, true);
            assert_eq!(here, rows(cie, registers, &code, false), "{code:x?}");
            whole += usize::from(here.1);
        }
        assert!(whole > 2000, "hardly any of them made sense");
    }
}
