//! Takes a sample at each `write` call, whose value is the number of bytes that it is asked to
//! write.
//!
//! `cargo xtask object` compiles it to `written.x86_64.o`. The program that loads it is
//! `examples/src/bin/own_program.rs`.
#![no_std]
#![no_main]

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::macros::{map, raw_tracepoint};
use aya_ebpf::maps::{HashMap, ProgramArray};
use aya_ebpf::programs::RawTracePointContext;
use aya_ebpf::{EbpfContext, Global};
use ebpf_programs::abi::own::{Event, MAX_EVENTS, MAX_VALUE, walk};

/// Events by the address of their context: the profiler's map.
#[map]
static OWN_EVENTS: HashMap<u64, Event> = HashMap::pinned(MAX_EVENTS, 0);

/// The profiler's programs that walk stacks at raw tracepoints.
#[map]
static RAW_WALKS: ProgramArray = ProgramArray::pinned(walk::COUNT as u32, 0);

/// Number of the kind of samples. Set before the program is loaded.
#[unsafe(no_mangle)]
static KIND: Global<u32> = Global::new(0);

/// Number of `write` on x86_64.
const WRITE: u64 = 1;

/// Word number of the third argument in `struct pt_regs` of x86_64.
const RDX: usize = 12;

/// Requests a sample at a `write` call.
#[raw_tracepoint(tracepoint = "sys_enter")]
fn written(context: RawTracePointContext) -> i32 {
    let (registers, call) = (context.arg::<*const u64>(0), context.arg::<u64>(1));
    if call != WRITE {
        return 0;
    }
    // SAFETY: the helper fails for an address that cannot be read.
    let Ok(value) = (unsafe { bpf_probe_read_kernel(registers.wrapping_add(RDX)) }) else { return 0 };
    if value > MAX_VALUE {
        // The call fails.
        return 0;
    }
    let key = context.as_ptr() as u64;
    let event = Event { value, kind: KIND.load(), reserved: 0 };
    if OWN_EVENTS.insert(key, event, 0).is_ok() {
        // SAFETY: nothing here needs to be dropped; the helper has no other conditions.
        unsafe { RAW_WALKS.tail_call(&context, walk::OWN) };
        // There is no walk: the profiler pauses or has ended.
        let _ = OWN_EVENTS.remove(key);
    }
    0
}

/// License string; some helpers are restricted to programs under the GPL.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier rejects programs that could get here.
    loop {}
}
