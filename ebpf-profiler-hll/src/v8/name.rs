//! Names functions, with the lines of their positions and what was inlined into them.

use std::collections::HashMap;
use std::sync::Arc;

use ebpf_profiler_core::language::{Attached, Function, Inlines, Lines, Memory, Reason};
use ebpf_profiler_core::process::LoadBias;
use ebpf_programs::abi::record::frame;
use ebpf_programs::abi::v8::{BYTES, address_check, shape};
use ebpf_programs::walk::identity::v8 as identity;

use super::code::{self, Code, Deopt};
use super::find::Facts;
use super::former::FormerCodes;
use super::heap::{Heap, Object};
use super::positions::{self, Position};
use super::script::{Script, Scripts};
use super::shared::{self, Shared};
use super::wasm::Modules;
use ebpf_profiler_core::language::Words;

/// Maximum size of a bytecode array and of its position table, in bytes.
const MAX_BYTECODE: usize = 1 << 22;

/// Maximum depth of inlined calls.
const MAX_DEPTH: usize = 64;

/// Maximum number of codes and of functions that are kept.
const MAX_KEPT: usize = 1 << 14;

/// Maximum number of functions in optimized code that are kept, with their lines.
const MAX_OPTIMIZED: usize = 1 << 8;

/// Names the functions of one process.
pub(super) struct Names {
    facts: Arc<Facts>,
    scripts: Scripts,
    /// Functions by their bytecode, or by baseline code that doesn't refer to it.
    functions: HashMap<Object, Object>,
    /// Codes that were found by addresses in them, by start.
    codes: std::collections::BTreeMap<u64, Code>,
    /// Functions in optimized code that was found so, by the code and its check.
    optimized: HashMap<(Object, u32), Arc<Function>>,
    former: FormerCodes,
    wasm: Option<Modules>,
}

impl Names {
    /// Creates the names of a process with the differences between its addresses and those of
    /// files.
    pub(super) fn new(facts: Arc<Facts>, biases: Vec<LoadBias>) -> Names {
        let wasm = facts.wasm.map(|layout| Modules::new(layout, biases));
        Names {
            facts,
            scripts: Scripts::default(),
            functions: HashMap::new(),
            codes: Default::default(),
            optimized: HashMap::new(),
            former: FormerCodes::default(),
            wasm,
        }
    }

    /// Reads a function without its lines.
    fn named(&mut self, heap: &Heap<'_>, shared: Object) -> Result<Named, Reason> {
        let Shared { name, script, start } = shared::read(heap, shared)?;
        let script = script.and_then(|script| self.scripts.get(heap, script).ok());
        let line = script.as_ref().zip(start).map_or(0, |(script, start)| script.line(start));
        let file = script.as_ref().map_or("", |script| &script.name);
        let function = Function::new(name).with_file(file).with_start_line(line);
        Ok(Named { function, script })
    }

    /// Names an interpreted function. Positions are bytecode offsets as frames hold them.
    fn interpreted(&mut self, heap: &Heap<'_>, shared: Object) -> Result<Function, Reason> {
        let named = self.named(heap, shared)?;
        let lines = self.bytecode_of(heap, shared).and_then(|bytecode| {
            let header = heap.layout.bytecode.data - 1;
            let mut lines = Lines::default();
            // A frame that is being built has offset 0.
            lines.push(0, named.function.start_line);
            for (offset, line) in named.bytecode_lines(heap, bytecode)? {
                lines.push(offset.saturating_add(header), line);
            }
            Ok(lines)
        });
        Ok(named.with_lines(lines.unwrap_or_default()))
    }

    /// Names a function in baseline code. Positions are offsets in the code.
    fn baseline(&mut self, heap: &Heap<'_>, shared: Object, code: Option<Code>) -> Result<Function, Reason> {
        let named = self.named(heap, shared)?;
        let code = match code {
            Some(code) => Ok(code),
            None => baseline_of(heap, shared),
        };
        let lines = code.and_then(|code| {
            if heap.layout.baseline_data.is_some() {
                self.keep(code.object, shared);
            }
            let bytecode = self.bytecode_of(heap, shared)?;
            named.baseline_lines(heap, &code, bytecode, &self.facts.builtins.sizes)
        });
        Ok(named.with_lines(lines.unwrap_or_default()))
    }

