//! What call frame instructions work on: one row of the table that they describe.

use ebpf_programs::abi::table::ra;

use crate::table::rules::Packed;

/// One row: how to leave the frame at one instruction.
///
/// Of all registers only those are kept that a [`Rule`](ebpf_programs::abi::table::Rule) can speak about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<'a> {
    /// The canonical frame address.
    pub(crate) cfa: Cfa<'a>,
    /// The frame pointer.
    pub(crate) fp: Place<'a>,
    /// The register that is kept, where one is.
    pub(crate) kept: Place<'a>,
    /// The return address.
    pub(crate) ra: Place<'a>,
    /// Whether the return address is signed.
    pub(crate) signed: bool,
}

impl<'a> State<'a> {
    /// Nothing has been said yet.
    pub(crate) const NEW: State<'static> = State {
        cfa: Cfa::Register { register: 0, offset: 0 },
        fp: Place::Unset,
        kept: Place::Unset,
        ra: Place::Unset,
        signed: false,
    };

    /// The row that a rule with a plain address was made of, in a function that begins with `initial`, which is `first`.
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

/// How the canonical frame address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa<'a> {
    /// `register + offset`
    Register { register: u16, offset: i64 },
    /// The result of an expression.
    Expression(&'a [u8]),
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Nothing has been said.
    Unset,
    /// Lost.
    Undefined,
    /// Where it was.
    Same,
    /// `*(cfa + offset)`
    At(i64),
    /// `cfa + offset`
    Value(i64),
    /// In another register.
    Register(u16),
    /// At the address that an expression gives.
    Expression(&'a [u8]),
    /// The result of an expression.
    ValueExpression(&'a [u8]),
}
