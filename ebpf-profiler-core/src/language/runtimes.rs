//! The interpreters of one process: their published walkers and the names of their functions.

use std::ops::Range;
use std::sync::Arc;

use ebpf_programs::abi::interpreter::{Description, MAX};
use ebpf_programs::abi::record::frame::{self, ADDRESS};
use hashbrown::{HashMap, HashSet};

use super::family::{Family, Key};
use super::{
    Attached, Caller, CodeRanges, FrameWalker, Function, Journal, LoadedFile, Memory, NamedCall, Reason,
    Runtime, Script, ScriptCall, Scripts, Target, Unreadable,
};
use crate::process::{Mapped, Module, ModuleId, Region, Regions, System};
use crate::trace::{Found, Frame, ScriptId};

/// Initial delay between attach attempts, in nanoseconds; doubles after every eighth attempt.
const PATIENCE: u64 = 4_000_000;

/// Maximum number of attach attempts (about 8 s).
const DOUBTS: u32 = 64;

/// Maximum time for which memory without a file is awaited to be that of a runtime, in nanoseconds.
const AWAITED: u64 = 10_000_000_000;

/// Initial delay between rechecks of an attached runtime with implausible frames, in nanoseconds; doubles after each of the
/// first three rechecks that change nothing.
const TRUST: u64 = 25_000_000;

/// Delay until an unnamed function is read again, in nanoseconds: its address may be reused.
const UNNAMED: u64 = 100_000_000;

/// Maximum number of named functions cached per interpreter.
const MAX_KNOWN: usize = 1 << 16;

/// The interpreters of one process.
#[derive(Default)]
pub(crate) struct Interpreters {
    running: Vec<Running>,
}

/// One interpreter of a process.
struct Running {
    module: ModuleId,
    /// The load bias of its file; a second copy of the file is another interpreter.
    bias: u64,
    language: &'static str,
    /// The published walker.
    walker: FrameWalker,
    /// The memory in which it unwinds native frames.
    code: CodeRanges,
    /// The result of the last attach attempt.
    attached: Result<Option<Box<dyn Attached>>, Reason>,
    /// Time of the last attach attempt, in nanoseconds.
    asked: u64,
    /// Number of attach attempts.
    times: u32,
    /// Number of times that names were dropped.
    renamed: u32,
    /// Number of rechecks that changed nothing.
    confirmed: u32,
    /// Time until which its memory is awaited; 0 if it owns none without a file.
    awaited_until: u64,
    /// The functions seen so far; shared with forked processes until it changes.
    known: Arc<HashMap<Key, Known>>,
    /// [`Attached::identity_bits`].
    identity_bits: u32,
    /// The functions that these bits and the check identify, which these processes share.
    family: Family<Known>,
    /// The process that forked this one: its functions have the same addresses, and it may live longer.
    parent: Option<u32>,
}

#[derive(Clone)]
struct Known {
    script: ScriptId,
    /// Time at which an unnamed function is read again.
    unnamed_until: Option<u64>,
    /// Hidden functions produce no output frame.
    is_hidden: bool,
    function: Arc<Function>,
    /// The functions inlined into it, by index.
    inlined: Box<[ScriptId]>,
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

/// The memory that the runtimes of a process own.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Ranges, sorted by address, with the numbers of their runtimes.
    ranges: Vec<(Range<u64>, u16)>,
    /// Number of the runtime of all executable memory without a file; 0 for none.
    anonymous: u16,
    /// Number of the runtime of all executable shared memory without a named file; 0 for none.
    shared_memory: u16,
}

