//! The sampling program: one tick of a CPU's clock becomes one record.
//!
//! ```text
//!   tick ──► wanted? ──► registers, kernel stack ──► walk (one bpf_loop) ──► walked record ──► buffer
//!                                                      │                          │ urgent, or no room
//!                                                      └─ tables not ready: raw record ──► ring
//! ```
//!
//! The verifier shapes this code. State lives in a map value that belongs to the CPU, because a program's
//! stack has 512 bytes; every index into it is masked, because the verifier believes a mask more readily than
//! a comparison; whatever one search step decides is computed without branches, because each branch doubles
//! the paths that it follows.
#![no_std]
#![no_main]

mod cpu_buffer;

mod life;

mod maps;

mod output;

mod raw;

mod scratch;

mod sample;

mod user_registers;

use aya_ebpf::macros::{perf_event, raw_tracepoint};
use ebpf_programs::abi;

use aya_ebpf::programs::{PerfEventContext, RawTracePointContext};

/// Runs on every CPU for every tick of its clock.
#[perf_event]
fn sample(context: PerfEventContext) -> u32 {
    sample::take(&context);
    0
}

/// Runs when a thread becomes another program.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn executed(_: RawTracePointContext) -> i32 {
    life::remove_current();
    0
}

/// Runs when a thread starts another, or a process its child.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn forked(context: RawTracePointContext) -> i32 {
    life::inherit(&context);
    0
}

/// Runs when a thread ends.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn exited(_: RawTracePointContext) -> i32 {
    life::remove_current();
    0
}

/// Lets the kernel accept the program's helpers.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Lets the loader see which version of the ABI this object speaks.
#[unsafe(no_mangle)]
#[unsafe(link_section = "abi")]
static ABI: u32 = abi::VERSION;

/// Nothing here panics; the language asks for this all the same.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
