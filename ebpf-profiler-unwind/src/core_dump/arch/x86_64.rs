//! x86_64: `user_regs_struct`.

use super::Layout;

/// r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base
/// gs_base ds es fs gs
pub(super) static LAYOUT: Layout = Layout {
    words: 27,
    pc: 16,
    thread: Some(21),
    registers: &[
        (0, 15),
        (1, 14),
        (2, 13),
        (3, 12),
        (4, 6),
        (5, 3),
        (6, 11),
        (7, 10),
        (8, 9),
        (9, 8),
        (10, 0),
        (11, 2),
        (12, 1),
        (13, 4),
        (14, 5),
        (19, 7),
    ],
};