impl Owned {
    /// Splits a region where its owner changes: each part with the number of its runtime, 0 for none.
    pub(crate) fn split(&self, region: &Region, mut part: impl FnMut(u64, u64, u16)) {
        let default = if region.is_anonymous() {
            self.anonymous
        } else if region.is_shared_memory() {
            self.shared_memory
        } else {
            0
        };
        let mut at = region.start;
        for (range, number) in &self.ranges {
            let (start, end) = (range.start.clamp(at, region.end), range.end.clamp(at, region.end));
            if start >= end {
                continue;
            }
            if at < start {
                part(at, start, default);
            }
            part(start, end, *number);
            at = end;
        }
        if at < region.end {
            part(at, region.end, default);
        }
    }
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
        let running = self.running.iter().map(|running| Running {
            module: running.module,
            bias: running.bias,
            language: running.language,
            walker: running.walker,
            code: running.code.clone(),
            attached: running.attached.as_ref().map(|_| None).map_err(|reason| *reason),
            asked: running.asked,
            times: running.times,
            renamed: running.renamed,
            confirmed: running.confirmed,
            awaited_until: running.awaited_until,
            known: running.known.clone(),
            identity_bits: running.identity_bits,
            family: running.family.clone(),
            parent: Some(parent),
        });
        Interpreters { running: running.collect() }
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
        for running in &mut self.running {
            running.known = Arc::default();
            running.family.clear();
        }
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
        let running = &mut self.running[number];
        if address == 0 {
            let function = unnamed(around, running.language, "frame not readable");
            return frames.push(Frame::Script { function, line: 0, found });
        }
        let position = detail as u32;
        let key = Key { address, check, site, bits: position & running.identity_bits };
        let known = running.known(key, &call, caller, around);
        if known.is_hidden {
            return;
        }
        let inlined = known.function.inlines.calls_at(position).iter().rev().filter_map(|&(index, line)| {
            let &function = known.inlined.get(index as usize)?;
            Some(Frame::Script { function, line, found: Found::Inlined })
        });
        frames.extend(inlined);
        let line = known.function.lines.at(position);
        let mut function = known.script;
        if known.unnamed_until.is_some() && running.identity_bits != 0 {
            let reserve = || around.scripts.reserve(function);
            function = running.family.unnamed(key.of_family(), position, reserve).unwrap_or(function);
        }
        frames.push(Frame::Script { function, line, found });
    }
}

impl Running {
    fn new(module: ModuleId, found: &FoundRuntime, bias: u64, now: u64) -> Running {
        let FoundRuntime { language, runtime } = found;
        let address = |of_file: u64| of_file.wrapping_sub(bias);
        let ranges = runtime.loops().iter().map(|range| address(range.start)..address(range.end));
        let walker = FrameWalker::UNAVAILABLE.with_ranges(ranges);
        let attached = Err(Reason::NotReady);
        let awaited_until = if runtime.owns_anonymous_memory() { now.saturating_add(AWAITED) } else { 0 };
        Running {
            module,
            bias,
            language,
            walker,
            code: CodeRanges::default(),
            attached,
            asked: 0,
            times: 0,
            renamed: 0,
            confirmed: 0,
            awaited_until,
            known: Arc::default(),
            identity_bits: 0,
            family: Family::default(),
            parent: None,
        }
    }

    /// Creates an interpreter of a recording, whose functions have names already.
    fn recorded(language: &'static str) -> Running {
        Running {
            module: ModuleId(u32::MAX),
            bias: 0,
            language,
            walker: FrameWalker::UNAVAILABLE,
            code: CodeRanges::default(),
            attached: Err(Reason::Unsupported),
            asked: 0,
            times: 0,
            renamed: 0,
            confirmed: 0,
            awaited_until: 0,
            known: Arc::default(),
            identity_bits: 0,
            family: Family::default(),
            parent: None,
        }
    }

    /// Returns `true` if memory without a file may turn out to be the runtime's.
    fn is_awaited(&self, now: u64) -> bool {
        now < self.awaited_until && self.attached.is_err() && self.may_change()
    }

    fn is_waiting(&self, now: u64) -> bool {
        self.may_change()
            && (self.asked == 0 || now.saturating_sub(self.asked) > PATIENCE << (self.times / 8).min(12))
    }

    /// Returns `true` if a further attach attempt can have another result.
    fn may_change(&self) -> bool {
        match self.attached {
            Err(Reason::NotReady) => true,
            Err(Reason::Unsupported) => false,
            // While the loader works, its memory is unmapped or holds other bytes.
            Err(_) => self.times < DOUBTS,
            // An attachment is provisional until a function was named by it.
            Ok(_) => self.known.is_empty() && self.times < DOUBTS,
        }
    }

    /// Starts over with a new result of attaching.
    fn forget(&mut self, attached: Result<Option<Box<dyn Attached>>, Reason>) {
        self.attached = attached;
        (self.asked, self.times, self.confirmed) = (0, 0, 0);
        self.known = Arc::default();
        self.renamed = self.renamed.wrapping_add(1);
        self.family = Family::default();
        self.parent = None;
        if self.attached.is_err() {
            self.know_nothing(FrameWalker::UNKNOWN);
        }
    }

    /// Publishes a walker that finds no frames.
    fn know_nothing(&mut self, walker: FrameWalker) {
        self.walker = walker.with_ranges_of(&self.walker);
        self.code = CodeRanges::default();
    }

