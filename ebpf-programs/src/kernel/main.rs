//! The sampling programs: each turns an event into a record. The clock's is the first of them.
//!
//! ```text
//!   event ──► filter ──► registers, kernel stack ──► walk (one bpf_loop) ──► walked record ──► per-CPU buffer
//!                                                      │                          │ long, or buffer full
//!                                                      └─ tables not ready: raw record ──► ring
//! ```
//!
//! The verifier shapes this code. State is in a per-CPU map value, because a program's stack has 512 bytes. Indices into
//! it are masked, because the verifier tracks a mask more reliably than a comparison. The steps of a search are
//! branch-free, because each branch doubles the number of paths that the verifier follows.
#![no_std]
#![no_main]
// An atomic exchange has no other name on this target.
#![feature(asm_experimental_arch)]

mod arch;

mod budget;

mod context;

mod cpu_buffer;

mod drive;

mod life;

mod maps;

mod off_cpu;

mod output;

mod own;

mod raw;

mod scratch;

mod slot;

mod filter;

mod sample;

mod event;

mod function;

mod held;

mod labels;

mod heap;

mod block;

mod span;

mod threads;

mod time_limit;

mod uretprobe;

mod user_registers;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use aya_ebpf::macros::{fentry, fexit, perf_event, raw_tracepoint, tracepoint, uprobe};
use aya_ebpf::programs::{
    FEntryContext, FExitContext, PerfEventContext, ProbeContext, RawTracePointContext, TracePointContext,
};
use ebpf_programs::abi;
use ebpf_programs::abi::own::walk;
use ebpf_programs::abi::reason::Counter;

use crate::maps::{EVENT_WALKS, PROBE_WALKS, RAW_WALKS, TRACE_WALKS, Walks};
use crate::output::Counters;
use crate::scratch::LISTS;

/// Takes a sample, on each CPU at each event of its clock.
#[perf_event]
fn sample(context: PerfEventContext) -> u32 {
    sample::take(&context, 0, 1);
    0
}

/// As [`sample`], with the walker of lists alone: the kernel loads it faster.
#[perf_event]
fn sample_lists(context: PerfEventContext) -> u32 {
    sample::take_with::<_, LISTS>(&context, 0, 1);
    0
}

/// As [`sample`], without walkers of languages.
#[perf_event]
fn sample_native(context: PerfEventContext) -> u32 {
    sample::take_with::<_, 0>(&context, 0, 1);
    0
}

/// Handles a switch from one thread to another.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn switched(context: RawTracePointContext) -> i32 {
    off_cpu::switched(&context);
    0
}

/// Calls the walk that takes the sample that [`switched`] requested.
#[raw_tracepoint(tracepoint = "irq_work_entry")]
fn resumed(context: RawTracePointContext) -> i32 {
    if off_cpu::is_due() {
        call(&RAW_WALKS, walk::EVENT, &context);
    }
    0
}

/// Calls the walk at an event of a counter.
#[perf_event]
fn counted(context: PerfEventContext) -> u32 {
    call(&EVENT_WALKS, walk::EVENT, &context);
    0
}

/// Calls the walk at a function's entry or return.
#[uprobe]
fn probed(context: ProbeContext) -> u32 {
    call(&PROBE_WALKS, walk::EVENT, &context);
    0
}

/// Calls the walk at a tracepoint.
#[tracepoint]
fn traced(context: TracePointContext) -> u32 {
    call(&TRACE_WALKS, walk::EVENT, &context);
    0
}

/// Calls this crate's walk for events of a context. Returns only if there is none.
#[inline(always)]
fn call<C: EbpfContext>(walks: &Walks, number: u32, context: &C) {
    #[cfg(feature = "kernel_5_10")]
    event::constant::pass();
    // SAFETY: nothing here needs to be dropped; the helper has no other conditions.
    unsafe {
        walks.tail_call(context, number);
        Counters::lose(bpf_get_smp_processor_id(), Counter::NoWalk);
    }
}

/// Takes the sample that [`switched`] requested.
#[raw_tracepoint]
fn walk_resumed(context: RawTracePointContext) -> i32 {
    off_cpu::resumed(&context);
    0
}

/// Takes a sample at an event of a counter.
#[perf_event]
fn walk_counted(context: PerfEventContext) -> u32 {
    event::take(&context);
    0
}

/// Takes a sample at a function's entry or return.
#[uprobe]
fn walk_probed(context: ProbeContext) -> u32 {
    event::take_probe(&context);
    0
}

/// Takes a sample at a tracepoint.
#[tracepoint]
fn walk_traced(context: TracePointContext) -> u32 {
    event::take_tracepoint(&context);
    0
}

/// Takes a sample at the entry of a function of the kernel.
#[fentry]
fn function_entered(context: FEntryContext) -> i32 {
    function::enter(&context);
    0
}

/// Begins the time of a function of the kernel.
#[fentry]
fn function_begun(context: FEntryContext) -> i32 {
    function::begin(&context);
    0
}

/// Takes a sample at the exit of a function of the kernel.
#[fexit]
fn function_left(context: FExitContext) -> i32 {
    function::leave(&context);
    0
}

/// Begins the time of a function.
#[uprobe]
fn entered(context: ProbeContext) -> u32 {
    span::enter(&context);
    0
}

/// Calls the walk at the return of a function whose time is sampled.
#[uprobe]
fn left(context: ProbeContext) -> u32 {
    call(&PROBE_WALKS, walk::SPAN, &context);
    0
}

/// Takes a sample of the time of a function, at its return.
#[uprobe]
fn walk_left(context: ProbeContext) -> u32 {
    span::leave(&context);
    0
}

