//! The parts that depend on the instruction set: register numbers, and the translation of rows to rules.
//!
//! Each file in the folder defines the same names.

use std::ops::Range;

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::table::{cfa, fp, kept, ra};

use crate::eh_frame::expression::{self, Expression};
use crate::eh_frame::state::{Cfa, Place, State};
use crate::rule::DERIVED;
use crate::table::rules::Packed;

pub(crate) mod aarch64;
pub(crate) mod x86_64;

/// The registers in rules, in DWARF's numbering, and their roles.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    /// The frame pointer.
    pub(crate) fp: u16,
    /// Callee-saved registers that frames start from across calls, except the frame pointer.
    pub(crate) saved: &'static [u16],
    /// The one of them that rules keep, or [`NONE`].
    pub(crate) kept: u16,
    /// Number of general registers, including the stack pointer. A canonical frame address starts from one of them.
    pub(crate) count: u16,
    /// The register of the return address at the entry of a function.
    pub(crate) link: Option<u16>,
    /// `true` if return addresses can be signed.
    pub(crate) signs: bool,
    /// Names of the general registers.
    pub(crate) names: &'static [&'static str],
    /// Returns the rule of a row in a signal frame, if it is one.
    pub(crate) signal: for<'a, 'b> fn(&'a State<'b>) -> Option<Packed>,
    /// Returns `true` if a rule shows that a file has functions that end in `__builtin_eh_return`.
    pub(crate) is_eh_return: fn(Packed) -> bool,
    /// `true` if such functions are searched for in the code of a file.
    pub(crate) finds_eh_return: bool,
    /// Go's use of registers and stack.
    pub(crate) go: Go,
}

/// Go's use of registers and stack.
#[derive(Clone, Debug)]
pub(crate) struct Go {
    /// Returns the rule at this distance of the stack pointer from the entry.
    pub(crate) row: fn(i32) -> Option<Packed>,
    /// Returns the rule, and the number of bytes it covers, between moving the stack pointer by this distance and saving the
    /// frame pointer: compilers before 1.21 emitted both in this order.
    pub(crate) unsaved: fn(i32) -> Option<(Packed, u64)>,
    /// The rule in functions that switch stacks.
    pub(crate) switched: Option<Packed>,
    /// Returns better rules for parts of the code of the function that calls C.
    pub(crate) calls_c: fn(&[u8]) -> Vec<Part>,
    /// The rule in the function that signal handlers return to.
    pub(crate) signal_return: Option<Packed>,
}

/// A part of a function's code and its rule.
pub(crate) type Part = (Range<usize>, Packed);

/// A rule; `complete` is `false` if it loses a part of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) rule: Packed,
    pub(crate) complete: bool,
}

impl Registers {
    /// Returns the registers of an instruction set.
    pub(crate) fn of(arch: Arch) -> Option<&'static Registers> {
        match arch {
            Arch::X86_64 => Some(&x86_64::REGISTERS),
            Arch::Aarch64 => Some(&aarch64::REGISTERS),
            _ => None,
        }
    }

    /// Returns the registers to read a file with again, if these do not suffice for one of its rules.
    pub(crate) fn for_rules(&self, rules: &[Packed]) -> Option<Registers> {
        let kept = rules.iter().find_map(|&rule| self.needed(rule));
        let finds_eh_return = !self.finds_eh_return && rules.iter().any(|&rule| (self.is_eh_return)(rule));
        (kept.is_some() || finds_eh_return).then(|| Registers {
            kept: kept.unwrap_or(self.kept),
            finds_eh_return: finds_eh_return || self.finds_eh_return,
            ..self.clone()
        })
    }

    /// Returns the register that this rule's address starts from, if the table has to keep it.
    fn needed(&self, rule: Packed) -> Option<u16> {
        let needed = u16::from(rule.register());
        // With offset 0 the frame is being realigned: a few instructions without a call.
        let starts = matches!(rule.cfa(), cfa::REGISTER | cfa::DEREF | cfa::PLT) && rule.offset() != 0;
        // Most code without unwind data calls nothing, and only its callers would need the register.
        let is_derived = self.link.is_none() && rule.ra() & DERIVED != 0;
        (self.kept == NONE && starts && !is_derived && self.saved.contains(&needed)).then_some(needed)
    }

    /// Translates a row to a rule.
    ///
    /// If only the frame pointer or the kept register cannot be expressed, the rule marks it as lost: most callers do not
    /// need it.
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

    /// Returns the bits of the kept register; `false` if they lose a part of the row.
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
        if is_resolver(kinds, state) && self.link.is_some() {
            return Some((kinds | (u32::from(ra::BELOW) | signed) << 16, offset.checked_add(16)?, aux));
        }
        let (kind, ra_aux) = match (state.ra, self.link) {
            (Place::At(offset), _) => (ra::SAVED, i32::try_from(offset).ok()?),
            (Place::Register(register), _) if register < self.count => (ra::REGISTER, register.into()),
            (Place::Unset | Place::Same, Some(link)) => (ra::REGISTER, link.into()),
            _ => return None,
        };
        // The address may use the second number itself.
        let free = kinds as u8 == cfa::REGISTER;
        free.then_some((kinds | (u32::from(kind) | signed) << 16, offset, ra_aux))
    }

    /// Returns kind and offset. The kind is a whole word, since reading one byte more than was just written is slow.
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

/// Returns `true` for the row of glibc's `_dl_runtime_resolve` on arm64. It has the return address above the canonical frame address:
/// it takes the 16 bytes that the linkage table pushed for the caller's.
#[inline]
fn is_resolver(kinds: u32, state: &State<'_>) -> bool {
    state.ra == Place::At(8) && kinds as u8 == cfa::REGISTER && matches!(state.fp, Place::Unset | Place::Same)
}

/// Converts an offset from the canonical frame address to a number of words below the return address.
fn words_below(offset: i64) -> Option<u8> {
    let bytes = offset.checked_neg()?.checked_sub(8)?;
    u8::try_from(bytes / 8).ok().filter(|_| bytes % 8 == 0)
}

/// Stands for no register.
pub(crate) const NONE: u16 = u16::MAX;

/// Kinds and numbers of an incomplete rule: see [`Packed::new`].
type Parts = (u32, i32, i32);
