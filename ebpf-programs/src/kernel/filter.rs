//! Filters that are decided before a stack is walked.

use aya_ebpf::helpers::generated::{
    bpf_current_task_under_cgroup, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_kernel,
};
use ebpf_programs::abi::filter::{CPU_WORDS, Filter, MAX_CGROUPS, NAME, condition};

use crate::context::Context;
use crate::maps::{CGROUPS, FILTER};

/// Returns `true` if an event of the current thread on `cpu` is dropped.
#[inline(always)]
pub(crate) fn drops<C: Context>(context: &C, cpu: u32) -> bool {
    let Some(filter) = FILTER.get(0) else { return false };
    if filter.conditions == 0 {
        return false;
    }
    if filter.conditions & (condition::USER | condition::KERNEL) != 0 {
        let wanted = if context.hit_user_code() { condition::USER } else { condition::KERNEL };
        if filter.conditions & wanted == 0 {
            return true;
        }
    }
    // SAFETY: the helpers have no conditions.
    let (task, ids) = unsafe { (bpf_get_current_task(), bpf_get_current_pid_tgid()) };
    let is_leader = ids as u32 == (ids >> 32) as u32;
    is_unwanted(cpu, task, is_leader as u32) != 0 || is_outside()
}

/// Returns `true` if the event of a thread to which `cpu` switches is dropped, whatever its control group: the helper that compares
/// control groups takes the current thread alone. See [`is_outside`].
#[inline(always)]
pub(crate) fn drops_next(task: u64, is_leader: bool, cpu: u32) -> bool {
    let Some(filter) = FILTER.get(0) else { return false };
    if filter.conditions & !condition::CGROUPS == 0 {
        return false;
    }
    // A thread waits in the kernel.
    if filter.conditions & (condition::USER | condition::KERNEL) == condition::USER {
        return true;
    }
    is_unwanted(cpu, task, is_leader as u32) != 0
}

/// Returns `true` if the current thread is in none of the control groups.
#[inline(always)]
pub(crate) fn is_outside() -> bool {
    let Some(filter) = FILTER.get(0) else { return false };
    filter.conditions & condition::CGROUPS != 0 && !is_in_cgroup(filter.cgroups)
}

/// Returns 1 if the CPU or the names of a thread are not among those accepted.
///
/// Not inlined, because a name needs room on the stack.
#[inline(never)]
fn is_unwanted(cpu: u32, task: u64, is_leader: u32) -> u32 {
    let Some(filter) = FILTER.get(0) else { return 0 };
    let conditions = filter.conditions;
    if conditions & condition::CPUS != 0 {
        let word = filter.cpus[(cpu / 64) as usize & (CPU_WORDS - 1)];
        if cpu >= CPU_WORDS as u32 * 64 || word >> (cpu & 63) & 1 == 0 {
            return 1;
        }
    }
    let mut name = [0; NAME];
    if conditions & condition::THREADS != 0 {
        read_name(task, filter, &mut name);
        if !filter.threads.matches(&name) {
            return 1;
        }
    }
    if conditions & condition::COMMANDS != 0 {
        let leader = if is_leader != 0 { task } else { leader(task, filter) };
        read_name(leader, filter, &mut name);
        if !filter.commands.matches(&name) {
            return 1;
        }
    }
    0
}

/// Copies the name of a thread.
#[inline(always)]
fn read_name(task: u64, filter: &Filter, name: &mut [u8; NAME]) {
    let from = task.wrapping_add(filter.comm_offset as u64);
    // SAFETY: the helper writes at most the given number of bytes, and fails without a fault.
    unsafe { bpf_probe_read_kernel(name.as_mut_ptr().cast(), NAME as u32, from as *const _) };
}

/// Returns the first thread of a thread's process, whose name is that of the process.
#[inline(always)]
fn leader(task: u64, filter: &Filter) -> u64 {
    let mut leader = 0u64;
    let from = task.wrapping_add(filter.leader_offset as u64);
    // SAFETY: as above.
    unsafe { bpf_probe_read_kernel((&raw mut leader).cast(), 8, from as *const _) };
    leader
}

/// Returns `true` if the current thread is in the subtree of one of `count` control groups.
#[inline(always)]
fn is_in_cgroup(count: u32) -> bool {
    let map = (&raw const CGROUPS).cast_mut().cast();
    for index in 0..MAX_CGROUPS {
        // SAFETY: `CGROUPS` is an array of control groups; the helper fails for an index without one.
        if index < count && unsafe { bpf_current_task_under_cgroup(map, index) } == 1 {
            return true;
        }
    }
    false
}
