//! The interpreters of one process: their published walkers and the names of their functions.

mod names;
mod owned;
mod running;

use ebpf_programs::abi::interpreter::{Description, MAX};
use ebpf_programs::abi::record::frame::{self, ADDRESS};

use super::{Caller, CodeRanges, Journal, Reason, Runtime, ScriptCall, Scripts};
use crate::process::{Mapped, Module, ModuleId, Regions, System};
use crate::trace::{Found, Frame};
use names::{Seen, unnamed};
use owned::Owned;
use running::{PATIENCE, Running};

/// The interpreters of one process.
#[derive(Default)]
pub(crate) struct Interpreters {
    running: Vec<Running>,
}

/// Counters of the interpreters of all languages, since the profiler started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterpreterStats {
    /// Interpreters discovered in processes.
    pub attached: u64,
    /// Interpreters that cannot be attached to.
    pub refused: u64,
    /// Functions whose names were read.
    pub functions: u64,
    /// Functions whose names could not be read.
    pub unnamed: u64,
    /// Stacks with an interpreter loop without interpreter frames: its interpreter was not attached yet or just starting.
    pub bare_loops: u64,
}

/// The state of a process and of the registry that interpreters need.
pub(crate) struct Context<'a> {
    pub(crate) pid: u32,
    pub(crate) now: u64,
    pub(crate) regions: &'a Regions,
    pub(crate) files: &'a dyn RuntimeFiles,
    pub(crate) system: &'a dyn System,
    pub(crate) journal: &'a dyn Journal,
    pub(crate) scripts: &'a mut Scripts,
    pub(crate) stats: &'a mut InterpreterStats,
}

/// The runtime of a language in a file.
pub(crate) struct FoundRuntime {
    /// [`Language::name`](super::Language::name).
    pub(crate) language: &'static str,
    pub(crate) runtime: Box<dyn Runtime>,
}

/// The mapped files, as far as runtimes need them.
pub(crate) trait RuntimeFiles {
    /// Returns the runtime that a file holds, if it holds one.
    fn runtime(&self, id: ModuleId) -> Option<&FoundRuntime>;

    /// Returns the file with this id.
    fn module(&self, id: ModuleId) -> Option<&Module>;
}

impl Interpreters {
    /// Returns the interpreters of a child of `parent`, which has the same memory after `fork`.
    pub(crate) fn fork(&self, parent: u32) -> Interpreters {
        Interpreters { running: self.running.iter().map(|running| running.fork(parent)).collect() }
    }

    /// Discovers interpreters among the mapped files, and attaches to those that are due.
    ///
    /// A file mapped at another address, or a second time, is another interpreter.
    pub(crate) fn meet(&mut self, around: &mut Context<'_>) {
        let regions = around.regions;
        let mut unmapped = self.unmapped(regions);
        for file in regions.iter().filter_map(|region| region.file) {
            let Some(found) = around.files.runtime(file.module) else { continue };
            let index = match self.position(file.module, file.bias) {
                Some(index) => index,
                None => {
                    let Some(index) = self.room(&mut unmapped) else { continue };
                    let running = Running::new(file.module, found, file.bias, around.now);
                    match self.running.get_mut(index) {
                        Some(former) => {
                            let renamed = former.renamed.wrapping_add(1);
                            *former = Running { renamed, ..running };
                        }
                        None => self.running.push(running),
                    }
                    around.stats.attached += 1;
                    index
                }
            };
            if self.running[index].is_waiting(around.now) {
                self.running[index].attach(around, around.pid);
            }
        }
    }

    /// Returns the indices of interpreters whose file is no longer mapped.
    fn unmapped(&self, regions: &Regions) -> Vec<usize> {
        let mut is_mapped = [false; MAX];
        for file in regions.iter().filter_map(|region| region.file) {
            if let Some(index) = self.position(file.module, file.bias) {
                is_mapped[index] = true;
            }
        }
        (0..self.running.len()).filter(|&index| !is_mapped[index]).collect()
    }

    /// Returns the index of a further interpreter: behind the others, or that of one whose file is no longer mapped.
    fn room(&self, unmapped: &mut Vec<usize>) -> Option<usize> {
        if self.running.len() < MAX { Some(self.running.len()) } else { unmapped.pop() }
    }

    /// Returns `true` if the regions hold an interpreter for which there is no room.
    pub(crate) fn lack_room(&self, regions: &Regions, modules: &dyn RuntimeFiles) -> bool {
        let holds_runtime = |id: ModuleId| modules.runtime(id).is_some();
        let mut files = regions.iter().filter_map(|region| region.file);
        self.running.len() >= MAX
            && files.any(|file| self.position(file.module, file.bias).is_none() && holds_runtime(file.module))
    }

    pub(crate) fn are_none(&self) -> bool {
        self.running.is_empty()
    }

