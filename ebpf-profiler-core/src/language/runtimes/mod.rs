//! The interpreters of one process: their published walkers and the names of their functions.

mod known;
mod names;
mod owned;
mod running;

use std::collections::BTreeMap;

use ebpf_programs::abi::interpreter::{Description, MAX};

use super::{Caller, CodeRanges, Journal, Reason, Runtime, ScriptCall, Scripts};
use crate::process::{Mapped, Module, ModuleId, Regions, System};
use crate::trace::{Found, Frame, FrameWord};
use names::{Seen, unnamed};
use owned::Owned;
use running::{ATTACH_DELAY, Running};
pub(crate) use running::{loaded_files, read_process};

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
    /// The same by language and reason.
    pub refusals: BTreeMap<(&'static str, Reason), u64>,
    /// Functions whose names were read.
    pub functions: u64,
    /// Functions whose names could not be read.
    pub unnamed: u64,
    /// Stacks with an interpreter loop without interpreter frames: its interpreter was not attached
    /// yet or just starting.
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
    /// Returns the runtimes that a file holds.
    fn runtimes(&self, id: ModuleId) -> &[FoundRuntime];

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
    pub(crate) fn discover(&mut self, around: &mut Context<'_>) {
        let regions = around.regions;
        let mut unmapped = self.unmapped(regions);
        let files = around.files;
        let mapped = regions.iter().filter_map(|region| region.file);
        let runtimes = mapped.flat_map(|file| files.runtimes(file.module).iter().map(move |it| (file, it)));
        for (file, found) in runtimes {
            let index = match self.position(file, found.language) {
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
            for index in self.positions(file) {
                is_mapped[index] = true;
            }
        }
        (0..self.running.len()).filter(|&index| !is_mapped[index]).collect()
    }

    /// Returns the index of a further interpreter: behind the others, or that of one whose file is
    /// no longer mapped.
    fn room(&self, unmapped: &mut Vec<usize>) -> Option<usize> {
        if self.running.len() < MAX { Some(self.running.len()) } else { unmapped.pop() }
    }

    /// Returns `true` if the regions hold an interpreter for which there is no room.
    pub(crate) fn lack_room(&self, regions: &Regions, modules: &dyn RuntimeFiles) -> bool {
        let is_new = |file: Mapped, found: &FoundRuntime| self.position(file, found.language).is_none();
        let mut files = regions.iter().filter_map(|region| region.file);
        self.running.len() >= MAX
            && files.any(|file| modules.runtimes(file.module).iter().any(|found| is_new(file, found)))
    }

    pub(crate) fn are_none(&self) -> bool {
        self.running.is_empty()
    }

    /// Resets the interpreters of a file that was mapped again at its address; returns `true` if
    /// there was one.
    pub(crate) fn renew(&mut self, file: Mapped) -> bool {
        let indices: Vec<usize> = self.positions(file).collect();
        for &index in &indices {
            self.running[index].forget(Err(Reason::NotReady));
        }
        !indices.is_empty()
    }

    /// Rechecks attached interpreters whose frames are implausible: a program can finalize its
    /// interpreter and start another. Returns `true` if any of them changed.
    pub(crate) fn recheck(&mut self, around: &mut Context<'_>) -> bool {
        let mut is_other = false;
        for running in &mut self.running {
            is_other |= running.recheck(around);
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

    /// Returns `true` if memory without a file may turn out to belong to a runtime that isn't
    /// attached yet.
    pub(crate) fn await_memory(&self, now: u64) -> bool {
        self.running.iter().any(|running| running.is_awaited(now))
    }

    /// Attaches to such runtimes, each at most once in 4 ms. Returns `true` if one of them was
    /// ready.
    pub(crate) fn attach_awaited(&mut self, around: &mut Context<'_>) -> bool {
        let (mut is_other, now) = (false, around.now);
        let is_due = |running: &&mut Running| {
            running.is_awaited(now)
                && (running.asked == 0 || now.saturating_sub(running.asked) > ATTACH_DELAY)
        };
        for running in self.running.iter_mut().filter(is_due) {
            running.attach(around, around.pid);
            is_other |= running.attached.is_ok();
        }
        is_other
    }

    /// Returns `true` if a file holds the loop of the process's first interpreter.
    pub(crate) fn has_first(&self, file: Mapped) -> bool {
        self.positions(file).next() == Some(0) && self.running[0].walker.ranges().next().is_some()
    }

    /// Splits addresses of a file where the loops of its interpreters are, if there are several:
    /// each part with the published number of its interpreter, 0 for none.
    pub(crate) fn split(&self, file: Mapped, (start, end): (u64, u64), mut part: impl FnMut(u64, u64, u16)) {
        let loops = |index: usize| self.running[index].walker.ranges();
        let numbers: Vec<u16> = self
            .positions(file)
            .filter(|&index| loops(index).next().is_some())
            .map(|index| index as u16 + 1)
            .collect();
        if let [] | [_] = numbers.as_slice() {
            return part(start, end, numbers.first().copied().unwrap_or(0));
        }
        let ranges =
            numbers.iter().flat_map(|&number| loops(number as usize - 1).map(move |it| (it, number)));
        let mut owned = Owned { ranges: ranges.collect(), ..Owned::default() };
        owned.ranges.sort_by_key(|(range, _)| range.start);
        owned.split_range(start, end, 0, part);
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
            if running.code.has_linked_areas() && owned.areas == 0 {
                owned.areas = number;
            }
            if running.code.has_shared_memory() && owned.shared_memory == 0 {
                owned.shared_memory = number;
            }
            if running.code.has_images() && owned.images == 0 {
                owned.images = number;
            }
        }
        owned.ranges.sort_by_key(|(range, _)| range.start);
        owned
    }

    /// Returns the index of the interpreter of a language in a file.
    fn position(&self, file: Mapped, language: &str) -> Option<usize> {
        self.positions(file).find(|&index| self.running[index].language == language)
    }

    /// Returns the indices of the interpreters in a file.
    fn positions(&self, file: Mapped) -> impl Iterator<Item = usize> + '_ {
        let is_of = move |running: &Running| (running.module, running.bias) == (file.module, file.bias);
        (0..self.running.len()).filter(move |&index| is_of(&self.running[index]))
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

    /// Appends the frame of a function, after those of the functions inlined into it, innermost
    /// first. A hidden function has none. Returns the address of code that its runtime
    /// doesn't know.
    pub(crate) fn frames(
        &mut self,
        (word, detail): (FrameWord, FrameWord),
        caller: Option<Caller>,
        around: &mut Context<'_>,
        frames: &mut Vec<Frame>,
    ) -> Option<u64> {
        let found = if word.is_guessed() { Found::Guessed } else { Found::Exactly };
        let (index, address, check) = (word.interpreter(), word.address(), detail.check());
        let site = caller.map_or(0, |caller| caller.site());
        let call = ScriptCall { pid: around.pid, interpreter: index as u32, address, check, site };
        if self.running.len() <= index {
            // A replay: the file may not exist here.
            let Some(named) = around.journal.recall(&call) else {
                let function = unnamed(around, "script", "process not known");
                frames.push(Frame::Script { function, line: 0, found });
                return None;
            };
            self.running.resize_with(index + 1, || Running::recorded(named.language));
        }
        let seen = Seen { call, position: detail.position(), caller, found };
        let is_foreign = self.running[index].frames(&seen, around, frames);
        is_foreign.then_some(word.code_address())
    }
}
