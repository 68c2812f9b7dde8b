//! Return addresses that uretprobes have replaced, by the kernel's own list: see
//! [`abi::uretprobe`](ebpf_programs::abi::uretprobe).

use aya_ebpf::helpers::generated::bpf_get_current_task;
use ebpf_programs::abi::uretprobe::{ReplacedReturn, UretprobeOffsets};
use ebpf_programs::walk::arch::Arch as _;

use crate::arch::Native;
use crate::maps::CONFIG;
use crate::scratch::kernel_word;

/// Returns the address of the current process's page of uprobes; `None` if it has none, or if the kernel's offsets are unknown.
#[inline(always)]
pub(crate) fn page() -> Option<u64> {
    let offsets = &CONFIG.get(0)?.uretprobes;
    if offsets.instances == 0 {
        return None;
    }
    // SAFETY: the helper has no conditions.
    let memory =
        kernel_word(unsafe { bpf_get_current_task() }, offsets.memory).filter(|&memory| memory != 0)?;
    let area = kernel_word(memory, offsets.area).filter(|&area| area != 0)?;
    kernel_word(area, offsets.trampoline).filter(|&page| page != 0)
}

/// Returns the address of the kernel's state of the current thread, and the offsets in it.
#[inline(always)]
fn state() -> Option<(u64, &'static UretprobeOffsets)> {
    let offsets = &CONFIG.get(0)?.uretprobes;
    // SAFETY: the helper has no conditions.
    let state = kernel_word(unsafe { bpf_get_current_task() }, offsets.task).filter(|&state| state != 0)?;
    Some((state, offsets))
}

/// Returns the address of the newest instance of the current thread, in a process that has the [page]; `None` if there is none.
#[inline(always)]
pub(crate) fn first() -> Option<u64> {
    let (state, offsets) = state()?;
    kernel_word(state, offsets.instances).filter(|&first| first != 0)
}

/// Returns the address of the instruction whose copy the current thread executes at `pc`, in the [page].
#[inline(always)]
pub(crate) fn original_instruction(pc: u64) -> Option<u64> {
    let (state, offsets) = state()?;
    let distance = pc.wrapping_sub(kernel_word(state, offsets.slot)?);
    let instruction = kernel_word(state, offsets.instruction)?;
    (distance < Native::UPROBE_SLOT).then_some(instruction.wrapping_add(distance))
}

/// Returns the instance at an address.
#[inline(always)]
pub(crate) fn instance(address: u64) -> Option<ReplacedReturn> {
    let offsets = &CONFIG.get(0)?.uretprobes;
    let stack = kernel_word(address, offsets.stack)?;
    let original = kernel_word(address, offsets.address)?;
    let next = kernel_word(address, offsets.next)?;
    Some(ReplacedReturn { stack, address: original, next })
}
