//! Raw ticks: the tables weren't ready in the kernel, so the walk happens here, once they are.

use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::walk::arch::X86_64;

use crate::process::{Registry, System};
use crate::sample::TickRecord;
use crate::trace::{Stop, Walker};

/// How many tables one walk may ask for; more than files in any process that is not out to be a nuisance.
const MAX_TABLES: usize = 256;

/// Walks a raw tick, building the tables that it asks for.
pub(super) fn walk(
    walker: &mut Walker,
    registry: &mut Registry,
    tick: &TickRecord<'_>,
    registers: &Registers,
    stack: &[u64],
) -> Stop {
    walker.clear();
    if stack.is_empty() {
        // The program's memory is gone already: the kernel is taking the process apart.
        return Stop::NoUserStack;
    }
    let Some(mut process) = registry.tell(tick.pid, tick.time) else { return Stop::UnknownProcess };
    let mut looked_again = false;
    for _ in 0..MAX_TABLES {
        let bottom = registers.values[x86_64::SP];
        let mut memory = Memory { stack, bottom, pid: tick.pid, system: registry.system(), missed: false };
        let mut read = |address| memory.read(address);
        let stop = walker.walk::<X86_64>(registers, &process, registry.tables(), &mut read);
        let missed = memory.missed;
        match stop {
            Stop::Pending if registry.build(tick.pid, walker.address(), tick.time) => {}
            Stop::Unmapped if !looked_again => {
                looked_again = true;
                registry.look_again(tick.pid, tick.time);
                match registry.tell(tick.pid, tick.time) {
                    Some(told) => process = told,
                    None => return stop,
                }
            }
            // The kernel is about to start another program in it: these are the registers of the former.
            Stop::Unmapped if walker.frames().is_empty() && !tick.kernel.is_empty() => {
                return Stop::NoUserStack;
            }
            Stop::Unreadable if missed => return Stop::CopyEnds,
            _ => return stop,
        }
    }
    Stop::Pending
}

/// The copied stack, and for everything else the process as it is now: its code, most likely unchanged.
struct Memory<'a> {
    stack: &'a [u64],
    bottom: u64,
    pid: u32,
    system: &'a dyn System,
    /// Whether a word behind the copied part was asked for.
    missed: bool,
}

impl Memory<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.bottom);
        if offset < self.stack.len() as u64 * 8 {
            let index = usize::try_from(offset / 8).ok()?;
            let shift = offset % 8 * 8;
            let low = self.stack[index] >> shift;
            return match shift {
                0 => Some(low),
                _ => Some(low | self.stack.get(index + 1)? << (64 - shift)),
            };
        }
        self.other(address)
    }

    /// Not the stack, which has moved on since: only memory far from it is asked for.
    fn other(&mut self, address: u64) -> Option<u64> {
        const STACK: u64 = 16 << 20;
        if address.wrapping_sub(self.bottom) < STACK {
            self.missed = true;
            return None;
        }
        let mut bytes = [0; 8];
        self.system.read(self.pid, address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}
