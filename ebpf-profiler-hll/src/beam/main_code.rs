//! The code of `process_main`, the loop of a scheduler, which is generated when the virtual machine
//! starts, before all modules.
//!
//! ```text
//!   sub rsp, size                   the registers of the scheduler, and room to align them
//!   and rsp, -64
//!   mov [rdi], rsp                  rdi: data of the scheduler
//!   lea rbx, [rsp + registers]
//!   …
//!   movabs rdi, active              the index of the active table of modules
//!   …
//!   mov r12d, [rdi]
//!   …
//!   mov rsp, [r13 + stop]           r13: the process; the end of the code on the thread's stack
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

/// The instructions behind the first one.
const MARK: &[u8] = &[0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x27, 0x48, 0x8d];

/// Maximum number of bytes before the first module that are searched.
const MAX_BEFORE: u64 = 1 << 16;

/// Size of a page.
const PAGE: u64 = 4096;

/// Maximum number of gaps between modules that are searched.
const MAX_GAPS: usize = 16;

/// Maximum size of the code, in bytes.
const MAX_CODE: usize = 1024;

/// Facts of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MainCode {
    /// Its start.
    pub(super) start: u64,
    /// The end of the part on the thread's stack.
    pub(super) end: u64,
    /// Size of its frame, without alignment.
    pub(super) frame: u64,
    /// Distance from the registers of the scheduler to the address in the register for them.
    pub(super) registers: u64,
    /// Address of the index of the active table of modules.
    pub(super) active: u64,
    /// Offset of the saved stack pointer in a process.
    pub(super) stop: u64,
    /// Addresses of code that all modules share.
    pub(super) shared: (u64, u64),
}

impl MainCode {
    /// Searches the memory before the modules, which are sorted.
    pub(super) fn find(ranges: &[(u64, u64)], memory: &dyn Memory) -> Result<MainCode, Reason> {
        let mut before = 0;
        let mut gaps = Vec::new();
        for &(start, end) in ranges {
            let from = start.saturating_sub(MAX_BEFORE).max(before);
            if start.saturating_sub(from) >= PAGE && gaps.len() < MAX_GAPS {
                gaps.push((from, start));
            }
            before = end;
        }
        let mut found = gaps.into_iter().filter_map(|(from, to)| MainCode::in_gap(from, to, memory));
        // Possibly the modules were read while one was loaded.
        found.next().ok_or(Reason::Implausible)
    }

    /// Searches the readable memory that ends at `to`.
    fn in_gap(from: u64, to: u64, memory: &dyn Memory) -> Option<MainCode> {
        let (mut code, mut at) = (Vec::new(), to);
        while at > from {
            let page = ((at - 1) & !(PAGE - 1)).max(from);
            let Ok(mut bytes) = memory.bytes(page, at - page, PAGE as usize) else { break };
            bytes.append(&mut code);
            (code, at) = (bytes, page);
        }
        let mut marks = (0..).zip(code.windows(MARK.len())).filter(|(_, bytes)| *bytes == MARK);
        let code = marks.find_map(|(mark, _)| MainCode::read(at, &code, usize::checked_sub(mark, 7)?))?;
        Some(MainCode { shared: (at, to), ..code })
    }

    /// Decodes the code at `index` of the bytes at `address`.
    fn read(address: u64, bytes: &[u8], index: usize) -> Option<MainCode> {
        let code = bytes.get(index..)?;
        let code = &code[..code.len().min(MAX_CODE)];
        if code.get(..3)? != [0x48, 0x81, 0xec] {
            return None;
        }
        let frame = number(code, 3)?;
        let load = 7 + MARK.len();
        let registers = match code.get(load..load + 2)? {
            [0x5c, 0x24] => u64::from(*code.get(load + 2)?),
            [0x9c, 0x24] => number(code, load + 2)?,
            _ => return None,
        };
        // mov r12d, [rdi]
        let reads = code.windows(3).position(|bytes| bytes == [0x44, 0x8b, 0x27])?;
        let moves = code[..reads].windows(10).rposition(|bytes| bytes[..2] == [0x48, 0xbf])?;
        let active = u64::from_le_bytes(*code.get(moves + 2..)?.first_chunk()?);
        let returns = reads + code[reads..].windows(3).position(|bytes| bytes == [0x49, 0x8b, 0x65])?;
        let stop = u64::from(*code.get(returns + 3)?);
        let start = address + index as u64;
        let is_plausible = frame % 8 == 0 && stop % 8 == 0 && registers % 8 == 0 && active % 4 == 0;
        let end = start + returns as u64;
        is_plausible.then_some(MainCode { start, end, frame, registers, active, stop, shared: (0, 0) })
    }
}

/// Returns the four bytes at an index as a number.
fn number(code: &[u8], index: usize) -> Option<u64> {
    Some(u32::from_le_bytes(*code.get(index..)?.first_chunk()?).into())
}

#[test]
fn decodes_process_main() {
    let mut code = vec![0x90; 24];
    code.extend([0x48, 0x81, 0xec, 0xd0, 0x40, 0, 0]);
    code.extend(MARK);
    code.extend([0x5c, 0x24, 0x40, 0x31, 0xd2, 0x48, 0xbf, 0x44, 0x73, 1, 0x60, 0x2c, 0x56, 0, 0]);
    code.extend([0x44, 0x8b, 0x27, 0x4c, 0x0f, 0x45, 0xe6, 0x49, 0x8b, 0x65, 0x58, 0xff, 0xe0]);
    let size = code.len() as u64;
    let memory = move |address: u64, buffer: &mut [u8]| {
        let at = address.checked_sub(0x1000).ok_or(ebpf_profiler_core::language::Unreadable)? as usize;
        let bytes = code.get(at..at + buffer.len()).ok_or(ebpf_profiler_core::language::Unreadable)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    };
    let found = MainCode::in_gap(0x0, 0x1000 + size, &memory).unwrap();
    assert_eq!((found.start, found.frame, found.registers, found.stop), (0x1018, 0x40d0, 0x40, 0x58));
    assert_eq!((found.active, found.end), (0x562c_6001_7344, 0x1000 + size - 6));
    assert_eq!(MainCode::in_gap(0x0, 0x1000 + size - 7, &memory), None);
    assert_eq!(MainCode::find(&[], &memory), Err(Reason::Implausible), "not for ever");
}