    /// Resets the interpreter of a file that was mapped again at its address; returns `true` if there was one.
    pub(crate) fn renew(&mut self, file: Mapped) -> bool {
        let index = self.position(file.module, file.bias);
        if let Some(index) = index {
            self.running[index].forget(Err(Reason::NotReady));
        }
        index.is_some()
    }

    /// Rechecks attached interpreters whose frames are implausible: a program can finalize its interpreter and start another.
    /// Returns `true` if any of them changed.
    pub(crate) fn reconsider(&mut self, around: &mut Context<'_>) -> bool {
        let mut is_other = false;
        for running in &mut self.running {
            is_other |= running.reconsider(around);
        }
        is_other
    }

    /// Returns `true` if an attach attempt is due.
    pub(crate) fn are_waiting(&self, now: u64) -> bool {
        self.running.iter().any(|running| running.is_waiting(now))
    }

    /// Returns the version of all names, which changes when any are dropped.
    pub(crate) fn names_version(&self) -> u32 {
        self.running.iter().fold(0, |sum, running| sum.wrapping_add(running.renamed))
    }

    /// Returns `true` if memory without a file may turn out to belong to a runtime that isn't attached yet.
    pub(crate) fn await_memory(&self, now: u64) -> bool {
        self.running.iter().any(|running| running.is_awaited(now))
    }

    /// Attaches to such runtimes, each at most once in 4 ms. Returns `true` if one of them was ready.
    pub(crate) fn attach_awaited(&mut self, around: &mut Context<'_>) -> bool {
        let (mut is_other, now) = (false, around.now);
        let is_due = |running: &&mut Running| {
            running.is_awaited(now) && (running.asked == 0 || now.saturating_sub(running.asked) > PATIENCE)
        };
        for running in self.running.iter_mut().filter(is_due) {
            running.attach(around, around.pid);
            is_other |= running.attached.is_ok();
        }
        is_other
    }

    /// Returns the published number of the interpreter whose loop a file has; 0 for none.
    pub(crate) fn number(&self, module: ModuleId, bias: u64) -> u16 {
        let index = self.position(module, bias);
        let index = index.filter(|&index| self.running[index].walker.ranges().next().is_some());
        index.map_or(0, |index| index as u16 + 1)
    }

    /// Returns the walkers that take their frames, a bit for each number.
    pub(crate) fn walkers(&self) -> u32 {
        let each = self.running.iter().filter(|running| running.attached.is_ok());
        each.fold(0, |bits, running| bits | 1 << (running.walker.abi().walker & 31))
    }

    /// Returns `true` if runtimes own memory.
    pub(crate) fn own_memory(&self) -> bool {
        self.running.iter().any(|running| running.code != CodeRanges::default())
    }

    /// Returns the memory that runtimes own, sorted by address, with the numbers of the runtimes.
    pub(crate) fn owned(&self) -> Owned {
        let mut owned = Owned::default();
        for (number, running) in (1..).zip(&self.running) {
            owned.ranges.extend(running.code.ranges().iter().map(|range| (range.clone(), number)));
            if running.code.has_anonymous() && owned.anonymous == 0 {
                owned.anonymous = number;
            }
            if running.code.has_shared_memory() && owned.shared_memory == 0 {
                owned.shared_memory = number;
            }
        }
        owned.ranges.sort_by_key(|(range, _)| range.start);
        owned
    }

    fn position(&self, module: ModuleId, bias: u64) -> Option<usize> {
        self.running.iter().position(|running| (running.module, running.bias) == (module, bias))
    }

    /// Encodes the walkers for the kernel side.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.running.len() * size_of::<Description>());
        for running in &self.running {
            bytes.extend(running.walker.abi().to_bytes());
        }
        bytes
    }

    pub(crate) fn forget_names(&mut self) {
        self.running.iter_mut().for_each(Running::forget_names);
    }

    /// Appends the frame of a function, after those of the functions inlined into it, innermost first. A hidden function has
    /// none.
    pub(crate) fn frames(
        &mut self,
        call: u64,
        detail: u64,
        caller: Option<Caller>,
        around: &mut Context<'_>,
        frames: &mut Vec<Frame>,
    ) {
        let found = if call & frame::GUESSED != 0 { Found::Guessed } else { Found::Exactly };
        let number = (call >> frame::INTERPRETER_SHIFT) as usize & (MAX - 1);
        let address = call & ADDRESS;
        let check = (detail >> 32 & frame::CHECK) as u32;
        let site = caller.map_or(0, |caller| caller.site());
        let call = ScriptCall { pid: around.pid, interpreter: number as u32, address, check, site };
        if self.running.len() <= number {
            // A replay: the file may not exist here.
            let Some(named) = around.journal.recall(&call) else {
                let function = unnamed(around, "script", "process not known");
                return frames.push(Frame::Script { function, line: 0, found });
            };
            self.running.resize_with(number + 1, || Running::recorded(named.language));
        }
        let seen = Seen { call, position: detail as u32, caller, found };
        self.running[number].frames(&seen, around, frames);
    }
}
