//! What depends on the instruction set: the numbers of registers, and which rows become which rules.
//!
//! Each folder-mate answers the same questions under the same names.

use std::ops::Range;

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::table::{cfa, fp, kept, ra};

use crate::eh_frame::expression::{self, Expression};
use crate::eh_frame::state::{Cfa, Place, State};
use crate::table::rules::Packed;

pub(crate) mod aarch64;
pub(crate) mod x86_64;

/// The registers that rules speak about, in DWARF's numbering, and what is special about them.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    /// The frame pointer.
    pub(crate) fp: u16,
    /// Those that callees save and frames start from while something is called, but for the frame pointer.
    pub(crate) saved: &'static [u16],
    /// The one of them that is kept, or [`NONE`].
    pub(crate) kept: u16,
    /// How many general registers there are, the stack pointer among them: a rule starts from one of them.
    pub(crate) count: u16,
    /// Where the return address is while nothing has been said about it.
    pub(crate) link: Option<u16>,
    /// Whether return addresses can be signed.
    pub(crate) signs: bool,
    /// The names of the general registers.
    pub(crate) names: &'static [&'static str],
    /// The rule of a row in a signal frame, where it is one.
    pub(crate) signal: for<'a, 'b> fn(&'a State<'b>) -> Option<Packed>,
    /// Returns `true` if a rule shows that a file has functions that end in `__builtin_eh_return`.
    pub(crate) is_eh_return: fn(Packed) -> bool,
    /// Whether such functions are looked for in the code of a file.
    pub(crate) finds_eh_return: bool,
    /// How Go uses them.
    pub(crate) go: Go,
}

/// How Go uses registers and stack.
#[derive(Clone, Debug)]
pub(crate) struct Go {
    /// The rule where the stack pointer is so far from where it was at the entry.
    pub(crate) row: fn(i32) -> Option<Packed>,
    /// Before 1.21 a function makes room first and saves the frame pointer then: the rule between the two where the
    /// stack pointer is so far from the entry, and for how many bytes it holds.
    pub(crate) unsaved: fn(i32) -> Option<(Packed, u64)>,
    /// The rule in functions that change to another stack.
    pub(crate) switched: Option<Packed>,
    /// Where in the code of the function that calls C it can be said better than by that rule.
    pub(crate) calls_c: fn(&[u8]) -> Vec<Part>,
    /// The rule where signal handlers return to.
    pub(crate) signal_return: Option<Packed>,
}

/// A part of a function's code, and the rule there.
pub(crate) type Part = (Range<usize>, Packed);

