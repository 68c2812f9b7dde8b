//! One interpreter of a process: attaching, and its published walker.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::known::{Known, REREAD_DELAY};
use super::{Context, FoundRuntime, RuntimeFiles};
use crate::language::family::{Family, Key};
use crate::language::{Attached, CodeRanges, FrameWalker, LoadedFile, Reason, Target, Unreadable};
use crate::process::{LoadBias, ModuleId, Regions, System};

/// Initial delay between attach attempts, in nanoseconds; doubles after every eighth attempt.
pub(super) const ATTACH_DELAY: u64 = 4_000_000;

/// Maximum number of attach attempts (about 8 s).
const MAX_ATTEMPTS: u32 = 64;

/// Maximum time for which memory without a file is awaited to be that of a runtime, in nanoseconds.
const AWAITED: u64 = 10_000_000_000;

/// Initial delay between rechecks of an attached runtime with implausible frames, in nanoseconds;
/// doubles after each of the first three rechecks that change nothing.
const RECHECK_DELAY: u64 = 25_000_000;

/// One interpreter of a process.
pub(super) struct Running {
    pub(super) module: ModuleId,
    /// The load bias of its file; a second copy of the file is another interpreter.
    pub(super) bias: LoadBias,
    pub(super) language: &'static str,
    /// The published walker.
    pub(super) walker: FrameWalker,
    /// The memory in which it unwinds native frames.
    pub(super) code: CodeRanges,
    /// The result of the last attach attempt.
    pub(super) attached: Result<Option<Box<dyn Attached>>, Reason>,
    /// Time of the last attach attempt, in nanoseconds.
    pub(super) asked: u64,
    /// Number of attach attempts.
    pub(super) times: u32,
    /// Number of times that names were dropped.
    pub(super) renamed: u32,
    /// Time at which one of the named functions is read again, and the delay until the next one, in
    /// nanoseconds.
    pub(super) reread_at: u64,
    pub(super) reread_delay: u64,
    /// Number of rechecks that left the walker unchanged.
    pub(super) unchanged: u32,
    /// Time until which its memory is awaited; 0 if it owns none without a file.
    pub(super) awaited_until: u64,
    /// The functions seen so far; shared with forked processes until it changes.
    pub(super) known: Arc<HashMap<Key, Known>>,
    /// [`Attached::identity_bits`].
    pub(super) identity_bits: u32,
    /// The functions that these bits and the check identify, which these processes share.
    pub(super) family: Family<Known>,
    /// The process that forked this one: its functions have the same addresses, and it may live
    /// longer.
    pub(super) parent: Option<u32>,
}

impl Running {
    pub(super) fn new(module: ModuleId, found: &FoundRuntime, bias: LoadBias, now: u64) -> Running {
        let &FoundRuntime { language, ref runtime } = found;
        let address = |of_file: u64| bias.in_process(of_file);
        let ranges = runtime.loops().iter().map(|range| address(range.start)..address(range.end));
        let walker = FrameWalker::UNAVAILABLE.with_ranges(ranges);
        let awaited_until = if runtime.owns_anonymous_memory() { now.saturating_add(AWAITED) } else { 0 };
        Running { walker, awaited_until, ..Running::unattached(module, bias, language) }
    }

    /// Creates an interpreter of a recording, whose functions have names already.
    pub(super) fn recorded(language: &'static str) -> Running {
        let attached = Err(Reason::Unsupported);
        Running { attached, ..Running::unattached(ModuleId(u32::MAX), LoadBias::ZERO, language) }
    }

    /// Creates an interpreter that was not asked yet, without ranges.
    fn unattached(module: ModuleId, bias: LoadBias, language: &'static str) -> Running {
        Running {
            module,
            bias,
            language,
            walker: FrameWalker::UNAVAILABLE,
            code: CodeRanges::default(),
            attached: Err(Reason::NotReady),
            asked: 0,
            times: 0,
            renamed: 0,
            reread_at: 0,
            reread_delay: REREAD_DELAY,
            unchanged: 0,
            awaited_until: 0,
            known: Arc::default(),
            identity_bits: 0,
            family: Family::default(),
            parent: None,
        }
    }

