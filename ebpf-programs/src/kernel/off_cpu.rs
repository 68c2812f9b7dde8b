//! Off-CPU time: from the switch that takes a thread off its CPU to the switch that brings it back.
//!
//! ```text
//!   sched_switch   previous thread: SWITCHED[tid] = now, and whether it is ready to run
//!   sched_wakeup   SWITCHED[tid] is ready to run since now (only for times by state)
//!   sched_waking   waited = now - SWITCHED[tid], threshold, probability ──► sample of the thread that wakes (only for wakers)
//!   (switched)     next thread: waited = now - SWITCHED[tid], threshold, probability ──► WOKEN[cpu], an interrupt
//!   irq_work_entry the next thread: sample with the stack that went to sleep
//!   (resumed)
//! ```
//!
//! A kernel may hide switches: that of one sandbox fires `sched_switch` for no switch away from a thread of its first process. So
//! `SWITCHED` tells threads that run from those that wait. One that leaves its CPU twice came back unseen, and one that comes back
//! twice left unseen: their waits are counted as lost if they may have reached the threshold.
//!
//! At `sched_switch` the memory of the next thread is not accessible, and a walk of the previous thread's stack would cost as
//! much for each of the short waits that no one asks for. So a wait that counts requests an interrupt of this CPU, which it
//! takes as soon as the switch is complete: in the next thread, before that leaves the scheduler. The helper that drains a ring
//! of user space requests such an interrupt, and does nothing else with an empty ring.

use core::ffi::{c_long, c_void};

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_prandom_u32, bpf_get_smp_processor_id,
    bpf_get_stack, bpf_ktime_get_ns, bpf_probe_read_kernel, bpf_user_ringbuf_drain,
};
use aya_ebpf::programs::RawTracePointContext;
use ebpf_programs::abi::config::Config;
use ebpf_programs::abi::mapping::filter;
use ebpf_programs::abi::off_cpu::{OUTSIDE, OffCpu, RUNS, Switched};
use ebpf_programs::abi::reason::Counter;

use crate::context::Context;
use crate::maps::{CONFIG, KICKS, OFF_CPU, PROCESSES, WOKEN};
use crate::output::Counters;
use crate::{budget, filter as filters, life, sample, threads};

/// Indices of arguments of `sched_switch`: not 0 if the previous thread was preempted, the next thread's `task_struct`, and the
/// previous thread's state.
const IS_PREEMPTED: usize = 0;
const NEXT: usize = 2;
const PREVIOUS_STATE: usize = 3;

/// A start that [`budget::count_skipped`] does not time: [`switched`] times all switches.
const NOT_TIMED: u64 = 1;

/// State of a thread that has exited.
const TASK_DEAD: u64 = 0x80;

/// Handles a switch from one thread to another.
#[inline(always)]
pub(crate) fn switched(context: &RawTracePointContext) {
    let (Some(settings), Some(config)) = (OFF_CPU.get(0), CONFIG.get(0)) else { return };
    // SAFETY: the helper has no conditions.
    let now = unsafe { bpf_ktime_get_ns() };
    switch(context, settings, config, now);
    budget::count_idle(settings.event as u16, now);
}

/// As [`switched`], at time `now`.
#[inline(always)]
fn switch(context: &RawTracePointContext, settings: &OffCpu, config: &Config, now: u64) {
    // SAFETY: the helpers have no conditions.
    let (previous, cpu) = unsafe { (bpf_get_current_pid_tgid() as u32, bpf_get_smp_processor_id()) };
    let (state, is_preempted): (u64, u64) = (context.arg(PREVIOUS_STATE), context.arg(IS_PREEMPTED));
    let is_ready = is_preempted as u8 != 0 || state as u32 == 0;
    let at = if filters::is_outside() { now | OUTSIDE } else { now };
    let left = Switched { at, ready: if is_ready { now } else { 0 } };
    let waited = leave(previous, state, left, settings, cpu);
    if waited >= settings.threshold.max(1) && at & OUTSIDE == 0 {
        lose_wait(waited, settings, config, cpu);
    }
    let next: u64 = context.arg(NEXT);
    let [tid, pid] = ids(next, config);
    if tid == 0 {
        // The CPU becomes idle.
        return;
    }
    let known = threads::find(tid);
    let (Switched { at, ready }, is_outside) = since(known, next, settings);
    store(known, tid, Switched { at: now, ready: RUNS }, cpu);
    let waited = now.saturating_sub(at);
    if waited < settings.threshold || waited == 0 {
        return;
    }
    // Before the interrupt, which costs more, and names before the searches for a process.
    if pid == config.excluded_pid {
        return;
    }
    if is_outside || filters::drops_next(next, pid == tid, cpu) {
        return Counters::filter(cpu);
    }
    // SAFETY: the helper has no conditions.
    if !is_filtered(pid, config) && (unsafe { bpf_get_prandom_u32() } as u64) < settings.probability {
        request(settings, Switched { at, ready }, now, tid, cpu);
    }
}