/// A rule, and whether it says all that the row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) rule: Packed,
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

    /// Returns the registers to read a file with again, if these do not suffice for one of its rules.
    pub(crate) fn for_rules(&self, rules: &[Packed]) -> Option<Registers> {
        let kept = rules.iter().find_map(|&rule| self.wanted(rule));
        let finds_eh_return = !self.finds_eh_return && rules.iter().any(|&rule| (self.is_eh_return)(rule));
        (kept.is_some() || finds_eh_return).then(|| Registers {
            kept: kept.unwrap_or(self.kept),
            finds_eh_return: finds_eh_return || self.finds_eh_return,
            ..self.clone()
        })
    }

    /// The register that should be kept and isn't where this is one of the rules, because its address starts from it.
    fn wanted(&self, rule: Packed) -> Option<u16> {
        let wanted = u16::from(rule.register());
        // Where it is the address itself, a frame is being realigned: a few instructions, and no call.
        let starts = matches!(rule.cfa(), cfa::REGISTER | cfa::DEREF | cfa::PLT) && rule.offset() != 0;
        (self.kept == NONE && starts && self.saved.contains(&wanted)).then_some(wanted)
    }

    /// The rule that means the same as a row.
    ///
    /// Where only the frame pointer or the register that is kept can't be said, it is lost and the rest of the rule
    /// holds: most callers never ask for it.
    #[inline(always)]
    pub(crate) fn rule(&self, state: &State<'_>, signal: bool) -> Translated {
        if signal && let Some(rule) = (self.signal)(state) {
            return Translated { rule, complete: true };
        }
        if state.ra == Place::Undefined {
            return Translated { rule: Packed::END, complete: true };
        }
        let Some((kinds, offset, aux)) = self.cfa(state.cfa).and_then(|cfa| self.ra(cfa, state)) else {
            return Translated { rule: Packed::CANNOT, complete: false };
        };
        let fp = self.fp(&state.fp);
        let (kind, fp_offset) = fp.unwrap_or((fp::UNKNOWN.into(), 0));
        let (kept, said) = if self.kept == NONE { (0, true) } else { self.kept(&state.kept) };
        let rule = Packed::new(kinds | kind << 24 | kept, offset, aux, fp_offset);
        Translated { rule, complete: fp.is_some() && said }
    }

    /// The bits about the register that is kept, and whether they say all about it.
    #[cold]
    fn kept(&self, place: &Place<'_>) -> (u32, bool) {
        let number = u32::from(self.kept) << (16 + kept::SHIFT);
        let (place, said) = match *place {
            Place::Unset | Place::Same => (kept::SAME, true),
            Place::Undefined => (kept::LOST, true),
            Place::At(offset) => match words_below(offset) {
                Some(words @ 1..kept::LOST) => (words, true),
                _ => (kept::LOST, false),
            },
            _ => (kept::LOST, false),
        };
        (number | u32::from(place) << (24 + kept::SHIFT), said)
    }

    #[inline]
    fn cfa(&self, address: Cfa<'_>) -> Option<Parts> {
        match address {
            Cfa::Register { register, offset } => self.parts(cfa::REGISTER, register, offset, 0),
            Cfa::Expression(code) => self.expression(expression::recognize(code)?),
        }
    }

    #[cold]
    fn expression(&self, expression: Expression) -> Option<Parts> {
        match expression {
            Expression::Register { register, offset } => {
                self.parts(cfa::REGISTER, register.into(), offset, 0)
            }
            Expression::Deref { register, offset, added } => {
                self.parts(cfa::DEREF, register.into(), offset, i32::try_from(added).ok()?)
            }
            Expression::Plt { register, offset, from } => {
                self.parts(cfa::PLT, register.into(), offset, from.into())
            }
        }
    }

    #[inline]
    fn parts(&self, kind: u8, register: u16, offset: i64, aux: i32) -> Option<Parts> {
        let known = register < self.count;
        known.then_some((u32::from(kind) | u32::from(register) << 8, i32::try_from(offset).ok()?, aux))
    }

    #[inline]
    fn ra(&self, (kinds, offset, aux): Parts, state: &State<'_>) -> Option<Parts> {
        let signed = u32::from(state.signed) * u32::from(ra::SIGNED);
        if state.ra == Place::At(-8) {
            return Some((kinds | (u32::from(ra::BELOW) | signed) << 16, offset, aux));
        }
        let (kind, ra_aux) = match (state.ra, self.link) {
            (Place::At(offset), _) => (ra::SAVED, i32::try_from(offset).ok()?),
            (Place::Register(register), _) if register < self.count => (ra::REGISTER, register.into()),
            (Place::Unset | Place::Same, Some(link)) => (ra::REGISTER, link.into()),
            _ => return None,
        };
        // The address may need the second number itself.
        let free = kinds as u8 == cfa::REGISTER;
        free.then_some((kinds | (u32::from(kind) | signed) << 16, offset, ra_aux))
    }

    /// The kind and the offset; a whole word for the kind, as reading a byte more than was just written is slow.
    #[inline]
    fn fp(&self, place: &Place<'_>) -> Option<(u32, i32)> {
        match *place {
            Place::At(offset) => Some((fp::SAVED.into(), i32::try_from(offset).ok()?)),
            Place::Unset | Place::Same => Some((fp::SAME.into(), 0)),
            other => self.unusual_fp(other),
        }
    }

    #[cold]
    fn unusual_fp(&self, place: Place<'_>) -> Option<(u32, i32)> {
        match place {
            Place::Undefined => Some((fp::UNKNOWN.into(), 0)),
            Place::Register(register) if register == self.fp => Some((fp::SAME.into(), 0)),
            Place::Expression(code) => match expression::recognize(code)? {
                Expression::Register { register, offset } if u16::from(register) == self.fp => {
                    Some((fp::DIRECT.into(), i32::try_from(offset).ok()?))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// How many words below the return address a slot is whose offset from the canonical frame address is this.
fn words_below(offset: i64) -> Option<u8> {
    let bytes = offset.checked_neg()?.checked_sub(8)?;
    u8::try_from(bytes / 8).ok().filter(|_| bytes % 8 == 0)
}

/// The number of no register.
pub(crate) const NONE: u16 = u16::MAX;

/// Kinds and numbers of an unfinished rule: see [`Packed::new`].
type Parts = (u32, i32, i32);
