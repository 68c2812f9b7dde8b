//! Names of the frames of a finished profile, and numbers of its modules and scripts.

use std::borrow::Cow;
use std::num::NonZeroU64;

use hashbrown::HashMap;

use super::NamedFrame;
use super::names::{Namer, Names};
use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::symbol::{Symbol, Symbolizer};
use crate::trace::{Found, Frame, ScriptId};

/// Renumbers modules consecutively, in the order of first occurrence.
pub(super) fn number_modules(
    mut frames: Vec<Frame>,
    modules: impl Fn(ModuleId) -> Option<Module>,
) -> (Vec<Module>, Vec<Frame>) {
    let mut numbers: HashMap<ModuleId, ModuleId> = HashMap::new();
    let mut found = Vec::new();
    for frame in &mut frames {
        if let Frame::Native { module, .. } = frame {
            *module = *numbers.entry(*module).or_insert_with_key(|&id| {
                found.push(modules(id).unwrap_or_else(|| Module::new("[unknown]")));
                ModuleId(found.len() as u32 - 1)
            });
        }
    }
    (found, frames)
}

/// Renumbers the functions of scripts in the same way.
pub(super) fn number_scripts(
    mut frames: Vec<Frame>,
    mut scripts: HashMap<ScriptId, Script>,
) -> (Vec<Script>, Vec<Frame>) {
    let mut numbers: HashMap<ScriptId, ScriptId> = HashMap::new();
    let mut found = Vec::new();
    for frame in &mut frames {
        if let Frame::Script { function, .. } = frame {
            *function = *numbers.entry(*function).or_insert_with_key(|id| {
                found.push(scripts.remove(id).unwrap_or_else(unknown_script));
                ScriptId(found.len() as u32 - 1)
            });
        }
    }
    (found, frames)
}

fn unknown_script() -> Script {
    Script { name: "[unknown]".into(), is_unnamed: true, ..Script::default() }
}

/// The kind and module of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Script,
    Kernel,
    Module(ModuleId),
    Anonymous,
}

/// Returns the place, address and number of each frame in the order of their code; calls of scripts
/// by function and line.
pub(super) fn order(frames: &[Frame]) -> Vec<(Place, u64, u32)> {
    let key = |(index, frame): (u32, &Frame)| match *frame {
        Frame::Script { function, line, .. } => {
            (Place::Script, u64::from(function.0) << 32 | u64::from(line), index)
        }
        Frame::Kernel { address } => (Place::Kernel, address, index),
        Frame::Native { module, address, .. } => (Place::Module(module), address, index),
        Frame::Anonymous { address, .. } => (Place::Anonymous, address, index),
    };
    let mut order: Vec<_> = (0..).zip(frames).map(key).collect();
    order.sort_unstable();
    order
}

/// Symbolizes frames module by module, in ascending order of addresses.
pub(super) struct Naming<'m> {
    modules: &'m [Module],
    scripts: &'m [Script],
    frames: Vec<NamedFrame>,
    namer: Namer,
    /// Names that frames already have.
    known: Names,
    names_kernel: bool,
}