/// Requests the sample of a thread that waited until now, as `switched` tells.
#[inline(always)]
fn request(settings: &OffCpu, switched: Switched, now: u64, tid: u32, cpu: u32) {
    let Switched { at, ready } = switched;
    let Some(woken) = WOKEN.get_ptr_mut(cpu) else { return };
    let weigh = |time| weigh(settings, time);
    // A wake-up that came before the profiler counts from its start.
    let since_ready = if ready > at { ready } else { at };
    let is_split = settings.by_state != 0 && ready != 0;
    let mut waited_ready = if is_split { weigh(now.saturating_sub(since_ready)) } else { 0 };
    let waited = weigh(now.saturating_sub(at));
    let Some(value) = budget::weigh(settings.event as u16, waited) else {
        return budget::count_skipped(settings.event as u16, NOT_TIMED);
    };
    if ready == RUNS {
        // It was switched off unseen, at an unknown time.
        return Counters::lose(cpu, Counter::Untracked);
    }
    if value > waited {
        // At most `value`: no product overflows up to the longest period.
        waited_ready = (waited_ready * ((value << 16) / waited.max(1))) >> 16;
    }
    // SAFETY: the value belongs to this CPU, and interrupts are off.
    unsafe {
        if (*woken).tid != 0 {
            // The interrupt of the previous switch is late.
            Counters::lose(cpu, Counter::Untracked);
        }
        (*woken).value = value;
        (*woken).ready = waited_ready;
        (*woken).tid = tid;
    }
    interrupt(cpu);
}

/// Returns the value of a sampled wait.
#[inline(always)]
fn weigh(settings: &OffCpu, time: u64) -> u64 {
    // In two parts, so that hours of nanoseconds do not overflow.
    time * (settings.weight >> 16) + (time * (settings.weight & 0xffff) >> 16)
}

/// Returns `true` if samples of a process are dropped.
#[inline(always)]
fn is_filtered(pid: u32, config: &Config) -> bool {
    if pid == config.excluded_pid {
        return true;
    }
    match PROCESSES.get_ptr_mut(pid) {
        // SAFETY: the value stays allocated while the program runs.
        Some(process) => unsafe { (*process).filter != filter::KEEP },
        None => life::is_unwanted(pid),
    }
}

/// Records that a thread leaves its CPU. Returns its last wait, and the time since then, if it came back unseen; 0 if it did not.
#[inline(always)]
fn leave(tid: u32, state: u64, left: Switched, settings: &OffCpu, cpu: u32) -> u64 {
    if tid == 0 {
        return 0;
    }
    let known = threads::find(tid);
    // SAFETY: the value stays allocated while the program runs.
    let former = known.map_or(Switched { at: 0, ready: RUNS }, |known| unsafe { *known });
    if state & TASK_DEAD != 0 {
        // It may never have been switched off before.
        threads::remove(tid);
    } else {
        store(known, tid, left, cpu);
    }
    // With the flag it is later than any time.
    let is_unseen = former.ready != RUNS && former.at >= settings.start;
    if is_unseen { (left.at & !OUTSIDE).saturating_sub(former.at) } else { 0 }
}

/// Stores the state of a thread.
#[inline(always)]
fn store(known: Option<*mut Switched>, tid: u32, switched: Switched, cpu: u32) {
    if let Some(known) = known {
        // SAFETY: the value stays allocated while the program runs, and a thread is switched by one CPU at a time.
        unsafe { *known = switched };
    } else if !threads::insert(tid, switched) {
        if let Some(settings) = OFF_CPU.get_ptr_mut(0) {
            // SAFETY: as above.
            unsafe { (*settings).is_full = 1 };
        }
        Counters::lose(cpu, Counter::Untracked);
    }
}

