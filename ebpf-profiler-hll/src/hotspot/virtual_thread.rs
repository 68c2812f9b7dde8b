//! Variables by which frames of virtual threads are found that are in the heap. They are only in
//! the symbol table, if there is one; without them one frame stands for such callers.

use ebpf_profiler_core::language::{Reason, Target};
use ebpf_programs::abi::hotspot::oops;

use super::tables::Tables;

/// Return address of the outermost frame of a virtual thread whose callers are not on the stack.
const RETURN_BARRIER: usize = 0;
/// Return address into the frame that entered the virtual thread; set when the first one is
/// started.
const RETURN_PC: usize = 1;
/// Offsets of fields, four bytes each: `Continuation.tail`, then those of `StackChunk`.
const TAIL: usize = 2;
const STACK: usize = 3;
const SP: usize = 4;
const BOTTOM: usize = 5;
const PC: usize = 6;
const PARENT: usize = 7;
const OWNER: usize = 8;
/// Flags, one byte each.
const COMPRESSED: usize = 9;
const Z: usize = 10;
const GENERATIONAL: usize = 11;
/// The blob of the frame that entered the virtual thread; set with its return address.
const ENTER_SPECIAL: usize = 12;

/// Names of the variables.
pub(super) const NAMES: [&[u8]; 13] = [
    b"_ZN12StubRoutines19_cont_returnBarrierE",
    b"_ZN17ContinuationEntry10_return_pcE",
    b"_ZN28jdk_internal_vm_Continuation12_tail_offsetE",
    b"_ZN23InstanceStackChunkKlass16_offset_of_stackE",
    b"_ZN26jdk_internal_vm_StackChunk10_sp_offsetE",
    b"_ZN26jdk_internal_vm_StackChunk14_bottom_offsetE",
    b"_ZN26jdk_internal_vm_StackChunk10_pc_offsetE",
    b"_ZN26jdk_internal_vm_StackChunk14_parent_offsetE",
    b"_ZN26jdk_internal_vm_StackChunk12_cont_offsetE",
    b"UseCompressedOops",
    b"UseZGC",
    b"ZGenerational",
    b"_ZN17ContinuationEntry14_enter_specialE",
];

/// Maximum offset of a field: the kernel side reads no more bytes of a chunk.
const MAX_OFFSET: u32 = 128;

/// Virtual addresses of the variables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VirtualThreadSymbols([Option<u64>; NAMES.len()]);

impl VirtualThreadSymbols {
    /// Takes in a symbol if it is one of the variables.
    pub(super) fn add(&mut self, name: &[u8], address: u64) {
        if let Some(index) = NAMES.iter().position(|known| *known == name) {
            self.0[index] = Some(address);
        }
    }

    /// Returns the parameters of the kernel side's walker from `RETURN_BARRIER` on, zeros without
    /// virtual threads. Fails with [`Reason::NotReady`] until the virtual machine has set the
    /// variables.
    pub(super) fn parameters(&self, tables: &Tables, target: &Target<'_>) -> Result<[u64; 6], Reason> {
        let variables = [RETURN_BARRIER, RETURN_PC, ENTER_SPECIAL].map(|index| self.0[index]);
        let [Some(barrier), Some(return_pc), Some(enter_special)] = variables else { return Ok([0; 6]) };
        let barrier = target.word(barrier)?;
        if barrier == 0 {
            return Err(Reason::NotReady);
        }
        let mut parameters = [barrier, target.address(return_pc), 0, 0, 0, target.address(enter_special)];
        let mut offsets = [0; OWNER + 1];
        for (offset, symbol) in offsets.iter_mut().zip(self.0).skip(TAIL) {
            let Some(symbol) = symbol else { return Ok(parameters) };
            *offset = target.word(symbol)? as u32;
            if *offset == 0 {
                return Err(Reason::NotReady);
            }
        }
        let (mode, base) = self.references(tables, target)?;
        let is_aligned = offsets[TAIL..].iter().all(|offset| offset.is_multiple_of(4));
        if !is_aligned
            || offsets[STACK] > MAX_OFFSET
            || offsets[SP..].iter().any(|&at| at + 4 > offsets[STACK])
        {
            return Ok(parameters);
        }
        let pack = |fields: [u64; 4]| fields.iter().rev().fold(0, |word, field| word << 16 | field & 0xffff);
        parameters[2] = pack([TAIL, STACK, SP, BOTTOM].map(|index| offsets[index].into()));
        let [pc, parent, owner] = [PC, PARENT, OWNER].map(|index| u64::from(offsets[index]));
        parameters[3] = pack([pc, parent, owner, mode]);
        parameters[4] = base;
        Ok(parameters)
    }

    /// Returns the form of references in objects, and their base.
    fn references(&self, tables: &Tables, target: &Target<'_>) -> Result<(u64, u64), Reason> {
        let memory = target.memory();
        let flag = |index: usize| {
            let word = self.0[index].map(|symbol| target.word(symbol)).transpose()?;
            Ok::<_, Reason>(word.map(|word| word & 0xff != 0))
        };
        if flag(COMPRESSED)? == Some(true) {
            let variable = |names: [&str; 2]| {
                let address = names.iter().find_map(|name| tables.address("CompressedOops", name));
                Ok::<u64, Reason>(memory.u64(address.ok_or(Reason::Unsupported)?)?)
            };
            let base = variable(["_narrow_oop._base", "_base"])?;
            let shift = variable(["_narrow_oop._shift", "_shift"])?;
            return Ok((oops::NARROW | (shift & 31) << 8, base));
        }
        // Without the second flag there is no other kind.
        let mode = match (flag(Z)?, flag(GENERATIONAL)?) {
            (Some(true), Some(false)) => oops::MAPPED,
            (Some(true), _) => oops::COLORED,
            _ => oops::WIDE,
        };
        Ok((mode, 0))
    }
}
