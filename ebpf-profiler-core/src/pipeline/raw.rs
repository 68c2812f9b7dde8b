//! Raw samples: their tables were not published, so they are unwound here after the tables were
//! built.

use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::registers::Registers;
use ebpf_programs::walk::arch::{Arch as _, Host};

use crate::process::System;
use crate::registry::Registry;
use crate::sample::TickRecord;
use crate::trace::{Stack, Stop, Walker};

/// Maximum number of tables built for one sample; ordinary processes map fewer files.
const MAX_TABLES: usize = 256;

/// Unwinds a raw sample and builds the tables that it needs. Returns the stop reason.
pub(super) fn walk(
    walker: &mut Walker,
    registry: &mut Registry,
    tick: &TickRecord<'_>,
    registers: &Registers,
    stack: &[u64],
) -> Stop {
    walker.clear();
    if stack.is_empty() {
        // The memory of the process is gone: it exits or executes another program.
        return Stop::NoUserStack;
    }
    let Some(process) = registry.publish(tick.pid, tick.time) else {
        return registry.processes().stop_of(tick.pid);
    };
    let mut raw = Raw {
        walker,
        registry,
        tick,
        process,
        registers,
        stack,
        looked_again: false,
        has_attached: false,
        missed: false,
    };
    for _ in 0..MAX_TABLES {
        let stop = raw.walk();
        if !raw.mend(stop) {
            let verdict = raw.verdict(stop);
            if verdict == Stop::CopyEnds {
                // The files of the frames beyond the copied part are unknown. The kernel side needs the
                // tables of all files to reach them.
                raw.registry.build_tables(tick.pid, tick.time, None);
            }
            return verdict;
        }
    }
    Stop::Pending
}

/// A raw sample while it is unwound.
struct Raw<'a> {
    walker: &'a mut Walker,
    registry: &'a mut Registry,
    tick: &'a TickRecord<'a>,
    process: Process,
    registers: &'a Registers,
    stack: &'a [u64],
    looked_again: bool,
    /// `true` once an attempt was made to attach to a runtime whose memory the walk reached.
    has_attached: bool,
    /// `true` once a word beyond the copied part of the stack was needed.
    missed: bool,
}

impl Raw<'_> {
    fn walk(&mut self) -> Stop {
        let bottom = self.registers.values[Host::SP];
        let system = self.registry.system();
        let fp = self.registers.values[Host::FP];
        let pid = self.tick.pid;
        let end =
            end_of_stack(bottom, self.registers.thread, self.registry.processes().stack_end(pid, bottom));
        let mut memory = Memory { stack: self.stack, bottom, end, fp, pid, system, missed: false };
        // Interpreter frames are not in the copied memory and have changed since.
        let registers = Registers { thread: 0, ..*self.registers };
        let tables = self.registry.tables();
        let stop = self.walker.walk::<Host>(&registers, &self.process, tables, &mut memory);
        self.missed = memory.missed;
        stop
    }

    /// Removes the cause of a stop: builds a table, or reads the mappings again. Returns `true` if
    /// the walk may succeed now.
    fn mend(&mut self, stop: Stop) -> bool {
        let (pid, now) = (self.tick.pid, self.tick.time);
        match stop {
            Stop::Pending if self.walker.is_awaiting() => self.attach(),
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

    /// Attaches to runtimes that are awaited. If none is ready, the next walk goes on without them.
    fn attach(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_attached, true);
        if is_first && self.registry.attach_awaited(self.tick.pid, self.tick.time) {
            let published = self.registry.publish(self.tick.pid, self.tick.time);
            self.process = published.unwrap_or(self.process);
        } else {
            self.process.raw_budget = 0;
        }
        true
    }

    /// Returns the stop reason to report for the last walk.
    fn verdict(&self, stop: Stop) -> Stop {
        match stop {
            // Within `execve`: the registers are those of the former program.
            Stop::Unmapped if self.walker.frames().is_empty() && !self.tick.kernel.is_empty() => {
                Stop::NoUserStack
            }
            Stop::Unmapped if self.registry.processes().exceeds(self.tick.pid) => Stop::TooManyMappings,
            Stop::Unreadable if self.missed => Stop::CopyEnds,
            stop => stop,
        }
    }
}

/// The copied stack, and other memory of the process as it is now, which suits code.
///
/// Words of other stacks, as that of a signal handler or of the code that it interrupted, have
/// changed since, too.
struct Memory<'a> {
    stack: &'a [u64],
    bottom: u64,
    /// The end of what may be the stack.
    end: u64,
    /// The frame pointer.
    fp: u64,
    pid: u32,
    system: &'a dyn System,
    /// `true` once a word beyond the copied part was needed.
    missed: bool,
}