    /// Returns the interpreter of a child of `parent`, which has the same memory after `fork`.
    pub(super) fn fork(&self, parent: u32) -> Running {
        Running {
            walker: self.walker,
            code: self.code.clone(),
            attached: self.attached.as_ref().map(|_| None).map_err(|reason| *reason),
            asked: self.asked,
            times: self.times,
            renamed: self.renamed,
            reread_at: self.reread_at,
            unchanged: self.unchanged,
            awaited_until: self.awaited_until,
            known: self.known.clone(),
            identity_bits: self.identity_bits,
            family: self.family.clone(),
            parent: Some(parent),
            ..Running::unattached(self.module, self.bias, self.language)
        }
    }

    /// Returns `true` if memory without a file may turn out to be the runtime's.
    pub(super) fn is_awaited(&self, now: u64) -> bool {
        now < self.awaited_until && self.attached.is_err() && self.may_change()
    }

    pub(super) fn is_waiting(&self, now: u64) -> bool {
        self.may_change()
            && (self.asked == 0 || now.saturating_sub(self.asked) > ATTACH_DELAY << (self.times / 8).min(12))
    }

    /// Returns `true` if a further attach attempt can have another result.
    fn may_change(&self) -> bool {
        match self.attached {
            Err(Reason::NotReady) => true,
            Err(Reason::Unsupported) => false,
            // While the loader works, its memory is unmapped or holds other bytes.
            Err(_) => self.times < MAX_ATTEMPTS,
            // An attachment is provisional until a function was named by it.
            Ok(_) => self.known.is_empty() && self.times < MAX_ATTEMPTS,
        }
    }

    /// Starts over with a new result of attaching.
    pub(super) fn forget(&mut self, attached: Result<Option<Box<dyn Attached>>, Reason>) {
        self.attached = attached;
        (self.asked, self.times, self.unchanged) = (0, 0, 0);
        self.known = Arc::default();
        self.renamed = self.renamed.wrapping_add(1);
        self.family = Family::default();
        self.parent = None;
        if self.attached.is_err() {
            self.publish_no_frames(FrameWalker::UNKNOWN);
        }
    }

    /// Publishes a walker that finds no frames.
    fn publish_no_frames(&mut self, walker: FrameWalker) {
        self.walker = walker.with_ranges_of(&self.walker);
        self.code = CodeRanges::default();
    }

    /// Attaches again to a runtime that was ready; returns `true` if the walker changed.
    pub(super) fn recheck(&mut self, around: &mut Context<'_>) -> bool {
        let delay = RECHECK_DELAY << self.unchanged.min(3);
        if self.attached.is_err() || around.now.saturating_sub(self.asked) < delay {
            return false;
        }
        let before = (self.walker, self.code.clone());
        self.attach(around, around.pid);
        if (self.walker, &self.code) == (before.0, &before.1) {
            self.unchanged = self.unchanged.saturating_add(1);
            return false;
        }
        let attached = std::mem::replace(&mut self.attached, Err(Reason::NotReady));
        self.forget(attached);
        true
    }

    pub(super) fn attach(&mut self, around: &mut Context<'_>, pid: u32) {
        self.asked = around.now.max(1);
        self.times += 1;
        let runtimes = around.files.runtimes(self.module);
        let Some(FoundRuntime { runtime, .. }) = runtimes.iter().find(|it| it.language == self.language)
        else {
            return;
        };
        let system = around.system;
        let memory = move |address: u64, buffer: &mut [u8]| read_process(system, pid, address, buffer);
        let target = Target::new(&memory, self.bias, loaded_files(around.regions, around.files));
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
                if !may_change {
                    around.stats.refused += 1;
                    *around.stats.refusals.entry((self.language, reason)).or_default() += 1;
                }
                self.publish_no_frames(if may_change {
                    FrameWalker::UNKNOWN
                } else {
                    FrameWalker::UNAVAILABLE
                });
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
}

/// Reads memory of a process.
pub(crate) fn read_process(
    system: &dyn System,
    pid: u32,
    address: u64,
    buffer: &mut [u8],
) -> Result<(), Unreadable> {
    system.read(pid, address, buffer).map_err(|_| Unreadable)
}

/// Lists the mapped files, each once.
pub(crate) fn loaded_files(regions: &Regions, files: &dyn RuntimeFiles) -> Vec<LoadedFile> {
    let mut seen: HashSet<ModuleId> = HashSet::new();
    let mut loaded = Vec::new();
    for file in regions.iter().filter_map(|region| region.file) {
        let Some(module) = files.module(file.module).filter(|_| seen.insert(file.module)) else {
            continue;
        };
        if let Some(opener) = &module.opener {
            let (path, opener) = (module.path.clone(), opener.clone());
            loaded.push(LoadedFile { path, bias: file.bias, opener });
        }
    }
    loaded
}
