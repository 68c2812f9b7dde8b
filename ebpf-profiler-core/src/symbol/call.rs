//! The truth test of unwinding: a return address follows a call instruction.
//!
//! ```text
//!   address of the frame, the last byte of a call ──► bytes of the file before it ──► a call? ──► else the frame is doubtful
//! ```
//!
//! Unwind data that is wrong leads to a word of the stack that is no return address, or to an old
//! one. The first case shows here, for each distinct frame once, with the instructions that the
//! guesses of the kernel side use.

use ebpf_programs::machine::Machine;
use ebpf_programs::walk::arch::{Aarch64, Arch as _, CallInstruction, X86_64};

use crate::elf::{Arch, Elf};

/// Returns `true` if a call instruction ends with the byte at `address`, or the file has no such
/// byte.
pub(super) fn ends_at(elf: &Elf, address: u64) -> bool {
    let mut code = CodeOf { elf, is_readable: true };
    let Some(after) = address.checked_add(1) else { return false };
    let call = match elf.arch() {
        Arch::X86_64 => X86_64::call_before(&mut code, after),
        Arch::Aarch64 => Aarch64::call_before(&mut code, after),
    };
    call != CallInstruction::None || !code.is_readable
}

/// The code of a file as memory.
struct CodeOf<'e> {
    elf: &'e Elf,
    is_readable: bool,
}

impl Machine for CodeOf<'_> {
    fn read_stack(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.is_readable = self.elf.read(address, &mut word).is_ok();
        self.is_readable.then_some(u64::from_le_bytes(word))
    }

    fn push_frame(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::elf::ReadAt;
    use crate::process::{Module, ModuleId};
    use crate::profile::{Process, Profile, ProfileBuilder, Thread};
    use crate::symbol::Symbols;
    use crate::trace::{Found, Frame, Stop, Trace};

    /// `_start` calls the C library indirectly, and halts if that returns.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_of_this_program_are_recognized() {
        let elf = Elf::open(File::open("/proc/self/exe").unwrap()).unwrap();
        let mut start = [0; 64];
        elf.read(elf.entry(), &mut start).unwrap();
        let is_call = |code: &[u8]| code[..2] == [0xff, 0x15] && code[6] == 0xf4;
        let call = elf.entry() + start.windows(7).position(is_call).unwrap() as u64;
        assert!(ends_at(&elf, call + 5));
        assert!(!ends_at(&elf, elf.entry() + 8));
        assert!(ends_at(&elf, 1 << 40) && !ends_at(&elf, u64::MAX), "what can't be read is not doubted");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn frames_behind_no_call_are_doubtful() {
        let open = || Ok(Box::new(File::open("/proc/self/exe")?) as Box<dyn ReadAt>);
        let entry = Elf::open(File::open("/proc/self/exe").unwrap()).unwrap().entry();
        let mut builder = ProfileBuilder::new(Duration::from_millis(10));
        let process = builder.process(Process::new(7));
        let thread = builder.thread(Thread::new(process, 7, "worker"));
        for (address, found) in
            [(entry + 8, Found::Exactly), (entry + 8, Found::Uncalled), (entry + 9, Found::Guessed)]
        {
            let frames = vec![Frame::Native { module: ModuleId(1), address, found }];
            builder.add(thread, &Trace::new(frames, Stop::Root), 1);
        }
        let mut module = Module::new("/proc/self/exe");
        module.opener = Some(Arc::new(open));
        let mut symbols = Symbols::default();
        let modules = |_| Some(module.clone());
        let profile = builder.finish(SystemTime::now(), Duration::from_secs(1), modules, &mut symbols);
        let doubtful: Vec<bool> = profile.samples().map(|sample| sample.trace().is_doubtful()).collect();
        assert_eq!(doubtful, [true, false, true]);
        assert_eq!((profile.summary().doubtful, symbols.stats().doubtful), (2, 2));
        assert!(profile.samples().next().unwrap().trace().frames().next().unwrap().is_guessed());
        let merged = Profile::merge([&profile, &profile]).unwrap();
        assert_eq!(merged.summary().doubtful, 4);
    }
}
