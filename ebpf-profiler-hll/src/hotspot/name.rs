//! Names the frames of one process.

use std::collections::HashMap;
use std::sync::Arc;

use ebpf_profiler_core::language::{Attached, Function, Inlines, Lines, Memory, Reason};
use ebpf_programs::abi::hotspot::shape;
use ebpf_programs::walk::identity::LastText;
use ebpf_programs::walk::identity::hotspot as identity;

use super::code::{Blob, Call, Compiled};
use super::heap::CodeMemory;
use super::layout::Layout;
use super::method::{Method, const_method};
use super::stub::Stubs;
use super::tables;
use ebpf_profiler_core::language::Words;

/// Maximum number of methods that are cached; the same ones are inlined in many places.
const MAX_METHODS: usize = 1 << 12;

/// Maximum number of entries of line tables that are cached, eight bytes each, and of those of
/// methods that are inlined into one. Programs have some hundred per method; a process may claim
/// 65,536.
const MAX_LINES: usize = 1 << 20;

/// Maximum number of methods that are inlined into one.
const MAX_INLINED: usize = 1 << 12;

/// Bits of an address below its shape.
const SHAPE: u32 = 48;

/// Shapes of frames.
const INTERPRETED: u64 = shape::INTERPRETED as u64;
const COMPILED: u64 = shape::COMPILED as u64;
const STUB: u64 = shape::STUB as u64;

/// Name of stub routines that have none of their own.
const ROUTINES: &str = "StubRoutines";

/// Name of the stub routine by which native code calls Java, also where no list has the names of
/// stub routines.
const CALL_STUB: &str = "call_stub";

/// Bits of a check.
const CHECK: u64 = 0xff_ffff;

/// Names the frames of one process.
pub(super) struct Names {
    layout: Layout,
    code: CodeMemory,
    stubs: Stubs,
    /// Methods by the addresses of `Method` and `ConstMethod`, and their check.
    methods: HashMap<(u64, u64, u32), Arc<Method>>,
    /// Number of entries of their line tables.
    lines: usize,
}

impl Names {
    pub(super) fn new(layout: Layout, code: CodeMemory, stubs: Stubs) -> Names {
        Names { layout, code, stubs, methods: HashMap::new(), lines: 0 }
    }

    /// Returns the method at an address.
    fn method(&mut self, address: u64, memory: &dyn Memory) -> Result<Arc<Method>, Reason> {
        let const_method = const_method(address, &self.layout, memory)?;
        let key = (address, const_method, self.check(const_method, memory)?);
        if let Some(method) = self.methods.get(&key) {
            return Ok(method.clone());
        }
        let method = Arc::new(Method::read(const_method, &self.layout, memory)?);
        if self.methods.len() >= MAX_METHODS || self.lines + method.lines.len() > MAX_LINES {
            self.methods.clear();
            self.lines = 0;
        }
        self.lines += method.lines.len();
        self.methods.insert(key, method.clone());
        Ok(method)
    }

    /// Returns the check of the method with a `ConstMethod`, as the kernel side computes it.
    fn check(&self, const_method: u64, memory: &dyn Memory) -> Result<u32, Reason> {
        let (fields, mut last) = (self.layout.method.identity(), LastText::default());
        identity::method(&mut Words::new(memory), const_method, fields, &mut last).ok_or(Reason::Unreadable)
    }

    /// Returns `true` if the method at an address has the check of a sample.
    fn is_same(&self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let const_method = const_method(address, &self.layout, memory)?;
        Ok(u64::from(self.check(const_method, memory)?) & CHECK == u64::from(check))
    }

    fn interpreted(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        if !self.is_same(address, check, memory)? {
            return Err(Reason::Replaced);
        }
        let method = self.method(address, memory)?;
        Ok(method.function().with_lines(method.lines.clone()))
    }

    fn compiled(&mut self, compiled: &Compiled, memory: &dyn Memory) -> Result<Function, Reason> {
        let method = self.method(compiled.method, memory)?;
        let mut lines = Lines::default();
        let mut inlines = Inlines::default();
        let mut numbers: HashMap<u64, (u32, Arc<Method>)> = HashMap::new();
        let mut room = MAX_LINES;
        for (position, chain) in &compiled.ranges {
            let outer = chain.first().filter(|call| call.method == compiled.method);
            lines.push(*position, outer.map_or(0, |call| method.lines.at(call.index)));
            let rest = if outer.is_some() { &chain[1..] } else { &[] };
            let mut calls = Vec::with_capacity(rest.len());
            for &Call { method, index } in rest {
                let (number, method) = match numbers.get(&method) {
                    Some(known) => known,
                    None => {
                        let read = self.method(method, memory)?;
                        room = room.checked_sub(read.lines.len()).ok_or(Reason::Implausible)?;
                        if numbers.len() >= MAX_INLINED {
                            return Err(Reason::Implausible);
                        }
                        let number = inlines.add(read.function());
                        numbers.entry(method).or_insert((number, read))
                    }
                };
                calls.push((*number, method.lines.at(index)));
            }
            inlines.push(*position, &calls);
        }
        Ok(method.function().with_lines(lines).with_inlines(inlines))
    }

    fn stub(&mut self, address: u64, memory: &dyn Memory) -> Function {
        let [start, end] = self.code.interpreter;
        if (start..end).contains(&address) {
            return Function::new("Interpreter");
        }
        if address.wrapping_add(1) == self.code.call_stub {
            return Function::new(CALL_STUB);
        }
        match self.stubs.name(address, memory) {
            Some(name) => Function::new(name),
            None => Function::new(self.blob(address, memory).as_deref().unwrap_or(ROUTINES)),
        }
    }

    /// Returns the name of the blob around an address, without the number of a part of the stub
    /// routines.
    fn blob(&self, address: u64, memory: &dyn Memory) -> Option<String> {
        let blob = self.code.blob(address, self.layout.heap.header, memory)?;
        let name = memory.u64(blob.wrapping_add(self.layout.blob.name.into())).ok()?;
        let name = tables::text(name, memory).filter(|name| !name.is_empty())?;
        Some(if name.starts_with(ROUTINES) { ROUTINES.to_owned() } else { name })
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let (shape, address) = (address >> SHAPE, address & ((1 << SHAPE) - 1));
        match shape {
            INTERPRETED => self.interpreted(address, check, memory),
            COMPILED => match Blob::read(address, check, &self.layout, memory)? {
                Blob::Stub(name) => Ok(Function::new(name)),
                Blob::Compiled(compiled) => self.compiled(&compiled, memory),
            },
            STUB => Ok(self.stub(address, memory)),
            _ => Err(Reason::Implausible),
        }
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let (shape, address) = (address >> SHAPE, address & ((1 << SHAPE) - 1));
        match shape {
            INTERPRETED => self.is_same(address, check, memory),
            COMPILED => {
                let compilation = memory.u32(address.wrapping_add(self.layout.nmethod.compile_id.into()))?;
                Ok(u64::from(compilation) & CHECK == u64::from(check))
            }
            _ => Ok(true),
        }
    }
}
