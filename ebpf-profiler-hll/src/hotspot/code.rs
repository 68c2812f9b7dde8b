//! Names of compiled code: the method, and at each position the methods that were inlined.
//!
//! ```text
//!   CodeBlob | nmethod | code | metadata: Method, Method, … | scopes | PcDesc, PcDesc, …       up to 21
//!
//!   PcDesc {last address, scope}    of the code behind the last address of the one before
//!   scope  {offset of the caller's scope or 0, number of the Method, bytecode index + 1, …}    compressed numbers
//! ```
//!
//! The last address is a return address or that of an instruction: of one that polls for a
//! safepoint or reads through null, and with `-XX:+DebugNonSafepoints` of any one.

use std::collections::HashMap;
use std::rc::Rc;

use ebpf_profiler_core::language::{Memory, Reason};

use super::compressed::Compressed;
use super::layout::{Layout, Methods, Scopes};
use super::method::array;
use super::tables;

/// Maximum size of a table of compiled code, in bytes.
const MAX_TABLE: u64 = 1 << 20;

/// Maximum number of methods in all chains of compiled code, those of positions and those of
/// scopes.
const MAX_CALLS: usize = 1 << 18;

/// Maximum number of methods that are inlined into one another.
const MAX_DEPTH: usize = 64;

/// Size of a `PcDesc`: last address of the range, scope, and two further fields of four bytes.
const PC_DESC: usize = 16;

/// Largest size of a blob, in bytes.
const MAX_BLOB: u64 = 1 << 28;

/// A code blob.
#[derive(Clone, Debug)]
pub(super) enum Blob {
    /// Code of the virtual machine.
    Stub(String),
    /// A compiled method, or the wrapper of a native one.
    Compiled(Compiled),
}

/// A compiled method.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// Address of its `Method`.
    pub(super) method: u64,
    /// Chains of methods, each with the distance from the blob at which it begins; ascending.
    pub(super) ranges: Vec<(u32, Rc<[Call]>)>,
}

/// A method in a chain of inlined methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) method: u64,
    pub(super) index: u32,
}

impl Blob {
    /// Reads the blob at `address`. `check` holds the low bits of the number that its compilation
    /// had.
    pub(super) fn read(
        address: u64,
        check: u32,
        layout: &Layout,
        memory: &dyn Memory,
    ) -> Result<Blob, Reason> {
        if !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let fields = &layout.nmethod;
        let head = Head(memory.bytes(address, fields.size.into(), 1 << 16)?);
        if head.u32(fields.compile_id)? & 0xff_ffff != check {
            return Err(Reason::Replaced);
        }
        let name = tables::text(head.u64(layout.blob.name)?, memory).ok_or(Reason::Implausible)?;
        if name != "nmethod" && name != "native nmethod" {
            return Ok(Blob::Stub(name));
        }
        let code = head.u64(layout.blob.code)?;
        let code = if layout.blob.is_relative { code & 0xffff_ffff } else { code.wrapping_sub(address) };
        let size = u64::from(head.u32(layout.blob.size)?);
        if size > MAX_BLOB || code > size {
            return Err(Reason::Implausible);
        }
        let method = head.u64(fields.method)?;
        let ranges = Tables::read(address, &head, layout, memory)?
            .map_or_else(Vec::new, |tables| tables.ranges(code as u32, layout.version));
        Ok(Blob::Compiled(Compiled { method, ranges }))
    }
}

/// The header of a blob.
struct Head(Vec<u8>);