    /// Attaches again to a runtime that was ready; returns `true` if the walker changed.
    fn reconsider(&mut self, around: &mut Context<'_>) -> bool {
        let trust = TRUST << self.confirmed.min(3);
        if self.attached.is_err() || around.now.saturating_sub(self.asked) < trust {
            return false;
        }
        let before = (self.walker, self.code.clone());
        self.attach(around, around.pid);
        if (self.walker, &self.code) == (before.0, &before.1) {
            self.confirmed = self.confirmed.saturating_add(1);
            return false;
        }
        let attached = std::mem::replace(&mut self.attached, Err(Reason::NotReady));
        self.forget(attached);
        true
    }

    fn attach(&mut self, around: &mut Context<'_>, pid: u32) {
        self.asked = around.now.max(1);
        self.times += 1;
        let Some(FoundRuntime { runtime, .. }) = around.files.runtime(self.module) else { return };
        let system = around.system;
        let memory = move |address: u64, buffer: &mut [u8]| read(system, pid, address, buffer);
        let target = Target::new(&memory, self.bias.wrapping_neg(), loaded(around.regions, around.files));
        match runtime.attach(&target) {
            Ok(attachment) => {
                let (walker, code, names) = attachment.into_parts();
                self.identity_bits = names.identity_bits();
                self.walker = walker.with_ranges_of(&self.walker);
                self.code = code;
                if std::mem::replace(&mut self.attached, Ok(Some(names))).is_err() {
                    self.drop_unnamed();
                }
            }
            Err(reason) => {
                self.attached = Err(reason);
                let may_change = self.may_change();
                around.stats.refused += u64::from(!may_change);
                self.know_nothing(if may_change { FrameWalker::UNKNOWN } else { FrameWalker::UNAVAILABLE });
            }
        }
    }

    /// Drops functions that had no name because the runtime was not attached.
    fn drop_unnamed(&mut self) {
        self.renamed = self.renamed.wrapping_add(1);
        if !self.known.is_empty() {
            Arc::make_mut(&mut self.known).retain(|_, known| known.unnamed_until.is_none());
        }
    }

    /// Returns the function of a frame, naming it the first time.
    fn known(
        &mut self,
        key: Key,
        call: &ScriptCall,
        caller: Option<Caller>,
        around: &mut Context<'_>,
    ) -> &Known {
        let is_current = match self.known.get(&key) {
            Some(Known { unnamed_until: None, .. }) => true,
            // Another process may have read the name since.
            Some(Known { unnamed_until: Some(until), .. }) => {
                around.now < *until && self.shared(key).is_none()
            }
            None => false,
        };
        if !is_current {
            let known = match self.shared(key) {
                Some(known) => {
                    let (language, function) = (self.language, Ok(known.function.clone()));
                    around.journal.record(call, &NamedCall { language, function });
                    known
                }
                None => self.learn(key, call, caller, around),
            };
            let all = Arc::make_mut(&mut self.known);
            if all.len() >= MAX_KNOWN {
                all.clear();
            }
            all.insert(key, known);
        }
        &self.known[&key]
    }

    /// Returns the function if a process of the family has named it.
    fn shared(&self, key: Key) -> Option<Known> {
        self.family.get(&key.of_family()).filter(|_| self.identity_bits != 0)
    }

    fn learn(
        &mut self,
        key: Key,
        call: &ScriptCall,
        caller: Option<Caller>,
        around: &mut Context<'_>,
    ) -> Known {
        let named = around.journal.recall(call).unwrap_or_else(|| {
            let function = self.name(call, caller, around).map(Arc::new);
            let named = NamedCall { language: self.language, function };
            around.journal.record(call, &named);
            named
        });
        let (script, function, unnamed_until) = match named.function {
            Ok(function) => {
                around.stats.functions += 1;
                (self::script(named.language, &function), function, None)
            }
            Err(reason) => {
                around.stats.unnamed += 1;
                let delay = if self.identity_bits != 0 { UNNAMED / 20 } else { UNNAMED };
                let until = around.now.saturating_add(delay);
                (no_script(named.language, reason.text()), Arc::default(), Some(until))
            }
        };
        let is_hidden = script.name.is_empty();
        let inlined = function.inlines.functions().iter();
        let inlined =
            inlined.map(|inlined| around.scripts.intern(self::script(named.language, inlined))).collect();
        let known =
            Known { script: around.scripts.intern(script), unnamed_until, is_hidden, function, inlined };
        if unnamed_until.is_none() && self.identity_bits != 0 {
            let frames = self.family.insert(key.of_family(), known.clone());
            for (position, id) in frames.into_iter().filter(|_| !known.is_hidden) {
                around.scripts.name_late(id, known.script, known.function.lines.at(position));
            }
        }
        known
    }

