//! Offsets of the fields of PHP's structures on 64-bit machines, in bytes.
//!
//! | struct | field | 7.4 | 8.0, 8.1 | 8.2 | 8.3 | 8.4 |
//! |---|---|---|---|---|---|---|
//! | `zend_executor_globals` | `current_execute_data` | 488 | 488 | 488 | 488 | 488 |
//! | `zend_execute_data` | `opline`, `func`, `This.u1.type_info`, `prev_execute_data` | 0, 24, 40, 48 | same | same | same | same |
//! | `zend_function` | `type`, `fn_flags`, `function_name`, `scope` | 0, 4, 8, 16 | same | same | same | same |
//! | `zend_op_array` | `last`: the number of instructions | 60 | 68 | 80 | 76 | 96 |
//! | | `opcodes` | 64 | 72 | 88 | 80 | 104 |
//! | | `filename`, `line_start` | 136, 144 | 144, 152 | 152, 160 | 144, 152 | 168, 176 |
//! | `zend_op` | size, `lineno` | 32, 24 | same | same | same | same |
//! | `zend_generator` | `execute_data`, `node`, `execute_fake` | 64, 160, 200 | 56, 152, 184 | same | same | same |
//! | its node | `child`: the only child | 24 | 16 | same | same | same |
//! | `zend_class_entry` | `name` | 8 | same | same | same | same |
//! | `zend_string` | `len`, `val` | 16, 24 | same | same | same | same |
//!
//! Sources: `Zend/zend_compile.h`, `zend_globals.h` and `zend_types.h` of PHP 7.4.33, 8.1 and
//! 8.2.32; DWARF of a build of 8.2.32; the code of `zend_get_executed_filename_ex` of 7.4.33,
//! 8.2.36 and 8.4.27. 8.3: from the OpenTelemetry profiler's tables.

use super::version::Version;

/// Offsets of the fields of a version's structures, in bytes. Those that all versions share are
/// constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// From the executor's globals to the pointer to the innermost frame.
    pub(super) current: u32,
    /// In a function of a script: the number of instructions, and their address.
    pub(super) last: u32,
    pub(super) opcodes: u32,
    /// In a function of a script: the file, and, 8 bytes behind, the first line.
    pub(super) filename: u32,
    pub(super) generator: GeneratorOffsets,
}

/// Offsets in a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GeneratorOffsets {
    /// The address of its frame.
    pub(super) frame: u16,
    /// The node of the tree of generators that delegate to one another, and in a node the only
    /// child.
    pub(super) node: u16,
    pub(super) child: u16,
    /// The frame that stands for those that delegate.
    pub(super) placeholder: u16,
}

/// Offsets in a function, `zend_function`.
pub(super) mod function {
    pub(in crate::php) const FLAGS: usize = 4;
    pub(in crate::php) const NAME: usize = 8;
    pub(in crate::php) const SCOPE: usize = 16;
}

/// Distance of a class's name from the address of the class.
pub(super) const CLASS_NAME: u64 = 8;

/// Offset in a function of a script from its file to its first line.
pub(super) const TO_LINE: u32 = 8;

/// Number of words that identify a function: the last one is the address of its instructions.
pub(super) const IDENTITY_WORDS: u32 = 3;

impl Offsets {
    /// Returns the offsets of a version.
    pub(super) fn of(version: Version) -> Option<Offsets> {
        let (last, opcodes, filename) = match version {
            Version(7, 4) => (60, 64, 136),
            Version(8, 0 | 1) => (68, 72, 144),
            Version(8, 2) => (80, 88, 152),
            Version(8, 3) => (76, 80, 144),
            Version(8, 4) => (96, 104, 168),
            _ => return None,
        };
        let generator = match version {
            Version(7, _) => GeneratorOffsets { frame: 64, node: 160, child: 24, placeholder: 200 },
            _ => GeneratorOffsets { frame: 56, node: 152, child: 16, placeholder: 184 },
        };
        Some(Offsets { current: 488, last, opcodes, filename, generator })
    }

    /// Returns the offset of the words that identify a function.
    pub(super) fn identity(&self) -> u32 {
        self.opcodes - (IDENTITY_WORDS - 1) * 8
    }

    /// Returns the lowest bit of the number of instructions in the second word of the identity.
    pub(super) fn last_shift(&self) -> u32 {
        self.last % 8 * 8
    }
}
