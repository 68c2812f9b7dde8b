//! Names the methods of one process.

use ebpf_profiler_core::language::{Attached, Function, Memory, Reason, Words};
use ebpf_programs::abi::dotnet::shape;
use ebpf_programs::abi::record::frame::SHAPE_SHIFT;
use ebpf_programs::walk::identity::dotnet::{code, method};

use super::layout::Layout;
use super::method::name_of;
use super::precompiled::{self, Offsets};
use super::sections;

/// The bits of a check that a frame holds.
const CHECKED: u32 = 0xff_ffff;

/// Name of code that the runtime generates for calls.
const STUB: &str = "[.NET stub]";

/// Names the methods of one process.
pub(super) struct Names {
    pub(super) layout: Layout,
    /// Offsets that lead to precompiled methods; `None` if the process had no precompiled image.
    pub(super) offsets: Option<Offsets>,
    /// Address of the map of code ranges.
    pub(super) map: u64,
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let at = address & ((1 << SHAPE_SHIFT) - 1);
        let descriptor = match (address >> SHAPE_SHIFT) as u8 {
            shape::METHOD => self.compiled(at, check, memory).ok_or(Reason::Replaced)?,
            shape::PRECOMPILED => self.precompiled(at, check, memory)?,
            shape::STUB => return Ok(Function::new(STUB)),
            _ => return Err(Reason::Implausible),
        };
        name_of(descriptor, &self.layout, memory).map(Function::new)
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let at = address & ((1 << SHAPE_SHIFT) - 1);
        Ok(match (address >> SHAPE_SHIFT) as u8 {
            shape::METHOD => self.compiled(at, check, memory).is_some(),
            shape::PRECOMPILED => is_same_code(at, check, memory),
            _ => true,
        })
    }
}

impl Names {
    /// Returns the descriptor of the method whose code begins at an address, if it has this check.
    fn compiled(&self, start: u64, check: u32, memory: &dyn Memory) -> Option<u64> {
        let method = method(&mut Words::new(memory), start, self.layout.dynamic_name)?;
        (method.check & CHECKED == check & CHECKED).then_some(method.descriptor)
    }

    /// Returns the descriptor of the precompiled method whose entry begins at an address.
    fn precompiled(&self, begin: u64, check: u32, memory: &dyn Memory) -> Result<u64, Reason> {
        if !is_same_code(begin, check, memory) {
            return Err(Reason::Replaced);
        }
        let section = sections::find(self.map, begin, memory)?.filter(|section| section.module != 0);
        let section = section.ok_or(Reason::Replaced)?;
        let offsets = self.offsets.ok_or(Reason::Unsupported)?;
        precompiled::method(&section, begin, offsets, memory)
    }
}

/// Returns `true` if the code at the beginning of an entry has this check.
fn is_same_code(begin: u64, check: u32, memory: &dyn Memory) -> bool {
    let found = code(&mut Words::new(memory), begin.wrapping_add(8), 0);
    found.is_some_and(|found| found & CHECKED == check & CHECKED)
}
