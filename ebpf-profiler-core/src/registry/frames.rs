//! Frames from the words of a walker.

use std::ops::Range;

use super::Registry;
use super::modules::Modules;
use crate::process::{Mapped, Regions};
use crate::trace::{Frame, FrameWord};

impl Registry {
    /// Appends the frames for the [words](ebpf_programs::abi::record) of a walker, by the current
    /// mappings of the process.
    pub fn frames(&mut self, pid: u32, walked: &[u64], now: u64, frames: &mut Vec<Frame>) {
        let Some(entry) = self.processes.get(pid) else {
            let none = Regions::default();
            let mut last = LastRegion::default();
            let frame = |&word| frame_of(FrameWord(word), &none, &mut self.modules, &mut last);
            return frames.extend(walked.iter().map(frame));
        };
        let regions = entry.regions.clone();
        let mut words = walked.iter();
        let mut last = LastRegion::default();
        let (mut bare, mut anonymous) = (false, false);
        // The frame before, if it is in a file.
        let mut callee = None;
        let unnamed = self.namer.interpreters.unnamed;
        while let Some(&word) = words.next() {
            let word = FrameWord(word);
            if word.is_call() {
                callee = None;
                if let &[detail, ref following @ ..] = words.as_slice()
                    && FrameWord(detail).is_detail()
                {
                    self.append_call(pid, (word, FrameWord(detail)), following, now, frames);
                }
            } else if word.is_native() {
                // The kernel entered a signal handler, which returns to a trampoline.
                let is_called = words.as_slice().first().is_none_or(|&caller| !FrameWord(caller).is_exact());
                let word = if is_called { word } else { word.exact() };
                let mut next = match frame_of(word, &regions, &mut self.modules, &mut last) {
                    Frame::Anonymous { address, found } => {
                        anonymous = true;
                        self.jit_frame(pid, address, found, now)
                    }
                    frame => frame,
                };
                match callee {
                    Some((module, _)) if word.is_guessed() => self.count_guess(module),
                    _ => self.mark_derived(&mut next, callee),
                }
                callee = match next {
                    Frame::Native { module, address, .. } => Some((module, address)),
                    _ => None,
                };
                frames.push(next);
                bare |= word.is_loop();
            }
        }
        self.namer.interpreters.bare_loops += u64::from(bare);
        // Code of a runtime that isn't attached yet.
        let waits = anonymous && self.processes.waits_for_runtime(pid, now);
        if bare || waits || self.namer.interpreters.unnamed > unnamed {
            self.recheck_runtimes(pid, now);
        }
    }

    /// Appends the frames of native [words](ebpf_programs::abi::record) without reading memory of
    /// the process.
    pub(crate) fn frames_of_files(&mut self, pid: u32, walked: &[u64], frames: &mut Vec<Frame>) {
        let Registry { processes, modules, .. } = self;
        let none = Regions::default();
        let regions = processes.get(pid).map_or(&none, |entry| &entry.regions);
        let mut last = LastRegion::default();
        frames.extend(walked.iter().map(|&word| frame_of(FrameWord(word), regions, modules, &mut last)));
    }
}

/// The region of the frame before, and its file if that is an ELF file: callers are often in the
/// same one.
#[derive(Default)]
struct LastRegion {
    addresses: Range<u64>,
    file: Option<Mapped>,
}

/// Returns the native frame of a word.
fn frame_of(word: FrameWord, regions: &Regions, modules: &mut Modules, last: &mut LastRegion) -> Frame {
    let (address, found) = (word.address(), word.found());
    if !last.addresses.contains(&address) {
        *last = region_at(address, regions, modules);
    }
    match last.file {
        Some(mapped) => Frame::Native { module: mapped.module, address: mapped.bias.in_file(address), found },
        None => Frame::Anonymous { address, found },
    }
}

/// Returns the region at an address, and marks its file as one with frames.
fn region_at(address: u64, regions: &Regions, modules: &mut Modules) -> LastRegion {
    let Some(region) = regions.find(address) else { return LastRegion::default() };
    let file = region.file.filter(|mapped| {
        let module = modules.get_mut(mapped.module).filter(|module| module.is_elf());
        module.map(|module| module.seen = true).is_some()
    });
    LastRegion { addresses: region.start..region.end, file }
}
