//! One thread.

use ebpf_programs::abi::registers::Registers;

use super::arch::Layout;
use crate::bytes::Bytes;

/// A thread in a core dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// Id in the pid namespace of the dump.
    pub id: u32,
    /// The signal being delivered; 0 without one.
    pub signal: u16,
    /// Its registers.
    pub registers: Registers,
}

impl Thread {
    /// Parses a `prstatus`:
    ///
    /// ```text
    ///     0  signal information   12 bytes
    ///    12  signal               u16
    ///    16  pending, held        u64 each
    ///    32  id                   u32
    ///    36  parent, group, session, times
    ///   112  general registers    u64 each
    /// ```
    pub(super) fn parse(description: &[u8], layout: &Layout) -> Option<Thread> {
        let signal = Bytes::at(description, 12)?.u16()?;
        let id = Bytes::at(description, 32)?.u32()?;
        let mut rest = Bytes::at(description, 112)?;
        let words: Option<Vec<u64>> = (0..layout.words).map(|_| rest.u64()).collect();
        Some(Thread { id, signal, registers: layout.registers(&words?)? })
    }
}