    /// Names a function in optimized code. Positions are offsets in the code.
    fn optimized(&mut self, heap: &Heap<'_>, code: &Code) -> Result<Function, Reason> {
        let deopt = code.deopt(heap)?;
        let named = self.named(heap, deopt.shared)?;
        let table = code.table(heap).unwrap_or_default();
        let mut expansion = Expansion { deopt: &deopt, inlines: Inlines::default(), known: HashMap::new() };
        let mut lines = Lines::default();
        lines.push(0, named.function.start_line);
        for (offset, position) in positions::decode(heap.layout.version, &table) {
            let Some(position) = position else { continue };
            let (outer, calls) = expansion.expand(self, heap, position);
            lines.push(offset, named.line(outer));
            expansion.inlines.push(offset, &calls);
        }
        Ok(named.function.with_lines(lines).with_inlines(expansion.inlines))
    }

    /// Does this once for each compilation: many addresses are in code that a loop entered.
    fn optimized_once(&mut self, heap: &Heap<'_>, code: &Code) -> Result<Arc<Function>, Reason> {
        let key = (code.object, code.check);
        if let Some(known) = self.optimized.get(&key) {
            return Ok(known.clone());
        }
        let function = Arc::new(self.optimized(heap, code)?);
        if self.optimized.len() >= MAX_OPTIMIZED {
            self.optimized.clear();
        }
        self.optimized.insert(key, function.clone());
        Ok(function)
    }

    /// Names the function whose code covers an address, or covered it at the sample.
    fn at_address(&mut self, heap: &Heap<'_>, pc: u64, check: u32) -> Result<Function, Reason> {
        self.in_code_at(heap, pc, check).or_else(|reason| {
            let (function, offset) = self.former.find(pc, check).ok_or(reason)?;
            Ok(at_offset(function, offset))
        })
    }

    /// Names the function whose code covers an address by now.
    fn in_code_at(&mut self, heap: &Heap<'_>, pc: u64, check: u32) -> Result<Function, Reason> {
        let around: [u8; 16] = heap.memory.array(pc.wrapping_sub(8))?;
        let around = [0, 1].map(|index| u64::from_le_bytes(around.as_chunks().0[index]));
        let is_of = |function| address_check(function, &around) == check;
        // A frame that has no function: what the walker took for one is not checked.
        let without_function = |function| match (address_check(0, &around) ^ check) & BYTES {
            0 => Ok(function),
            _ => Err(Reason::Replaced),
        };
        // Before WebAssembly, whose maps take longer to search.
        let Some(code) = self.code_at(heap, pc) else {
            let found = self.wasm.as_mut().and_then(|wasm| wasm.function(heap.memory, pc));
            let found = found.ok_or(Reason::Foreign)?;
            return without_function(Function::new(found.name).with_file(found.file));
        };
        if let Some(name) = code.stub(heap) {
            return without_function(Function::new(name));
        }
        let shared =
            if code.is_baseline(heap) { self.function_of(heap, &code)? } else { code.deopt(heap)?.shared };
        let check_of_shared = check_of(heap, shared)?;
        // A leaf's function may be unknown.
        if !is_of(check_of_shared) && !is_of(0) {
            return Err(Reason::Replaced);
        }
        let function = match code.is_baseline(heap) {
            true => Arc::new(self.baseline(heap, shared, Some(code))?),
            false => self.optimized_once(heap, &code)?,
        };
        self.former.keep(heap, code, check_of_shared, &function);
        Ok(at_offset(&function, pc.wrapping_sub(code.start) as u32))
    }

    /// Returns the code that covers an address.
    fn code_at(&mut self, heap: &Heap<'_>, pc: u64) -> Option<Code> {
        let known =
            self.codes.range(..=pc).next_back().map(|(_, code)| *code).filter(|code| code.contains(pc));
        if let Some(known) = known.filter(|known| known.is_current(heap)) {
            return Some(known);
        }
        let code = Code::find(heap, pc)?;
        if self.codes.len() >= MAX_KEPT {
            self.codes.clear();
        }
        self.codes.insert(code.start, code);
        Some(code)
    }

