//! Raw ticks: the tables weren't ready in the kernel, so the walk happens here, once they are.

use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::walk::arch::X86_64;

use crate::process::System;
use crate::registry::Registry;
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
    let Some(process) = registry.publish(tick.pid, tick.time) else { return registry.stop_of(tick.pid) };
    let mut raw =
        Raw { walker, registry, tick, process, registers, stack, looked_again: false, missed: false };
    for _ in 0..MAX_TABLES {
        let stop = raw.walk();
        if !raw.mend(stop) {
            let verdict = raw.verdict(stop);
            if verdict == Stop::CopyEnds {
                // What lies beyond the copied part can't be asked for by a walk. Only a kernel side that knows all of
                // it gets there.
                raw.registry.build_tables(tick.pid, tick.time);
            }
            return verdict;
        }
    }
    Stop::Pending
}

/// A raw tick that is being walked.
struct Raw<'a> {
    walker: &'a mut Walker,
    registry: &'a mut Registry,
    tick: &'a TickRecord<'a>,
    process: Process,
    registers: &'a Registers,
    stack: &'a [u64],
    looked_again: bool,
    /// Whether a word behind the copied part of the stack was asked for.
    missed: bool,
}

impl Raw<'_> {
    fn walk(&mut self) -> Stop {
        let bottom = self.registers.values[x86_64::SP];
        let system = self.registry.system();
        let mut memory = Memory { stack: self.stack, bottom, pid: self.tick.pid, system, missed: false };
        let mut read = |address| memory.read(address);
        // Scripts have gone on since: their frames lie in memory that wasn't copied.
        let registers = Registers { thread: 0, ..*self.registers };
        let tables = self.registry.tables();
        let stop = self.walker.walk::<X86_64>(&registers, &self.process, tables, &mut read);
        self.missed = memory.missed;
        stop
    }

    /// Whether what ended the walk is out of its way now.
    fn mend(&mut self, stop: Stop) -> bool {
        let (pid, now) = (self.tick.pid, self.tick.time);
        match stop {
            Stop::Pending => self.registry.build_table(pid, self.walker.address(), now),
            Stop::Unmapped if !self.looked_again => {
                self.looked_again = true;
                self.registry.reread_mappings(pid, now);
                let published = self.registry.publish(pid, now);
                self.process = published.unwrap_or(self.process);
                published.is_some()
            }
            _ => false,
        }
    }

    /// What the end of the last walk means.
    fn verdict(&self, stop: Stop) -> Stop {
        match stop {
            // The kernel is about to start another program in it: these are the registers of the former.
            Stop::Unmapped if self.walker.frames().is_empty() && !self.tick.kernel.is_empty() => {
                Stop::NoUserStack
            }
            Stop::Unmapped if self.registry.exceeds(self.tick.pid) => Stop::TooManyMappings,
            Stop::Unreadable if self.missed => Stop::CopyEnds,
            stop => stop,
        }
    }
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