impl Stack for Memory<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        if self.is_copied(address) { self.copied(address) } else { self.other(address) }
    }

    fn read_stack(&mut self, address: u64) -> Option<u64> {
        if self.is_copied(address) {
            return self.copied(address);
        }
        self.missed = true;
        None
    }
}

impl Memory<'_> {
    /// Returns `true` for words that are in the copied part of the stack, or just below it.
    fn is_copied(&self, address: u64) -> bool {
        let offset = address.wrapping_sub(self.bottom);
        offset >= RED_ZONE.wrapping_neg() || offset < self.stack.len() as u64 * 8
    }

    /// Returns a word of the copied part of the stack.
    fn copied(&mut self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.bottom);
        if offset >= RED_ZONE.wrapping_neg() {
            // A row that follows an epilogue still says where the frame pointer was saved. It is restored
            // there.
            return Some(self.fp);
        }
        let index = usize::try_from(offset / 8).ok()?;
        let shift = offset % 8 * 8;
        let word = *self.stack.get(index)?;
        if word == 0 && self.is_hole(index) {
            self.missed = true;
            return None;
        }
        let low = word >> shift;
        match shift {
            0 => Some(low),
            _ => Some(low | self.stack.get(index + 1)? << (64 - shift)),
        }
    }

    /// Returns `true` if a word is in a page that was not readable, so that all of its words are 0.
    fn is_hole(&self, index: usize) -> bool {
        let page = page(self.bottom, index);
        self.stack[page.start..page.end.min(self.stack.len())].iter().all(|&word| word == 0)
    }

    /// Reads memory outside of the stack, which itself has changed since.
    fn other(&mut self, address: u64) -> Option<u64> {
        if (self.bottom..self.end).contains(&address) {
            self.missed = true;
            return None;
        }
        let mut bytes = [0; 8];
        self.system.read(self.pid, address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

/// Returns the end of a stack: its thread's control block, which libraries put at the upper end of
/// stacks that they allocate, if that is in what may be the stack up to `end`. Objects of a runtime
/// may follow.
fn end_of_stack(bottom: u64, thread: u64, end: u64) -> u64 {
    if (bottom..end).contains(&thread) { thread } else { end }
}

/// Bytes below the stack pointer that a function may use.
const RED_ZONE: u64 = 128;

/// Returns the indices of the words that share a page with word `index` of a copy from `bottom` on.
fn page(bottom: u64, index: usize) -> std::ops::Range<usize> {
    /// Words of a page.
    const WORDS: usize = 4096 / 8;
    let before = (bottom / 8) as usize % WORDS;
    let start = (before + index) / WORDS * WORDS;
    start.saturating_sub(before)..start + WORDS - before
}

#[test]
fn finds_pages_of_copied_words() {
    assert_eq!(page(0x7000, 0), 0..512);
    assert_eq!(page(0x7000, 512), 512..1024);
    assert_eq!(page(0x7ff8, 0), 0..1);
    assert_eq!(page(0x7ff8, 1), 1..513);
    assert_eq!(page(0x7010, 509), 0..510);
    assert_eq!(page(0x7010, 510), 510..1022);
}

#[test]
fn a_stack_ends_below_its_thread_s_control_block() {
    assert_eq!(end_of_stack(0x1000, 0x1800, 0x9000), 0x1800);
    assert_eq!([0, 0xf00, 0x9000].map(|thread| end_of_stack(0x1000, thread, 0x9000)), [0x9000; 3]);
}

#[test]
fn the_word_below_the_stack_is_the_restored_frame_pointer() {
    let mut system = crate::testing::FakeSystem::default();
    system = system.memory(1, 0xf00, &[9; 0x200]);
    let mut memory =
        Memory { stack: &[1, 2], bottom: 0x1000, end: 0x1080, fp: 7, pid: 1, system: &system, missed: false };
    let words = [0xf78, 0xf80, 0xff8, 0x1000, 0x1008].map(|at| memory.read(at));
    assert_eq!(words, [Some(0x0909_0909_0909_0909), Some(7), Some(7), Some(1), Some(2)]);
    assert_eq!([0x1010, 0x1078, 0x1080].map(|at| memory.read(at)), [None, None, Some(0x0909_0909_0909_0909)]);
    assert_eq!([0x1000, 0xff8].map(|at| memory.read_stack(at)), [Some(1), Some(7)]);
    memory.missed = false;
    assert_eq!((memory.read_stack(0x1080), memory.missed), (None, true), "another stack");
}