/// Counts a wait of the current thread as lost, unless it would not have been sampled.
#[inline(always)]
fn lose_wait(waited: u64, settings: &OffCpu, config: &Config, cpu: u32) {
    // SAFETY: the helpers have no conditions.
    let (ids, task, random) =
        unsafe { (bpf_get_current_pid_tgid(), bpf_get_current_task(), bpf_get_prandom_u32() as u64) };
    let (pid, tid) = ((ids >> 32) as u32, ids as u32);
    if is_filtered(pid, config)
        || filters::drops_next(task, pid == tid, cpu)
        || random >= settings.probability
    {
        return;
    }
    if budget::weigh(settings.event as u16, weigh(settings, waited)).is_some() {
        Counters::lose(cpu, Counter::Untracked);
    }
}

/// Returns the times since when a thread waits and is ready to run: since its last switch, its start, or the start of sampling.
/// Without a switch, the thread has not run since either, unless there was no room for its state: then it returns a time that
/// drops the wait. The flag is set if the filter rejected the thread's control group when it began to wait.
#[inline(always)]
fn since(known: Option<*mut Switched>, task: u64, settings: &OffCpu) -> (Switched, bool) {
    let mut switched = match known {
        // SAFETY: the value stays allocated while the program runs.
        Some(at) => unsafe { *at },
        None if settings.is_full != 0 => Switched { at: u64::MAX, ready: 0 },
        None => {
            let started: u64 = read(task, settings.start_time_offset);
            // A new thread is ready at once; one that is older than the profiler was blocked, or its wake-up has made it known.
            Switched { at: started, ready: if started > settings.start { started } else { 0 } }
        }
    };
    let is_outside = switched.at & OUTSIDE != 0 && switched.at != u64::MAX;
    if is_outside {
        switched.at &= !OUTSIDE;
    }
    if switched.at < settings.start {
        switched.at = settings.start;
        if switched.ready == RUNS {
            // It left its CPU while nothing was sampled.
            switched.ready = 0;
        }
    }
    (switched, is_outside)
}

/// Records that a thread is ready to run.
#[inline(always)]
pub(crate) fn woken(context: &RawTracePointContext) {
    let Some(config) = CONFIG.get(0) else { return };
    let task: u64 = context.arg(0);
    let tid: u32 = read(task, config.pid_offset);
    // SAFETY: the helper has no conditions.
    let now = unsafe { bpf_ktime_get_ns() };
    if let Some(switched) = threads::find(tid) {
        // SAFETY: the value stays allocated while the program runs, and a blocked thread is woken once.
        unsafe {
            if (*switched).ready == 0 {
                (*switched).ready = now;
            }
        }
    } else if tid != 0 {
        // It was switched off before the profiler's start, from which its wait counts. If there is no room, the wait is not split.
        threads::insert(tid, Switched { at: 0, ready: now });
    }
}

/// Returns `true` if a wake-up ends a wait that is not below the threshold.
#[inline(always)]
pub(crate) fn ends_wait(context: &RawTracePointContext) -> bool {
    OFF_CPU.get(0).is_some_and(|settings| blocked(context, settings) >= settings.threshold.max(1))
}

/// Takes a sample of the thread that wakes another one, or is interrupted by what does.
#[inline(always)]
pub(crate) fn waking(context: &RawTracePointContext) {
    let Some(settings) = OFF_CPU.get(0) else { return };
    let waited = blocked(context, settings);
    // SAFETY: the helper has no conditions.
    if waited == 0 || unsafe { bpf_get_prandom_u32() } as u64 >= settings.probability {
        return;
    }
    sample::take(context, settings.wakers as u16, weigh(settings, waited));
}

/// Returns the time since when the thread that is woken is blocked; 0 if it is not.
#[inline(always)]
fn blocked(context: &RawTracePointContext, settings: &OffCpu) -> u64 {
    let Some(config) = CONFIG.get(0) else { return 0 };
    let task: u64 = context.arg(0);
    let tid: u32 = read(task, config.pid_offset);
    let (Switched { at, ready }, _) = since(threads::find(tid), task, settings);
    if tid == 0 || ready != 0 {
        return 0;
    }
    // SAFETY: the helper has no conditions.
    unsafe { bpf_ktime_get_ns() }.saturating_sub(at)
}

