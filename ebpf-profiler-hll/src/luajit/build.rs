//! Builds of LuaJIT: the layout of their objects, and the numbers of their instructions.
//!
//! | | references | instructions |
//! |---|---|---|
//! | 2.0 | 4 bytes | without `ISTYPE`, `ISNUM`, `TGETR`, `TSETR` |
//! | 2.1 of Debian 11 | 4 bytes | all |
//! | later 2.1 | 8 bytes | all |

use ebpf_programs::abi::luajit::{COMPACT, Layout, WIDE};

/// A build of LuaJIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Offsets in its objects.
    pub(super) layout: &'static Layout,
    /// `true` for the instructions of 2.0.
    has_old_instructions: bool,
}

impl Build {
    /// A build with references of 8 bytes.
    pub(super) const WIDE: Build = Build { layout: &WIDE, has_old_instructions: false };

    /// Returns the build of 2.0 or of 2.1 with references of 4 bytes.
    pub(super) fn compact(has_old_instructions: bool) -> Build {
        Build { layout: &COMPACT, has_old_instructions }
    }

    /// Returns `true` for references of 4 bytes.
    pub(super) fn is_compact(self) -> bool {
        self.layout.reference == COMPACT.reference
    }

    /// Returns an instruction with the number of 2.1.
    pub(super) fn instruction(self, word: u32) -> u32 {
        if !self.has_old_instructions {
            return word;
        }
        let operation = word as u8;
        let missing = match operation {
            0..=15 => 0,
            16..=56 => 2,
            57..=60 => 3,
            61.. => 4,
        };
        word & !0xff | u32::from(operation.saturating_add(missing))
    }
}

#[test]
fn instructions_have_the_numbers_of_2_1() {
    let old = Build::compact(true);
    // ISF, MOV, TGETB, TSETV, TSETM, CALLM, JMP.
    for (from, to) in [(15, 15), (16, 18), (56, 58), (57, 60), (60, 63), (61, 65), (84, 88)] {
        assert_eq!(old.instruction(0x0102_0300 | from), 0x0102_0300 | to);
        assert_eq!(Build::compact(false).instruction(from), from);
    }
}
