//! The row that call frame instructions modify.

use ebpf_programs::abi::table::ra;

use crate::table::rules::Packed;

/// A row: the location of the caller's registers for one instruction.
///
/// Holds only the registers that a [`Rule`](ebpf_programs::abi::table::Rule) can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<'a> {
    /// The canonical frame address.
    pub(crate) cfa: Cfa<'a>,
    /// The frame pointer.
    pub(crate) fp: Place<'a>,
    /// The kept register, if there is one.
    pub(crate) kept: Place<'a>,
    /// The return address.
    pub(crate) ra: Place<'a>,
    /// `true` if the return address is signed.
    pub(crate) signed: bool,
}

impl<'a> State<'a> {
    /// The row before all instructions.
    pub(crate) const NEW: State<'static> = State {
        cfa: Cfa::Register { register: 0, offset: 0 },
        fp: Place::Unset,
        kept: Place::Unset,
        ra: Place::Unset,
        signed: false,
    };

    /// Converts a rule with a plain address back to a row, in a function whose first row is
    /// `initial` and first rule `first`.
    pub(crate) fn of(rule: Packed, initial: &State<'a>, first: Packed) -> State<'a> {
        let cfa = Cfa::Register { register: rule.register().into(), offset: rule.offset().into() };
        let fp = match rule.with_fp_of(first) == rule {
            true => initial.fp,
            false => Place::At(rule.fp_offset().into()),
        };
        let ra = match (rule.with_ra_of(first) == rule, rule.ra() & ra::KIND) {
            (true, _) => initial.ra,
            (false, ra::BELOW) => Place::At(-8),
            (false, _) => Place::At(rule.aux().into()),
        };
        State { cfa, fp, kept: initial.kept, ra, signed: rule.ra() & ra::SIGNED != 0 }
    }
}

/// The canonical frame address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa<'a> {
    /// `register + offset`
    Register { register: u16, offset: i64 },
    /// The result of an expression.
    Expression(&'a [u8]),
}

/// The caller's value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Undescribed.
    Unset,
    /// Lost.
    Undefined,
    /// Unchanged.
    Same,
    /// `*(cfa + offset)`
    At(i64),
    /// `cfa + offset`
    Value(i64),
    /// In another register.
    Register(u16),
    /// At the address that an expression computes.
    Expression(&'a [u8]),
    /// The result of an expression.
    ValueExpression(&'a [u8]),
}