impl Head {
    fn u16(&self, at: u32) -> Result<u16, Reason> {
        array(&self.0, at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: u32) -> Result<u32, Reason> {
        array(&self.0, at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: u32) -> Result<u64, Reason> {
        array(&self.0, at).map(u64::from_le_bytes)
    }
}

/// Tables of a compiled method.
struct Tables {
    pcs: Vec<u8>,
    scopes: Vec<u8>,
    methods: Vec<u8>,
}

impl Tables {
    /// Reads the tables; `None` if the code has none.
    fn read(
        address: u64,
        head: &Head,
        layout: &Layout,
        memory: &dyn Memory,
    ) -> Result<Option<Tables>, Reason> {
        let Some(fields) = layout.nmethod.scopes else { return Ok(None) };
        let pcs = u64::from(head.u32(fields.pcs)?);
        let read = |base: u64, start: u64, end: u64| {
            let size = end.checked_sub(start).filter(|&size| size <= MAX_TABLE).ok_or(Reason::Implausible)?;
            Ok::<_, Reason>(memory.bytes(base.wrapping_add(start), size, MAX_TABLE as usize)?)
        };
        // Of the blob or the block: scopes, their end, and the end of the PCs.
        let (base, scopes, pcs_end) = match fields.scopes {
            Scopes::Inside { data, is_pointer, pcs_end } => {
                let data =
                    if is_pointer { head.u64(data)?.wrapping_sub(address) } else { head.u32(data)?.into() };
                (address, [data, pcs], head.u32(pcs_end)?.into())
            }
            Scopes::Outside { immutable, immutable_size, data } => {
                let data = u64::from(head.u32(data)?);
                (head.u64(immutable)?, [data, head.u32(immutable_size)?.into()], data)
            }
        };
        if pcs == pcs_end {
            return Ok(None);
        }
        let methods = match fields.methods {
            Methods::BeforeScopes(metadata) => read(address, head.u32(metadata)?.into(), scopes[0])?,
            Methods::InData { data, metadata } => {
                let start = u64::from(head.u32(data)?) + u64::from(head.u16(metadata)?);
                read(address, start, head.u32(layout.blob.size)?.into())?
            }
            Methods::Outside { mutable, mutable_size, relocation } => {
                read(head.u64(mutable)?, head.u32(relocation)?.into(), head.u32(mutable_size)?.into())?
            }
        };
        let pcs = read(base, pcs, pcs_end)?;
        Ok(Some(Tables { pcs, scopes: read(base, scopes[0], scopes[1])?, methods }))
    }

    /// Returns the chains of methods, outermost first; `code` is the distance from the blob to its
    /// code, `version` that of the JDK.
    fn ranges(&self, code: u32, version: i32) -> Vec<(u32, Rc<[Call]>)> {
        let mut known: HashMap<u32, Rc<[Call]>> = HashMap::new();
        let mut ranges: Vec<(u32, Rc<[Call]>)> = Vec::new();
        let (mut from, mut rest) = (0_u32, MAX_CALLS);
        for desc in self.pcs.as_chunks::<PC_DESC>().0 {
            let [last, scope] = [0, 4].map(|at| array(desc, at).map_or(0, i32::from_le_bytes));
            // The first one stands before the code.
            let Ok(last) = u32::try_from(last) else { continue };
            if last < from {
                continue;
            }
            let scope = scope as u32;
            let chain = known.entry(scope).or_insert_with(|| {
                let chain = self.chain(scope, version);
                rest = rest.saturating_sub(chain.len());
                chain.into()
            });
            if ranges.last().is_none_or(|(_, former)| former != chain) {
                let Some(left) = rest.checked_sub(chain.len()) else {
                    // Without a chain from here on: the last one would be wrong.
                    ranges.push((code.wrapping_add(from), Rc::default()));
                    break;
                };
                rest = left;
                ranges.push((code.wrapping_add(from), chain.clone()));
            }
            from = last + 1;
        }
        ranges
    }

    /// Returns the chain of methods of a scope, outermost first.
    fn chain(&self, scope: u32, version: i32) -> Vec<Call> {
        let mut chain = Vec::new();
        let mut at = scope;
        while at != 0 && chain.len() < MAX_DEPTH {
            let Some((caller, call)) = self.scope(at, version) else { return Vec::new() };
            chain.extend(call);
            // The caller was written earlier.
            if caller >= at {
                break;
            }
            at = caller;
        }
        chain.reverse();
        chain
    }

    /// Returns the offset of the caller's scope, 0 for none, and the method of a scope.
    fn scope(&self, at: u32, version: i32) -> Option<(u32, Option<Call>)> {
        let mut stream = Compressed::new(self.scopes.get(at as usize..)?, version);
        let caller = stream.number()?;
        let method = stream.number()?;
        // A scope without bytecode has index -1, the call of a method before its first instruction.
        let index = stream.number()?.saturating_sub(1);
        let at = method.checked_sub(1)?.checked_mul(8)?;
        let method = array(&self.methods, at).map(u64::from_le_bytes).ok()?;
        Some((caller, Some(Call { method, index })))
    }
}

#[test]
fn ranges_end_with_their_last_address() {
    // {no caller, method 1, index 0}, {caller at 1, method 2, index 7}.
    let scopes = vec![0, 0, 1, 1, 1, 2, 8];
    let descs: [[i32; 4]; 4] = [[-1, 0, 0, 0], [4, 1, 0, 0], [9, 4, 0, 0], [9, 1, 0, 0]];
    let pcs = descs.as_flattened().iter().flat_map(|field| field.to_le_bytes()).collect();
    let methods = [0x1000_u64, 0x2000].map(u64::to_le_bytes).concat();
    let ranges = Tables { pcs, scopes, methods }.ranges(0x40, 17);
    let [outer, inner] = [(0x1000, 0), (0x2000, 7)].map(|(method, index)| Call { method, index });
    let ranges: Vec<(u32, &[Call])> = ranges.iter().map(|(from, calls)| (*from, &calls[..])).collect();
    assert_eq!(ranges, [(0x40, &[outer][..]), (0x45, &[outer, inner])]);
}