    fn name(
        &mut self,
        call: &ScriptCall,
        caller: Option<Caller>,
        around: &mut Context<'_>,
    ) -> Result<Function, Reason> {
        if let Ok(None) = self.attached {
            // Forked: attach to the process itself, or else to its parent.
            let (walker, code) = (self.walker, self.code.clone());
            self.attach(around, around.pid);
            if let (Err(_), Some(parent)) = (&self.attached, self.parent) {
                self.attach(around, parent);
            }
            (self.walker, self.code) = (walker, code);
        }
        let names = match &mut self.attached {
            Ok(Some(names)) => names,
            Ok(None) => return Err(Reason::Unreadable),
            Err(reason) => return Err(*reason),
        };
        let system = around.system;
        let mut ask = |pid: u32| {
            let memory = move |address: u64, buffer: &mut [u8]| read(system, pid, address, buffer);
            let memory = &memory as &dyn Memory;
            match caller {
                None => names.function(call.address, call.check, memory),
                Some(Caller { address, position }) => {
                    names.called_function(call.address, call.check, (address, position), memory)
                }
            }
        };
        match (ask(around.pid), self.parent) {
            (Err(Reason::Unreadable), Some(parent)) => ask(parent),
            (named, _) => named,
        }
    }
}

fn read(system: &dyn System, pid: u32, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
    system.read(pid, address, buffer).map_err(|_| Unreadable)
}

/// Lists the mapped files, each once.
fn loaded(regions: &Regions, files: &dyn RuntimeFiles) -> Vec<LoadedFile> {
    let mut seen: HashSet<ModuleId> = HashSet::new();
    let mut loaded = Vec::new();
    for file in regions.iter().filter_map(|region| region.file) {
        let Some(module) = files.module(file.module).filter(|_| seen.insert(file.module)) else {
            continue;
        };
        if let Some(opener) = &module.opener {
            let (path, opener) = (module.path.clone(), opener.clone());
            loaded.push(LoadedFile { path, bias: file.bias.wrapping_neg(), opener });
        }
    }
    loaded
}

fn script(language: &'static str, function: &Function) -> Script {
    Script {
        language,
        name: (*function.name).into(),
        file: (*function.file).into(),
        start_line: function.start_line,
        ..Script::default()
    }
}

fn no_script(language: &'static str, why: &str) -> Script {
    let name = format!("[{language}: {why}]").into();
    Script { language, name, is_unnamed: true, ..Script::default() }
}

fn unnamed(around: &mut Context<'_>, language: &'static str, why: &str) -> ScriptId {
    around.stats.unnamed += 1;
    around.scripts.intern(no_script(language, why))
}

#[test]
fn regions_are_split_where_their_owner_changes() {
    use crate::process::FileName;
    use crate::sample::{FileId, MapEvent};
    let region = |file: FileId, path: &str| {
        let map = MapEvent { start: 0x1000, end: 0x9000, offset: 0, file: file.clone(), path: path.into() };
        Region::new(&map, Arc::new(FileName { file, path: path.into() }))
    };
    let ranges = vec![
        (0..0x2000, 1),
        (0x3000..0x4000, 2),
        (0x3800..0x5000, 3),
        (0x8000..0xa000, 1),
        (0xb000..0xc000, 2),
    ];
    let owned = Owned { ranges, anonymous: 4, shared_memory: 5 };
    let parts = |owned: &Owned, file, path| {
        let mut parts = Vec::new();
        owned.split(&region(file, path), |start, end, number| parts.push((start, end, number)));
        parts
    };
    let expected = |other| {
        [
            (0x1000, 0x2000, 1),
            (0x2000, 0x3000, other),
            (0x3000, 0x4000, 2),
            (0x4000, 0x5000, 3),
            (0x5000, 0x8000, other),
            (0x8000, 0x9000, 1),
        ]
    };
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    assert_eq!(parts(&owned, FileId::Anonymous, ""), expected(4));
    assert_eq!(parts(&owned, file.clone(), "/usr/bin/php"), expected(0));
    assert_eq!(parts(&owned, file.clone(), "/dev/zero (deleted)"), expected(5));
    assert_eq!(parts(&Owned::default(), FileId::Anonymous, ""), [(0x1000, 0x9000, 0)]);
    assert_eq!(parts(&Owned::default(), file, "/dev/zero (deleted)"), [(0x1000, 0x9000, 0)]);
}
