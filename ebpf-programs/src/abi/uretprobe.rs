//! Return addresses that uretprobes have replaced.
//!
//! A uretprobe replaces the return address of its function by the address of a page of the kernel, the trampoline. The kernel keeps
//! the original one until the function returns:
//!
//! ```text
//!   task ──► mm ──► [uprobes] area ──► address of the trampoline
//!     └────► utask ──► instance ──next──► instance ──► …       newest first
//!                        ├─ stack      address of the word that was replaced
//!                        └─ address    the word
//! ```
//!
//! Several uretprobes of one call have an instance each, with the same contents.
//!
//! The trampoline is the first slot of the page `[uprobes]`. The others hold copies of probed instructions, which a thread executes
//! there: `utask` has the addresses of its slot and of the original instruction.
//!
//! Structures: [uprobes.h](https://github.com/torvalds/linux/blob/v6.12/include/linux/uprobes.h),
//! [uprobes.c](https://github.com/torvalds/linux/blob/v6.12/kernel/events/uprobes.c).

/// Byte offsets in structures of the running kernel. All are 0 if one is unknown; then nothing is replaced.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UretprobeOffsets {
    /// `task_struct.mm`.
    pub memory: u32,
    /// `mm_struct.uprobes_state.xol_area`.
    pub area: u32,
    /// `xol_area.vaddr`.
    pub trampoline: u32,
    /// `task_struct.utask`.
    pub task: u32,
    /// `uprobe_task.return_instances`.
    pub instances: u32,
    /// `return_instance.stack`.
    pub stack: u32,
    /// `return_instance.orig_ret_vaddr`.
    pub address: u32,
    /// `return_instance.next`.
    pub next: u32,
    /// `uprobe_task.xol_vaddr`.
    pub slot: u32,
    /// `uprobe_task.vaddr`.
    pub instruction: u32,
}

/// One instance.
///
/// A struct of words, not an `Option`: the verifier then has one path for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplacedReturn {
    /// Address of the word of the stack that was replaced.
    pub stack: u64,
    /// The original return address.
    pub address: u64,
    /// Address of the next instance; 0 for none.
    pub next: u64,
}

/// Maximum number of instances that are visited; the kernel keeps 64 for each thread.
pub const MAX_INSTANCES: u32 = 64;

/// Size of the page, in bytes; a larger one has further slots behind them, which are not looked at.
pub const PAGE: u64 = 4096;

/// Bytes that the trampoline's code pushes at most, before the system call that ends it.
pub const PUSHED: u64 = 24;

const _: () = assert!(size_of::<UretprobeOffsets>() == 40);
