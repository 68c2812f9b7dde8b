//! Instructions of LuaJIT 2.1, as far as names of functions need them. Those of 2.0 are
//! [renumbered](super::build).
//!
//! ```text
//!   bits 0-7  operation   8-15  A   16-23  C   24-31  B        or  16-31  D
//! ```
//!
//! | operations | number | A |
//! |---|---|---|
//! | comparisons | 0-11 | read |
//! | `ISTC`, `ISFC` | 12, 13 | written |
//! | `IST` … `ISNUM` | 14-17 | read |
//! | `MOV` … `KPRI` | 18-43 | written |
//! | `KNIL` | 44 | first of the slots that are written |
//! | `UGET` | 45 | written |
//! | `USETV` … `USETP` | 46-49 | not a slot |
//! | `UCLO` | 50 | not written |
//! | `FNEW` … `GGET` | 51-54 | written |
//! | `GSET` | 55 | read |
//! | `TGETV` … `TGETR` | 56-59 | written |
//! | `TSETV` … `TSETB`, `TSETR` | 60-62, 64 | read |
//! | `TSETM` | 63 | first of the slots that are used up |
//! | `CALLM` … `RETM` | 65-73 | the same |
//! | `RET` … `RET1` | 74-76 | not written |
//! | `FORI` … `JITERL` | 77-84 | first of the slots that are written |
//! | `LOOP` … `JMP` | 85-88 | not written |

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction(pub(super) u32);

/// Effect of an instruction on slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No slot.
    None,
    /// Writes one slot.
    Writes(u8),
    /// Writes slots from the first to the last, inclusive.
    WritesAll(u8, u8),
}

/// Operations.
pub(super) mod operation {
    pub(in crate::luajit) const MOV: u8 = 18;
    pub(in crate::luajit) const KNIL: u8 = 44;
    pub(in crate::luajit) const UGET: u8 = 45;
    pub(in crate::luajit) const GGET: u8 = 54;
    pub(in crate::luajit) const TGETS: u8 = 57;
    pub(in crate::luajit) const CALLM: u8 = 65;
    pub(in crate::luajit) const CALLT: u8 = 68;
    pub(in crate::luajit) const ITERC: u8 = 69;
    pub(in crate::luajit) const ITERN: u8 = 70;
}

impl Instruction {
    pub(super) fn operation(self) -> u8 {
        self.0 as u8
    }

    pub(super) fn a(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(super) fn c(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub(super) fn d(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the effect on slots.
    pub(super) fn effect(self) -> Effect {
        use operation::{CALLM, KNIL};
        match self.operation() {
            KNIL => Effect::WritesAll(self.a(), u8::try_from(self.d()).unwrap_or(u8::MAX)),
            63 | CALLM..=73 | 77..=84 => Effect::WritesAll(self.a(), u8::MAX),
            12 | 13 | 18..=43 | 45 | 51..=54 | 56..=59 => Effect::Writes(self.a()),
            _ => Effect::None,
        }
    }

    /// Returns the slot of the function that a call instruction calls.
    pub(super) fn called_slot(self) -> Option<u8> {
        use operation::{CALLM, CALLT, ITERC, ITERN};
        match self.operation() {
            CALLM..=CALLT => Some(self.a()),
            // The called function was copied from three slots below.
            ITERC | ITERN => self.a().checked_sub(3),
            _ => None,
        }
    }

    /// Returns the name of the metamethod that an instruction calls.
    pub(super) fn metamethod(self) -> Option<&'static str> {
        Some(match self.operation() {
            0..=1 => "__lt",
            2..=3 => "__le",
            4..=11 => "__eq",
            20 => "__unm",
            21 => "__len",
            22 | 27 | 32 => "__add",
            23 | 28 | 33 => "__sub",
            24 | 29 | 34 => "__mul",
            25 | 30 | 35 => "__div",
            26 | 31 | 36 => "__mod",
            37 => "__pow",
            38 => "__concat",
            54 | 56..=59 => "__index",
            55 | 60..=64 => "__newindex",
            _ => return None,
        })
    }
}