    /// Returns the function of baseline code that was found by an address in it.
    fn function_of(&mut self, heap: &Heap<'_>, code: &Code) -> Result<Object, Reason> {
        let refers_to_bytecode = heap.layout.baseline_data.is_none();
        let key = if refers_to_bytecode { code.bytecode(heap)? } else { code.object };
        let shared = self.functions.get(&key).copied().ok_or(Reason::NotReady)?;
        let now = match refers_to_bytecode {
            true => self.bytecode_of(heap, shared)?,
            false => baseline_of(heap, shared)?.object,
        };
        if now == key { Ok(shared) } else { Err(Reason::Replaced) }
    }

    fn bytecode_of(&mut self, heap: &Heap<'_>, shared: Object) -> Result<Object, Reason> {
        let bytecode = code::bytecode(heap, heap.object(shared, heap.layout.shared.data)?)?;
        self.keep(bytecode, shared);
        Ok(bytecode)
    }

    fn keep(&mut self, bytecode: Object, shared: Object) {
        if self.functions.len() >= MAX_KEPT {
            self.functions.clear();
        }
        self.functions.insert(bytecode, shared);
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let facts = self.facts.clone();
        let heap = Heap { memory, layout: &facts.layout };
        let form = (address >> frame::SHAPE_SHIFT) as u8;
        let address = address & ((1 << frame::SHAPE_SHIFT) - 1);
        match form {
            shape::INTERPRETED | shape::BASELINE => {
                let shared = Object::at(address)?;
                if check_of(&heap, shared)? != check {
                    return Err(Reason::Replaced);
                }
                match form {
                    shape::INTERPRETED => self.interpreted(&heap, shared),
                    _ => self.baseline(&heap, shared, None),
                }
            }
            shape::OPTIMIZED => {
                let code = Code::read(&heap, Object::at(address)?)?;
                if code.check != check {
                    return Err(Reason::Replaced);
                }
                if let Some(name) = code.stub(&heap) {
                    return Ok(Function::new(name));
                }
                self.optimized(&heap, &code)
            }
            shape::ADDRESS => self.at_address(&heap, address, check),
            _ => Err(Reason::Implausible),
        }
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let facts = self.facts.clone();
        let heap = Heap { memory, layout: &facts.layout };
        let form = (address >> frame::SHAPE_SHIFT) as u8;
        let address = address & ((1 << frame::SHAPE_SHIFT) - 1);
        match form {
            shape::INTERPRETED | shape::BASELINE => Ok(check_of(&heap, Object::at(address)?)? == check),
            shape::OPTIMIZED => Ok(Code::read(&heap, Object::at(address)?)?.check == check),
            _ if self.former.find(address, check).is_some() => Ok(true),
            _ => {
                let around: [u8; 16] = memory.array(address.wrapping_sub(8))?;
                let around = [0, 1].map(|index| u64::from_le_bytes(around.as_chunks().0[index]));
                Ok((address_check(0, &around) ^ check) & BYTES == 0)
            }
        }
    }
}

/// Returns a function as it is at an offset of its code. There is but one position.
fn at_offset(function: &Function, offset: u32) -> Function {
    let mut lines = Lines::default();
    lines.push(0, function.lines.at(offset));
    let mut inlines = Inlines::default();
    let calls: Vec<_> =
        function.inlines.at(offset).map(|(inlined, line)| (inlines.add(inlined.clone()), line)).collect();
    inlines.push(0, &calls);
    let named = Function::new(&*function.name).with_file(&*function.file);
    named.with_start_line(function.start_line).with_lines(lines).with_inlines(inlines)
}

/// Returns the baseline code of a `SharedFunctionInfo`.
fn baseline_of(heap: &Heap<'_>, shared: Object) -> Result<Code, Reason> {
    code::baseline(heap, heap.object(shared, heap.layout.shared.data)?)
}

