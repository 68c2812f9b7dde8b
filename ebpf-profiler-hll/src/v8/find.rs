//! Recognizes files that hold V8, and attaches to their processes.

use std::ops::Range;
use std::sync::Arc;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, CodeRanges, FrameWalker, Reason, Runtime, Target};
use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::unwind::BareFunction;
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::v8::parameter;

use super::builtins::Builtins;
use super::layout::{Dispatch, Layout};
use super::name::Names;
use super::symbols::Symbols;
use super::wasm::WasmLayout;

/// A file that holds V8.
#[derive(Debug)]
pub(super) struct File {
    /// Facts needed to attach, or the reason why they are missing.
    facts: Result<Arc<Facts>, Reason>,
}

/// Facts about a runtime that are read once from its file.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) layout: Layout,
    pub(super) builtins: Builtins,
    /// `None` if the code of WebAssembly cannot be found.
    pub(super) wasm: Option<WasmLayout>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    exports.get("v8dbg_SmiTag")?;
    let symbols = Symbols::read(elf);
    let layout = Layout::find(elf, &exports, &symbols).ok_or(Reason::Unsupported);
    let builtins = Builtins::find(elf, &symbols).ok_or(Reason::Unsupported);
    let facts = layout.and_then(|layout| {
        let wasm = WasmLayout::find(elf, &symbols, layout.version);
        Ok(Arc::new(Facts { layout, builtins: builtins?, wasm }))
    });
    Some(File { facts })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.facts.is_ok()
    }

    fn bare_functions(&self) -> &[BareFunction] {
        self.facts.as_ref().map_or(&[], |facts| &facts.builtins.functions)
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let facts = self.facts.clone()?;
        let start = target.address(facts.builtins.all.start);
        let mut parameters = parameters(&facts, start);
        match facts.layout.dispatch {
            Dispatch::Process { pointer, offset } => {
                parameters[parameter::DISPATCH] = dispatch_table(target, pointer, offset)?;
            }
            Dispatch::Isolate { heap, distance } => {
                parameters[parameter::HEAP] = heap.into();
                parameters[parameter::HEAP_DISPATCH] = i64::from(distance) as u64;
            }
            Dispatch::None | Dispatch::Unknown => {}
        }
        let walker =
            FrameWalker::with_parameters(walker::V8, None, &parameters).map_err(|_| Reason::Unsupported)?;
        let shared = facts.builtins.shared();
        let shared = shared.map(|range| target.address(range.start)..target.address(range.end));
        let code = CodeRanges::new(shared).with_anonymous();
        Ok(Attachment::new(walker, Names::new(facts, biases(target))).with_code(code))
    }
}

/// Returns the load biases of all files, with the runtime's file first.
fn biases(target: &Target<'_>) -> Vec<LoadBias> {
    let mut biases = vec![target.bias()];
    for file in target.files() {
        if !biases.contains(&file.bias) {
            biases.push(file.bias);
        }
    }
    biases
}

/// Returns the address of the process's table of entry points, 0 if it isn't found.
///
/// The target may be a copy of the builtins at another address, without the data of the file.
fn dispatch_table(target: &Target<'_>, pointer: u64, offset: u32) -> Result<u64, Reason> {
    const PAGE: u64 = 4096;
    let memory = target.memory();
    let mut is_ready = true;
    for bias in biases(target) {
        match memory.u64(bias.in_process(pointer)) {
            Ok(0) => is_ready = false,
            Ok(group) if group % 8 == 0 => {
                let table = memory.u64(group.wrapping_add(offset.into()));
                let is_table = |&table: &u64| table != 0 && table % PAGE == 0 && memory.u64(table).is_ok();
                if let Some(table) = table.ok().filter(is_table) {
                    return Ok(table);
                }
            }
            _ => {}
        }
    }
    if is_ready { Ok(0) } else { Err(Reason::NotReady) }
}

/// Returns the parameters of the walker, for builtins at an address.
fn parameters(facts: &Facts, start: u64) -> [u64; parameter::COUNT] {
    let Facts { layout, builtins, .. } = facts;
    let distance = |address: u64| address.wrapping_sub(builtins.all.start);
    let size = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let mut words = [0; parameter::COUNT];
    words[parameter::BUILTINS] = start;
    words[parameter::BUILTINS_SIZE] = size(&builtins.all);
    words[parameter::HANDLERS] = distance(builtins.handlers);
    words[parameter::ENTRY] = distance(builtins.entry.range.start);
    words[parameter::ENTRY_SIZE] = size(&builtins.entry.range);
    words[parameter::ENTRY_FRAME] = builtins.entry.frame;
    words[parameter::PROLOGUE] = distance(builtins.prologue.range.start);
    words[parameter::PROLOGUE_SIZE] = size(&builtins.prologue.range);
    words[parameter::PROLOGUE_FRAME] = builtins.prologue.frame;
    words[parameter::LEAVE] = distance(builtins.leave.range.start);
    words[parameter::LEAVE_SIZE] = size(&builtins.leave.range);
    words[parameter::RESUME] = distance(builtins.resume.start);
    words[parameter::RESUME_SIZE] = size(&builtins.resume);
    words[parameter::RESUME_EITHER] = distance(builtins.resume_either.start);
    words[parameter::RESUME_EITHER_SIZE] = size(&builtins.resume_either);
    words[parameter::OFFSET_WORD] = layout.offset_word.into();
    words[parameter::SHARED] = layout.function.shared.into();
    words[parameter::CODE] = layout.function.code.into();
    words[parameter::INSTRUCTIONS] = layout.code.instructions.into();
    words[parameter::SIZE] = layout.code.size.into();
    words[parameter::FLAGS] = layout.code.flags.into();
    words[parameter::KIND_SHIFT] = layout.code.kind_shift.into();
    words[parameter::KIND_MASK] = layout.code.kind_mask.into();
    words[parameter::BASELINE] = layout.code.baseline.into();
    words[parameter::NUMBERS] = layout.numbers().pack();
    words[parameter::POSITION_MASK] = layout.position_mask();
    words[parameter::DATA] = layout.shared.data.into();
    words[parameter::DATA_CODE] = layout.baseline_data.map_or(0, |data| data.code.into());
    words
}
