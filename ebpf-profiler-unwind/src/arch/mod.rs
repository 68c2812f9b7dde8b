//! What depends on the instruction set: the numbers of registers, and which rows become which rules.
//!
//! Each folder-mate answers the same questions under the same names.

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::table::{Rule, cfa, fp, ra};

use crate::eh_frame::expression::{self, Expression};
use crate::eh_frame::state::{Cfa, Place, State};

pub(crate) mod aarch64;
pub(crate) mod x86_64;

/// The registers that rules speak about, in DWARF's numbering, and what is special about them.
#[derive(Debug)]
pub(crate) struct Registers {
    /// The frame pointer.
    pub(crate) fp: u16,
    /// How many general registers there are, the stack pointer among them: a rule starts from one of them.
    pub(crate) count: u16,
    /// Where the return address is while nothing has been said about it.
    pub(crate) link: Option<u16>,
    /// Whether return addresses can be signed.
    pub(crate) signs: bool,
    /// The names of the general registers.
    pub(crate) names: &'static [&'static str],
    /// The rule of a row in a signal frame, where it is one.
    pub(crate) signal: for<'a, 'b> fn(&'a State<'b>) -> Option<Rule>,
}

/// A rule, and whether it says all that the row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) rule: Rule,
    pub(crate) complete: bool,
}

impl Registers {
    /// Those of an instruction set.
    pub(crate) fn of(arch: Arch) -> Option<&'static Registers> {
        match arch {
            Arch::X86_64 => Some(&x86_64::REGISTERS),
            Arch::Aarch64 => Some(&aarch64::REGISTERS),
            _ => None,
        }
    }

    /// The rule that means the same as a row.
    ///
    /// Where only the frame pointer can't be said, it is lost and the rest of the rule holds: most callers
    /// never ask for it.
    #[inline]
    pub(crate) fn rule(&self, state: &State<'_>, signal: bool) -> Translated {
        if signal && let Some(rule) = (self.signal)(state) {
            return Translated { rule, complete: true };
        }
        if state.ra == Place::Undefined {
            return Translated { rule: Rule::END, complete: true };
        }
        let said = self.cfa(state.cfa).and_then(|rule| self.ra(rule, state));
        let Some(rule) = said else {
            return Translated { rule: Rule::CANNOT, complete: false };
        };
        match self.fp(state.fp) {
            Some((fp, fp_offset)) => Translated { rule: Rule { fp, fp_offset, ..rule }, complete: true },
            None => Translated { rule: Rule { fp: fp::UNKNOWN, ..rule }, complete: false },
        }
    }

    #[inline]
    fn cfa(&self, address: Cfa<'_>) -> Option<Rule> {
        let (cfa, register, offset, aux) = match address {
            Cfa::Register { register, offset } => (cfa::REGISTER, register, offset, 0),
            Cfa::Expression(code) => match expression::recognize(code)? {
                Expression::Register { register, offset } => (cfa::REGISTER, register.into(), offset, 0),
                Expression::Deref { register, offset, added } => (cfa::DEREF, register.into(), offset, added),
                Expression::Plt { register, offset, from } => {
                    (cfa::PLT, register.into(), offset, from.into())
                }
            },
        };
        if register >= self.count {
            return None;
        }
        let (offset, aux) = (i32::try_from(offset).ok()?, i32::try_from(aux).ok()?);
        Some(Rule { cfa, register: register as u8, offset, aux, ..Rule::CANNOT })
    }

    #[inline]
    fn ra(&self, rule: Rule, state: &State<'_>) -> Option<Rule> {
        let (kind, aux) = match (state.ra, self.link) {
            (Place::At(-8), _) => (ra::BELOW, 0),
            (Place::At(offset), _) => (ra::SAVED, i32::try_from(offset).ok()?),
            (Place::Register(register), _) if register < self.count => (ra::REGISTER, register.into()),
            (Place::Unset | Place::Same, Some(link)) => (ra::REGISTER, link.into()),
            _ => return None,
        };
        // Both the address and the return address may want the second number.
        let free = rule.cfa == cfa::REGISTER || kind == ra::BELOW;
        let aux = if kind == ra::BELOW { rule.aux } else { aux };
        let signed = if state.signed { ra::SIGNED } else { 0 };
        free.then_some(Rule { ra: kind | signed, aux, ..rule })
    }

    #[inline]
    fn fp(&self, place: Place<'_>) -> Option<(u8, i32)> {
        match place {
            Place::Unset | Place::Same => Some((fp::SAME, 0)),
            Place::At(offset) => Some((fp::SAVED, i32::try_from(offset).ok()?)),
            Place::Undefined => Some((fp::UNKNOWN, 0)),
            Place::Register(register) if register == self.fp => Some((fp::SAME, 0)),
            Place::Expression(code) => match expression::recognize(code)? {
                Expression::Register { register, offset } if u16::from(register) == self.fp => {
                    Some((fp::DIRECT, i32::try_from(offset).ok()?))
                }
                _ => None,
            },
            _ => None,
        }
    }
}