/// Begins the time of a system call.
#[tracepoint]
fn called(context: TracePointContext) -> u32 {
    span::call(&context);
    0
}

/// Calls the walk at the end of a system call whose time is sampled.
#[tracepoint]
fn answered(context: TracePointContext) -> u32 {
    call(&TRACE_WALKS, walk::SPAN, &context);
    0
}

/// Takes a sample of the time of a system call, at its end.
#[tracepoint]
fn walk_answered(context: TracePointContext) -> u32 {
    span::answer(&context);
    0
}

/// Handles the wake-up of a thread.
#[raw_tracepoint(tracepoint = "sched_wakeup")]
fn woken(context: RawTracePointContext) -> i32 {
    off_cpu::woken(&context);
    0
}

/// Calls the walk of the stack that wakes a thread.
#[raw_tracepoint(tracepoint = "sched_waking")]
fn waking(context: RawTracePointContext) -> i32 {
    if off_cpu::ends_wait(&context) {
        call(&RAW_WALKS, walk::SPAN, &context);
    }
    0
}

/// Takes a sample of the stack that wakes a thread.
#[raw_tracepoint]
fn walk_waking(context: RawTracePointContext) -> i32 {
    off_cpu::waking(&context);
    0
}

/// Begins an allocation, and calls its walk if it is sampled.
#[uprobe]
fn allocating(context: ProbeContext) -> u32 {
    if heap::allocate(&context) {
        call(&PROBE_WALKS, walk::HELD, &context);
    }
    0
}

/// Takes the sample of an allocation.
#[uprobe]
fn walk_allocating(context: ProbeContext) -> u32 {
    heap::walk(&context);
    0
}

/// Ends the call of a function that allocates.
#[uprobe]
fn allocated(context: ProbeContext) -> u32 {
    heap::allocated(&context);
    0
}

/// Handles the call of a function that frees.
#[uprobe]
fn freeing(context: ProbeContext) -> u32 {
    heap::free(&context);
    0
}

/// Calls the walk of a thread that issues a request of a disk.
#[raw_tracepoint(tracepoint = "block_bio_queue")]
fn issued(context: RawTracePointContext) -> i32 {
    if block::issue(&context) {
        call(&RAW_WALKS, walk::HELD, &context);
    }
    0
}

/// Takes the sample of a request of a disk.
#[raw_tracepoint]
fn walk_issued(context: RawTracePointContext) -> i32 {
    block::walk(&context);
    0
}

/// Handles the completion of a request of a disk.
#[raw_tracepoint(tracepoint = "block_rq_complete")]
fn finished(context: RawTracePointContext) -> i32 {
    block::finish(&context);
    0
}

/// Handles the completion of a request of a device without a queue.
#[raw_tracepoint(tracepoint = "block_bio_complete")]
fn completed(context: RawTracePointContext) -> i32 {
    block::complete(&context);
    0
}

/// Takes a sample at an own program's event of a clock or counter.
#[perf_event]
fn own_event(context: PerfEventContext) -> u32 {
    own::take(&context);
    0
}

/// Takes a sample at an own program's probe.
#[uprobe]
fn own_probe(context: ProbeContext) -> u32 {
    own::take(&context);
    0
}

/// Takes a sample at an own program's tracepoint.
#[tracepoint]
fn own_trace(context: TracePointContext) -> u32 {
    own::take(&context);
    0
}

/// Takes a sample at an own program's raw tracepoint.
#[raw_tracepoint]
fn own_raw(context: RawTracePointContext) -> i32 {
    own::take(&context);
    0
}

/// Handles an exec.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn executed(_: RawTracePointContext) -> i32 {
    life::remove_current();
    0
}

/// Handles the start of a thread or of a child process.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn forked(context: RawTracePointContext) -> i32 {
    life::inherit(&context);
    0
}

/// Handles the exit of a thread.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn exited(_: RawTracePointContext) -> i32 {
    life::remove_current();
    0
}

/// License string; some helpers are restricted to programs under the GPL.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// ABI version of this object, for the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = "abi")]
static ABI: u32 = abi::VERSION;

/// The walkers that this program has, a bit for each [number](abi::interpreter::walker). The loader clears the bits of those
/// that no language needs, before the program is verified.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static WALKERS: u32 = u32::MAX;

/// 0 if no event can interrupt another, else 1. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static NESTED: u32 = 1;

/// Number of CPUs with a [slot](slot) of their own. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static CPUS: u32 = 1;

/// Number of slots for all CPUs, a power of two. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static SHARED: u32 = 1;

/// Number of buffers for raw records, a power of two. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static RAW_BUFFERS: u32 = 1;

/// Offset of the pointer to a thread's kernel stack in `task_struct`, and size of the stack. Set by the loader.
#[cfg(feature = "kernel_5_10")]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static KERNEL_STACK: [u32; 2] = [0; 2];

/// Not 0 if links have cookies. Set by the loader.
#[cfg(feature = "kernel_5_10")]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static HAS_COOKIES: u32 = 1;

/// Cookie of a program if links have none: see [`event::constant`]. Set by the loader.
#[cfg(feature = "kernel_5_10")]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static COOKIE: u64 = u64::MAX;

/// Not 0 if the tracepoint `block_bio_queue` has the queue as its first argument. Set by the loader.
#[cfg(feature = "kernel_5_10")]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static HAS_QUEUE: u32 = 0;

/// Kinds of samples of the embedder's own programs, a bit for each number. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static OWN_KINDS: u64 = 0;

/// Not 0 if a kind of samples may have a period: see [`budget`]. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static HAS_PERIODS: u32 = 0;

/// Not 0 if the profiler has a budget: see [`budget`]. Set by the loader.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata")]
static IS_GOVERNED: u32 = 0;

/// Required by the language; no code here panics.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
