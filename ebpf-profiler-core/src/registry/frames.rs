//! Frames from the words of a walker.

use ebpf_programs::abi::record::frame;

use super::Registry;
use super::modules::Modules;
use crate::process::Regions;
use crate::trace::{Found, Frame};

impl Registry {
    /// Appends the frames for the [words](ebpf_programs::abi::record) of a walker, by the current mappings of the process.
    pub fn frames(&mut self, pid: u32, walked: &[u64], now: u64, frames: &mut Vec<Frame>) {
        let Some(entry) = self.processes.get(&pid) else {
            let none = Regions::default();
            return frames.extend(walked.iter().map(|&walked| frame_of(walked, &none, &mut self.modules)));
        };
        let regions = entry.regions.clone();
        let mut words = walked.iter();
        let (mut bare, mut anonymous) = (false, false);
        let unnamed = self.stats.interpreters.unnamed;
        while let Some(&word) = words.next() {
            if word & frame::INTERPRETED != 0 {
                if let [detail, behind @ ..] = words.as_slice()
                    && detail & frame::DETAIL != 0
                {
                    self.call(pid, &regions, (word, *detail), behind, now, frames);
                }
            } else if word & frame::DETAIL == 0 {
                // The kernel entered a signal handler, which returns to a trampoline.
                let is_called = words.as_slice().first().is_none_or(|caller| caller & frame::EXACT == 0);
                let word = if is_called { word } else { word | frame::EXACT };
                let frame = match frame_of(word, &regions, &mut self.modules) {
                    Frame::Anonymous { address, found } => {
                        anonymous = true;
                        self.jit_frame(pid, &regions, address, found, now)
                    }
                    frame => frame,
                };
                frames.push(frame);
                bare |= word & frame::LOOP != 0;
            }
        }
        self.stats.interpreters.bare_loops += u64::from(bare);
        // Code of a runtime that isn't attached yet.
        let waits = anonymous && self.waits_for_runtime(pid, now);
        if bare || waits || self.stats.interpreters.unnamed > unnamed {
            self.recheck_runtimes(pid, now);
        }
    }

    /// Appends the frames of native [words](ebpf_programs::abi::record) without reading memory of the process.
    pub(crate) fn frames_of_files(&mut self, pid: u32, walked: &[u64], frames: &mut Vec<Frame>) {
        let Registry { processes, modules, .. } = self;
        let none = Regions::default();
        let regions = processes.get(&pid).map_or(&none, |entry| &entry.regions);
        frames.extend(walked.iter().map(|&walked| frame_of(walked, regions, modules)));
    }
}

/// Returns the frame for one address with [flags](ebpf_programs::abi::record::frame).
fn frame_of(walked: u64, regions: &Regions, modules: &mut Modules) -> Frame {
    let found = match walked {
        walked if walked & frame::GUESSED != 0 => Found::Guessed,
        walked if walked & frame::EXACT != 0 => Found::Uncalled,
        _ => Found::Exactly,
    };
    let address = walked & frame::ADDRESS;
    let mapped = regions.find(address).and_then(|region| region.file);
    let module = mapped.and_then(|mapped| Some((mapped, modules.get_mut(mapped.module)?)));
    match module {
        Some((mapped, module)) if module.is_elf() => {
            module.seen = true;
            Frame::Native { module: mapped.module, address: address.wrapping_add(mapped.bias), found }
        }
        _ => Frame::Anonymous { address, found },
    }
}
