//! arm64.

use ebpf_programs::abi::table::{Rule, cfa, fp, ra};

use crate::eh_frame::state::State;

use crate::table::rules::Packed;

use super::{Go, NONE, Registers};

pub(crate) static REGISTERS: Registers = Registers {
    fp: 29,
    saved: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
    kept: NONE,
    count: 32,
    link: Some(LINK as u16),
    signs: true,
    names: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29",
        "x30", "sp",
    ],
    signal,
    is_eh_return: |_| false,
    finds_eh_return: false,
    // Frame pointers do not lead to the end of a Go frame here, and signal handlers return to the vDSO.
    go: Go { row: go_row, unsaved: |_| None, switched: None, calls_c: |_| Vec::new(), signal_return: None },
};

const SP: u8 = 31;
const LINK: i32 = 30;

/// The kernel's signal frame at `sp`: 128 bytes of `siginfo`, then the `ucontext`.
const CONTEXT: i32 = 128;

/// The trampoline of the vDSO. Its unwind data refers to a frame record that the kernel writes
/// beside the frame.
fn signal(_: &State<'_>) -> Option<Packed> {
    Some(Packed::of(&Rule { cfa: cfa::SIGNAL, register: SP, offset: CONTEXT, ..Rule::CANNOT }))
}

/// Go saves the return address at the low end of a frame and the caller's frame pointer below that.
fn go_row(distance: i32) -> Option<Packed> {
    let frame = Rule { cfa: cfa::REGISTER, register: SP, offset: distance, ..Rule::CANNOT };
    match distance {
        ..0 => None,
        0 => Some(Packed::of(&Rule { ra: ra::REGISTER, aux: LINK, ..frame })),
        _ => {
            let (fp_offset, aux) = ((-distance).checked_sub(8)?, -distance);
            Some(Packed::of(&Rule { ra: ra::SAVED, aux, fp: fp::SAVED, fp_offset, ..frame }))
        }
    }
}