/// Requests an interrupt of this CPU.
#[inline(always)]
fn interrupt(cpu: u32) {
    let Some(ring) = KICKS.get(cpu) else { return };
    let ring = core::ptr::from_ref(ring).cast_mut().cast();
    // SAFETY: `ring` is a ring of user space, and the callback has the signature that the helper requires.
    unsafe {
        bpf_user_ringbuf_drain(ring, ignore as *mut c_void, core::ptr::null_mut(), BPF_RB_FORCE_WAKEUP as u64)
    };
}

/// Ignores what user space wrote, and ends the drain.
extern "C" fn ignore(_: *mut c_void, _: *mut c_void) -> c_long {
    1
}

/// Returns `true` if the thread that this CPU switched to is to be sampled.
#[inline(always)]
pub(crate) fn is_due() -> bool {
    // SAFETY: the helper has no conditions.
    let woken = WOKEN.get_ptr_mut(unsafe { bpf_get_smp_processor_id() });
    // SAFETY: the value belongs to this CPU, and interrupts are off.
    woken.is_some_and(|woken| unsafe { (*woken).tid != 0 })
}

/// Takes the sample of a thread that is back on its CPU.
#[inline(always)]
pub(crate) fn resumed(context: &RawTracePointContext) {
    let start = budget::start();
    // SAFETY: the helpers have no conditions.
    let (ids, cpu) = unsafe { (bpf_get_current_pid_tgid(), bpf_get_smp_processor_id()) };
    let Some(woken) = WOKEN.get_ptr_mut(cpu) else { return };
    // SAFETY: the value belongs to this CPU, and interrupts are off.
    let (tid, value, ready) = unsafe {
        let due = ((*woken).tid, (*woken).value, (*woken).ready);
        (*woken).tid = 0;
        due
    };
    if tid == 0 {
        // An interrupt for something else.
        return;
    }
    let Some(settings) = OFF_CPU.get(0) else { return };
    if tid != ids as u32 {
        return Counters::lose(cpu, Counter::Untracked);
    }
    // SAFETY: as above.
    let skip = unsafe {
        if (*woken).skip == 0 {
            (*woken).skip = frames_of_interrupt(context.as_ptr(), settings) + 1;
        }
        (*woken).skip - 1
    };
    let blocked = value.saturating_sub(ready);
    let number = settings.event as u16;
    // The verifier follows the walk once: one call for all cases.
    let (event, first, second) = if blocked == 0 { (number + 1, ready, 0) } else { (number, blocked, ready) };
    sample::take_two(&Resumed { context, skip }, event, first, second);
    budget::count_sample(number, start, value);
}

/// The context of [`resumed`].
struct Resumed<'c> {
    context: &'c RawTracePointContext,
    skip: u32,
}

impl Context for Resumed<'_> {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.context.as_ptr()
    }

    #[inline(always)]
    fn skipped_frames(&self) -> u32 {
        self.skip
    }
}

/// Returns the number of frames from the leaf to the entry of the interrupt; 0 if it is not among the first 16.
#[inline(never)]
fn frames_of_interrupt(context: *mut c_void, settings: &OffCpu) -> u32 {
    let mut frames = [0u64; 16];
    // SAFETY: the helper writes at most the given number of bytes.
    unsafe { bpf_get_stack(context, frames.as_mut_ptr().cast(), size_of_val(&frames) as u32, 0) };
    let [from, to] = settings.interrupt;
    let mut count = 0;
    for (index, &frame) in frames.iter().enumerate() {
        if frame >= from && frame < to {
            count = index as u32 + 1;
        }
    }
    count
}

/// Returns the ids of a thread and of its process; 0 if they are not readable.
#[inline(always)]
fn ids(task: u64, config: &Config) -> [u32; 2] {
    let [first, second] = read::<[u32; 2]>(task, config.pid_offset);
    let are_neighbours = config.tgid_offset == config.pid_offset + 4;
    [first, if are_neighbours { second } else { read(task, config.tgid_offset) }]
}

/// Returns the number at byte offset `at` of a `task_struct`, with as many bytes as the type has; 0 if it is not readable.
#[inline(always)]
fn read<T: Default>(task: u64, at: u32) -> T {
    let mut value = T::default();
    let to = (&raw mut value).cast();
    // SAFETY: `value` has that many bytes; the helper fails without a fault.
    let error =
        unsafe { bpf_probe_read_kernel(to, size_of::<T>() as u32, task.wrapping_add(at as u64) as *const _) };
    if error == 0 { value } else { T::default() }
}
