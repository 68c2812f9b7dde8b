//! Memory of compiled code: the code heaps, the interpreter, the call stub.

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::hotspot::HEAPS;

use super::layout::Layout;
use super::tables::Tables;

/// Maximum size of all code heaps, in bytes.
const MAX_SIZE: u64 = 1 << 31;

/// Maximum size of the interpreter, in bytes.
const MAX_INTERPRETER: u64 = 1 << 26;

/// Memory of compiled code in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CodeMemory {
    pub(super) heaps: Vec<Heap>,
    /// Binary logarithm of the size of a segment.
    pub(super) log2_segment: u32,
    /// Address range of the interpreter.
    pub(super) interpreter: [u64; 2],
    /// Return address of the calls from native code to Java.
    pub(super) call_stub: u64,
}

/// A code heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heap {
    /// Reserved address range.
    pub(super) low: u64,
    pub(super) high: u64,
    /// Address of the segment map: one byte for each segment.
    pub(super) segments: u64,
}

impl CodeMemory {
    /// Returns the address of the blob around an address; `None` if there is none. `header` is the
    /// size of that of a block.
    pub(super) fn blob(&self, at: u64, header: u32, memory: &dyn Memory) -> Option<u64> {
        /// Segment of a block that is free.
        const FREE: u8 = 0xff;
        /// Maximum number of distances, which are up to 254 segments each.
        const MAX_STEPS: u32 = 512;
        let heap = self.heaps.iter().find(|heap| (heap.low..heap.high).contains(&at))?;
        let mut segment = (at - heap.low) >> self.log2_segment;
        for _ in 0..MAX_STEPS {
            match memory.array::<1>(heap.segments.wrapping_add(segment)).ok()? {
                [0] => return Some(heap.low + (segment << self.log2_segment) + u64::from(header)),
                [FREE] => return None,
                [distance] => segment = segment.checked_sub(distance.into())?,
            }
        }
        None
    }

    /// Reads the heaps. Fails with [`Reason::NotReady`] until the virtual machine has generated its
    /// interpreter.
    pub(super) fn read(tables: &Tables, layout: &Layout, memory: &dyn Memory) -> Result<CodeMemory, Reason> {
        let variable = |of, name| {
            let at = tables.address(of, name).ok_or(Reason::Unsupported)?;
            Ok::<u64, Reason>(memory.u64(at)?)
        };
        let field = |at: u64, offset: u32| memory.u64(at.wrapping_add(offset.into()));
        let code = variable("AbstractInterpreter", "_code")?;
        let call_stub = variable("StubRoutines", "_call_stub_return_address")?;
        if code == 0 || call_stub == 0 {
            return Err(Reason::NotReady);
        }
        let fields = &layout.heap;
        let mut found = CodeMemory { call_stub, ..CodeMemory::default() };
        for (index, heap) in heaps(tables, layout, memory)?.into_iter().enumerate() {
            let space = heap.wrapping_add(fields.memory.into());
            let low = field(space, fields.space_low)?;
            let high = field(space, fields.space_high)?;
            let segments = field(heap, fields.segments.wrapping_add(fields.space_low))?;
            let log2_segment = field(heap, fields.log2_segment)? as u32;
            let size = high.checked_sub(low).ok_or(Reason::Implausible)?;
            if low == 0 || size > MAX_SIZE || !(4..=20).contains(&log2_segment) {
                return Err(Reason::Implausible);
            }
            if index != 0 && found.log2_segment != log2_segment {
                return Err(Reason::Unsupported);
            }
            found.log2_segment = log2_segment;
            found.heaps.push(Heap { low, high, segments });
        }
        let start = field(code, tables.offset("StubQueue", "_stub_buffer").ok_or(Reason::Unsupported)?)?;
        let size = field(code, tables.offset("StubQueue", "_buffer_limit").ok_or(Reason::Unsupported)?)?;
        let size = u64::from(size as u32);
        let end = start.checked_add(size).filter(|_| size <= MAX_INTERPRETER).ok_or(Reason::Implausible)?;
        found.interpreter = [start, end];
        let is_code = |at: u64| found.heaps.iter().any(|heap| heap.low <= at && at < heap.high);
        if !is_code(start) || !is_code(call_stub) {
            return Err(Reason::NotReady);
        }
        Ok(found)
    }
}

/// Returns the addresses of the code heaps: Java 8 has one.
fn heaps(tables: &Tables, layout: &Layout, memory: &dyn Memory) -> Result<Vec<u64>, Reason> {
    let pointer = |at: u64| match memory.u64(at)? {
        0 => Err(Reason::NotReady),
        address => Ok(address),
    };
    let Some(list) = tables.address("CodeCache", "_heaps") else {
        let heap = tables.address("CodeCache", "_heap").ok_or(Reason::Unsupported)?;
        return Ok(vec![pointer(heap)?]);
    };
    let [length, data] = layout.heap.array.ok_or(Reason::Unsupported)?;
    let array = pointer(list)?;
    let count = memory.u32(array.wrapping_add(length.into()))? as usize;
    if count == 0 || count > HEAPS {
        return Err(Reason::Implausible);
    }
    let data = memory.u64(array.wrapping_add(data.into()))?;
    (0..count as u64).map(|index| Ok(memory.u64(data.wrapping_add(8 * index))?)).collect()
}
