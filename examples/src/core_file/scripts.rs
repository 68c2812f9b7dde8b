//! Script frames: interpreters and names of script functions.

use std::cell::RefCell;
use std::ops::Range;

use ebpf_profiler_core::language::{Attached, FrameWalker, LoadedFile, Target, Unreadable};
use ebpf_profiler_unwind::ScriptCall;
use ebpf_profiler_unwind::case::Place;
use ebpf_profiler_unwind::core_dump::{Loaded, Memory};

use super::names;

/// The interpreters of a process.
#[derive(Default)]
pub(super) struct Scripts(Vec<Script>);

struct Script {
    /// Path of its file.
    path: String,
    walker: FrameWalker,
    names: Box<dyn Attached>,
}

impl Scripts {
    /// Discovers the runtimes in all files.
    pub(super) fn find(loaded: &Loaded) -> Scripts {
        let files = files(loaded);
        let memory = RefCell::new(loaded.memory());
        let read = |address: u64, buffer: &mut [u8]| fill(&memory, address, buffer);
        let languages = ebpf_profiler_hll::all();
        let mut scripts = Vec::new();
        for file in &files {
            let Ok(elf) = file.open() else { continue };
            for runtime in languages.iter().filter_map(|language| language.find(&elf)) {
                let target = Target::new(&read, file.bias, files.clone());
                if let Ok(attachment) = runtime.attach(&target) {
                    let (walker, _, names) = attachment.into_parts();
                    let walker = with_loops(walker, runtime.loops(), file.bias);
                    scripts.push(Script { path: file.path.to_string(), walker, names });
                }
            }
        }
        Scripts(scripts)
    }

    pub(super) fn interpreters(&self) -> Vec<FrameWalker> {
        self.0.iter().map(|script| script.walker).collect()
    }

    /// Returns the mappings of code, with their interpreters.
    pub(super) fn places<'a>(&self, loaded: &'a Loaded) -> Vec<Place<'a>> {
        let number = |place: &Place<'_>| self.0.iter().position(|script| *script.path == *place.path());
        let with_number = |place: Place<'a>| match number(&place) {
            Some(number) => place.with_interpreter(number),
            None => place,
        };
        loaded.places().into_iter().map(with_number).collect()
    }

    /// Returns the function of a script frame, and the script with the line.
    pub(super) fn name(&mut self, call: &ScriptCall, loaded: &Loaded) -> (Vec<String>, String) {
        let Some(script) = self.0.get_mut(call.interpreter) else { return Default::default() };
        let memory = RefCell::new(loaded.memory());
        let read = |address: u64, buffer: &mut [u8]| fill(&memory, address, buffer);
        match script.names.function(call.function, call.check, &read) {
            Ok(function) => {
                let place = format!("{}:{}", function.file, function.lines.at(call.position));
                (vec![function.name.into()], place)
            }
            Err(reason) => (vec![format!("<{reason}>")], String::new()),
        }
    }
}

/// Returns the files that are mapped as code, each once.
fn files(loaded: &Loaded) -> Vec<LoadedFile> {
    let files = loaded.files().iter().filter_map(|file| {
        let place = loaded.places().into_iter().find(|place| place.path() == &*file.path)?;
        let bias = place.mapping().load_bias();
        Some(LoadedFile::new(file.path.clone(), bias, names::opener(file)?))
    });
    files.collect()
}

fn with_loops(walker: FrameWalker, loops: &[Range<u64>], bias: u64) -> FrameWalker {
    let in_process = |range: &Range<u64>| range.start.wrapping_add(bias)..range.end.wrapping_add(bias);
    walker.with_ranges(loops.iter().map(in_process))
}

fn fill(memory: &RefCell<Memory>, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
    memory.borrow_mut().fill(address, buffer).ok_or(Unreadable)
}
