//! arm64: `user_pt_regs`; the thread pointer is in a separate note.

use super::Layout;

/// x0 to x30, sp, pc, pstate: in DWARF's order but for the last two.
pub(super) static LAYOUT: Layout = Layout { words: 34, pc: 32, thread: None, registers: &SAME };

static SAME: [(usize, usize); 32] = {
    let mut same = [(0, 0); 32];
    let mut number = 0;
    while number < same.len() {
        same[number] = (number, number);
        number += 1;
    }
    same
};
