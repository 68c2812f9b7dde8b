//! Script frames: interpreters and names of script functions.

use std::cell::RefCell;
use std::ops::Range;

use ebpf_profiler_core::language::{self, Attached, CodeRanges, FrameWalker, LoadedFile, Target, Unreadable};
use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_unwind::ScriptCall;
use ebpf_profiler_unwind::case::Place;
use ebpf_profiler_unwind::core_dump::{Loaded, Memory};

use super::{Function, names};

/// The interpreters of a process.
#[derive(Default)]
pub(super) struct Scripts(Vec<Script>);

struct Script {
    /// Path of its file, and its load bias.
    path: String,
    bias: LoadBias,
    walker: FrameWalker,
    /// The memory that it owns.
    code: CodeRanges,
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
                for bias in biases(loaded, &file.path) {
                    let target = Target::new(&read, bias, files.clone());
                    if let Ok(attachment) = runtime.attach(&target) {
                        let (walker, code, names) = attachment.into_parts();
                        let walker = with_loops(walker, runtime.loops(), bias);
                        scripts.push(Script { path: file.path.to_string(), bias, walker, code, names });
                    }
                }
            }
        }
        Scripts(scripts)
    }

    pub(super) fn interpreters(&self) -> Vec<FrameWalker> {
        self.0.iter().map(|script| script.walker).collect()
    }

    /// Returns the mappings of code, with their interpreters, split where one owns memory; each
    /// with its number before.
    pub(super) fn places<'a>(&self, loaded: &'a Loaded) -> Vec<(usize, Place<'a>)> {
        let number = |place: &Place<'_>| {
            let is_of =
                |script: &Script| *script.path == *place.path() && script.bias == place.mapping().load_bias();
            self.0.iter().position(is_of)
        };
        let with_number = |place: Place<'a>| match number(&place) {
            Some(number) => place.with_interpreter(number),
            None => place,
        };
        let places = loaded.places().into_iter().map(with_number).enumerate();
        places.flat_map(|(at, place)| self.split(&place).into_iter().map(move |part| (at, part))).collect()
    }

    /// Splits a mapping into the parts that runtimes own and the others.
    fn split<'a>(&self, place: &Place<'a>) -> Vec<Place<'a>> {
        let range = place.mapping().range();
        if place.path().is_empty()
            && let Some(owner) =
                self.0.iter().position(|script| script.code.has_anonymous() || script.code.has_linked_areas())
        {
            return vec![place.part(range, Some(owner))];
        }
        let mut owned: Vec<_> = (0..)
            .zip(&self.0)
            .flat_map(|(number, script)| script.code.ranges().iter().map(move |it| (it.clone(), number)))
            .filter(|(it, _)| it.start < range.end && range.start < it.end)
            .collect();
        owned.sort_by_key(|(it, _)| it.start);
        let (mut parts, mut at) = (Vec::new(), range.start);
        for (it, number) in owned {
            parts.push(place.part(at..it.start.max(at), None));
            parts.push(place.part(it.start.max(at)..it.end, Some(number)));
            at = it.end.max(at);
        }
        parts.push(place.part(at..range.end, None));
        parts.retain(|part| !part.mapping().range().is_empty());
        parts
    }

    /// Returns the functions of a script frame, the innermost inlined one first. `caller` is the
    /// frame that called it.
    pub(super) fn name(
        &mut self,
        call: &ScriptCall,
        caller: Option<&ScriptCall>,
        loaded: &Loaded,
    ) -> Vec<Function> {
        let Some(script) = self.0.get_mut(call.interpreter) else { return Default::default() };
        let memory = RefCell::new(loaded.memory());
        let read = |address: u64, buffer: &mut [u8]| fill(&memory, address, buffer);
        let named = match caller.filter(|_| call.is_named_by_caller) {
            Some(caller) => script.names.called_function(
                call.function,
                call.check,
                (caller.function, caller.position),
                &read,
            ),
            None => script.names.function(call.function, call.check, &read),
        };
        match named {
            Ok(function) => {
                let mut calls: Vec<_> = function.inlines.at(call.position).collect();
                calls.reverse();
                let outer = (&function, function.lines.at(call.position));
                calls.push(outer);
                let named = |(function, line): &(&language::Function, u32)| Function {
                    name: function.name.to_string(),
                    place: format!("{}:{line}", function.file),
                };
                calls.iter().map(named).collect()
            }
            Err(reason) => vec![Function { name: format!("<{reason}>"), place: String::new() }],
        }
    }
}

/// Returns the load biases of a file: V8 maps its builtins a second time, near the code that it
/// generates.
fn biases(loaded: &Loaded, path: &str) -> Vec<LoadBias> {
    let places = loaded.places().into_iter().filter(|place| place.path() == path);
    let mut biases: Vec<LoadBias> = places.map(|place| place.mapping().load_bias()).collect();
    let mut seen = Vec::new();
    biases.retain(|bias| {
        !seen.contains(bias) && {
            seen.push(*bias);
            true
        }
    });
    biases
}

/// Returns the files that are mapped as code, each once.
pub(super) fn files(loaded: &Loaded) -> Vec<LoadedFile> {
    let files = loaded.files().iter().filter_map(|file| {
        let place = loaded.places().into_iter().find(|place| place.path() == &*file.path)?;
        let bias = place.mapping().load_bias();
        Some(LoadedFile::new(file.path.clone(), bias, names::opener(file)?))
    });
    files.collect()
}

fn with_loops(walker: FrameWalker, loops: &[Range<u64>], bias: LoadBias) -> FrameWalker {
    let in_process = |range: &Range<u64>| bias.in_process(range.start)..bias.in_process(range.end);
    walker.with_ranges(loops.iter().map(in_process))
}

fn fill(memory: &RefCell<Memory>, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
    memory.borrow_mut().fill(address, buffer).ok_or(Unreadable)
}