impl<'m> Naming<'m> {
    pub(super) fn new(frames: Vec<Frame>, modules: &'m [Module], scripts: &'m [Script]) -> Naming<'m> {
        let named = |frame| NamedFrame { frame, symbols: 0..0, start: None, is_doubtful: false };
        let frames = frames.into_iter().map(named).collect();
        Naming::again(frames, Names::default(), modules, scripts)
    }

    /// Keeps the names of frames in `known`, and names the others.
    pub(super) fn again(
        frames: Vec<NamedFrame>,
        known: Names,
        modules: &'m [Module],
        scripts: &'m [Script],
    ) -> Naming<'m> {
        Naming { modules, scripts, frames, namer: Namer::default(), known, names_kernel: true }
    }

    /// Leaves kernel frames without a name as they are.
    pub(super) fn without_kernel(self) -> Naming<'m> {
        Naming { names_kernel: false, ..self }
    }

    pub(super) fn run(
        mut self,
        order: &[(Place, u64, u32)],
        symbolizer: &mut dyn Symbolizer,
    ) -> (Names, Vec<NamedFrame>) {
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let rest = self.keep_names(group);
            let Some(&(place, ..)) = rest.first() else { continue };
            match place {
                Place::Script => rest.iter().for_each(|&(.., frame)| self.name_script(frame)),
                Place::Kernel if !self.names_kernel => {}
                Place::Kernel | Place::Module(_) => self.name_group(&rest, symbolizer),
                Place::Anonymous => {}
            }
        }
        (self.namer.finish(), self.frames)
    }

    /// Keeps the names that frames have; returns the other frames.
    fn keep_names<'g>(&mut self, group: &'g [(Place, u64, u32)]) -> Cow<'g, [(Place, u64, u32)]> {
        let Naming { frames, namer, known, .. } = self;
        let mut has_name = |&(.., frame): &(Place, u64, u32)| {
            let named = &mut frames[frame as usize];
            if !named.symbols.is_empty() {
                named.symbols = namer.add(known.symbols(&named.symbols));
            }
            !named.symbols.is_empty()
        };
        match known.is_empty() {
            true => Cow::Borrowed(group),
            false => group.iter().filter(|it| !has_name(it)).copied().collect(),
        }
    }

    fn name_script(&mut self, frame: u32) {
        let named = &mut self.frames[frame as usize];
        if let Frame::Script { function, line, .. } = named.frame {
            named.symbols = self.namer.add(&[symbol(&self.scripts[function.0 as usize], line)]);
        }
    }

    fn name_group(&mut self, group: &[(Place, u64, u32)], symbolizer: &mut dyn Symbolizer) {
        let addresses: Vec<u64> = group.iter().map(|&(_, address, _)| address).collect();
        let Naming { modules, frames, namer, .. } = self;
        let mut name = |number: usize, names: &[Symbol]| {
            if let Some(&(_, _, frame)) = group.get(number) {
                frames[frame as usize].symbols = namer.add(names);
                frames[frame as usize].start = None;
            }
        };
        match group[0].0 {
            Place::Module(module) => {
                let module = &modules[module.0 as usize];
                symbolizer.native(module, &addresses, &mut name);
                self.begin_group(group, module, symbolizer);
                self.check_group(group, module, symbolizer);
            }
            _ => symbolizer.kernel(&addresses, &mut name),
        }
    }

    /// Adds the start addresses of functions without a name.
    fn begin_group(&mut self, group: &[(Place, u64, u32)], module: &Module, symbolizer: &mut dyn Symbolizer) {
        let frames = &mut self.frames;
        let is_unnamed = |&&(_, _, frame): &&(_, _, u32)| frames[frame as usize].symbols.is_empty();
        let unnamed: Vec<(u64, u32)> =
            group.iter().filter(is_unnamed).map(|&(_, address, frame)| (address, frame)).collect();
        if unnamed.is_empty() {
            return;
        }
        let addresses: Vec<u64> = unnamed.iter().map(|&(address, _)| address).collect();
        symbolizer.starts(module, &addresses, &mut |number, start| {
            if let Some(&(_, frame)) = unnamed.get(number) {
                frames[frame as usize].start = NonZeroU64::new(start);
            }
        });
    }

    /// Marks frames whose return address follows no call.
    fn check_group(&mut self, group: &[(Place, u64, u32)], module: &Module, symbolizer: &mut dyn Symbolizer) {
        let frames = &mut self.frames;
        let is_called = |frame: u32| {
            matches!(
                frames[frame as usize].frame,
                Frame::Native { found: Found::Exactly | Found::Derived | Found::Guessed, .. }
            )
        };
        let (addresses, called): (Vec<u64>, Vec<u32>) = group
            .iter()
            .filter(|&&(.., frame)| is_called(frame))
            .map(|&(_, address, frame)| (address, frame))
            .unzip();
        symbolizer.calls(module, &addresses, &mut |number| {
            if let Some(&frame) = called.get(number) {
                frames[frame as usize].is_doubtful = true;
            }
        });
    }
}

fn symbol(script: &Script, line: u32) -> Symbol {
    Symbol {
        function: script.name.clone(),
        file: script.file.clone(),
        line,
        start_line: script.start_line,
        ..Symbol::default()
    }
}
