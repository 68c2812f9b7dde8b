//! arm64.

use ebpf_programs::abi::table::{Rule, cfa};

use crate::eh_frame::state::State;

use crate::table::rules::Packed;

use super::Registers;

pub(crate) static REGISTERS: Registers = Registers {
    fp: 29,
    count: 32,
    link: Some(30),
    signs: true,
    names: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29",
        "x30", "sp",
    ],
    signal,
};

const SP: u8 = 31;

/// The kernel's signal frame at `sp`: 128 bytes of `siginfo`, then the `ucontext`.
const CONTEXT: i32 = 128;

/// The trampoline of the vDSO, which describes itself by a frame record that the kernel made up beside the frame.
fn signal(_: &State<'_>) -> Option<Packed> {
    Some(Packed::of(&Rule { cfa: cfa::SIGNAL, register: SP, offset: CONTEXT, ..Rule::CANNOT }))
}