/// Returns the check of a `SharedFunctionInfo`, as the kernel side computes it.
fn check_of(heap: &Heap<'_>, shared: Object) -> Result<u32, Reason> {
    heap.ensure_kind(shared, heap.layout.types.shared)?;
    let (mask, numbers) = (heap.layout.position_mask(), heap.layout.numbers());
    let check = identity::function(&mut Words::new(heap.memory), shared.tagged(), mask, numbers);
    check.ok_or(Reason::Unreadable)
}

/// A function without its lines, and its script.
struct Named {
    function: Function,
    script: Option<Arc<Script>>,
}

impl Named {
    /// Returns the function with its lines. Without any, all positions are on the line of the
    /// function itself.
    fn with_lines(self, mut lines: Lines) -> Function {
        if lines.steps().all(|(_, line)| line == 0 || line == self.function.start_line) {
            lines = Lines::default();
            lines.push(0, self.function.start_line);
        }
        self.function.with_lines(lines)
    }

    fn line(&self, position: Position) -> u32 {
        self.script.as_ref().map_or(0, |script| script.line(position.offset))
    }

    /// Returns the lines of bytecode offsets.
    fn bytecode_lines(&self, heap: &Heap<'_>, bytecode: Object) -> Result<Vec<(u32, u32)>, Reason> {
        let table = heap.object(bytecode, heap.layout.bytecode.positions)?;
        let table = heap.bytes(table, MAX_BYTECODE)?;
        let entries = positions::decode(heap.layout.version, &table);
        Ok(entries.filter_map(|(offset, position)| Some((offset, self.line(position?)))).collect())
    }

    /// Returns the lines of offsets in baseline code.
    fn baseline_lines(
        &self,
        heap: &Heap<'_>,
        code: &Code,
        bytecode: Object,
        sizes: &[u8],
    ) -> Result<Lines, Reason> {
        let mut of_bytecode = Lines::default();
        for (offset, line) in self.bytecode_lines(heap, bytecode)? {
            of_bytecode.push(offset, line);
        }
        if of_bytecode.is_empty() {
            return Ok(of_bytecode);
        }
        let length = heap.length(bytecode)?;
        let instructions =
            heap.memory.bytes(bytecode.field(heap.layout.bytecode.data), length.into(), MAX_BYTECODE)?;
        let mut lines = Lines::default();
        lines.push(0, self.function.start_line);
        let offsets = positions::decode_baseline(&code.table(heap)?, &instructions, sizes);
        for (offset, bytecode_offset) in offsets.into_iter().skip(1) {
            lines.push(offset, of_bytecode.at(bytecode_offset));
        }
        Ok(lines)
    }
}

/// Index of an inlined function in [`Inlines`], and its script.
type Inlined = (u32, Option<Arc<Script>>);

/// The functions inlined into optimized code.
struct Expansion<'a> {
    deopt: &'a Deopt,
    inlines: Inlines,
    /// Index in `inlines` and script of each function, by its index in the literals.
    known: HashMap<u32, Option<Inlined>>,
}

impl Expansion<'_> {
    /// Returns the position in the outermost function, and the inlined calls at a position,
    /// outermost first.
    fn expand(
        &mut self,
        names: &mut Names,
        heap: &Heap<'_>,
        position: Position,
    ) -> (Position, Vec<(u32, u32)>) {
        let mut calls = Vec::new();
        let mut position = position;
        while let Some(call) = position.inlining.and_then(|index| self.deopt.calls.get(usize::from(index))) {
            let call = *call;
            if let Some((index, script)) = self.function(names, heap, call.function) {
                let line = script.as_ref().map_or(0, |script| script.line(position.offset));
                calls.push((index, line));
            }
            let Some(outer) = call.position.filter(|_| calls.len() < MAX_DEPTH) else { break };
            position = outer;
        }
        calls.reverse();
        (position, calls)
    }

    fn function(&mut self, names: &mut Names, heap: &Heap<'_>, index: u32) -> Option<Inlined> {
        if let Some(known) = self.known.get(&index) {
            return known.clone();
        }
        let named = self.deopt.function(heap, index).and_then(|shared| names.named(heap, shared)).ok();
        let found = named.map(|named| (self.inlines.add(named.function), named.script));
        self.known.insert(index, found.clone());
        found
    }
}
