//! One function of the table.

use super::{Pclntab, Steps, Version, text, word};

/// One function of a [`Pclntab`].
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    table: &'a Pclntab,
    entry: u64,
    /// Offset of its description, after the entry address.
    at: usize,
    name: &'a [u8],
    flags: u8,
}

/// Offsets in a description.
const NAME: usize = 0;
const STACK: usize = 12;
const FILE: usize = 16;
const LINE: usize = 20;
const PC_TABLES: usize = 24;
const UNIT: usize = 28;
const START_LINE: usize = 32;

const TOP_FRAME: u8 = 1;
const SP_WRITE: u8 = 2;

/// Outermost functions of Go before 1.17, which has no flag for them.
const OUTERMOST: [&[u8]; 3] = [b"runtime.goexit", b"runtime.mstart", b"runtime.rt0_go"];

/// Functions that the kernel enters on a signal, by either calling convention.
const SIGNAL_HANDLERS: [&[u8]; 2] = [b"runtime.sigtramp", b"runtime.sigtramp.abi0"];

impl<'a> Function<'a> {
    pub(super) fn at(table: &'a Pclntab, entry: u64, at: usize) -> Option<Function<'a>> {
        let name = table.name(word(&table.data, at.checked_add(NAME)?)?)?;
        let function = Function { table, entry, at, name, flags: 0 };
        let &[_id, flags, _, _] = table.data.get(function.identity()..)?.first_chunk()?;
        Some(Function { flags, ..function })
    }

    /// Returns its name, such as `main.(*Server).serve`.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the address of its first instruction.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Returns the distance of the stack pointer from its value at the entry, by address; `None` if
    /// not recorded.
    pub fn stack(&self) -> Option<Steps<'a>> {
        self.steps(STACK)
    }

    /// Returns `true` if a goroutine or thread starts here: it has no caller.
    ///
    /// Go marks its signal handler too, but that has a caller: the interrupted code.
    pub fn is_outermost(&self) -> bool {
        let is_handler = SIGNAL_HANDLERS.contains(&self.name);
        self.flags & TOP_FRAME != 0 && !is_handler || OUTERMOST.contains(&self.name)
    }

    /// Returns `true` if it switches to another stack.
    pub fn switches_stack(&self) -> bool {
        self.flags & SP_WRITE != 0
    }

    /// Returns `true` for `runtime.asmcgocall`, which calls C on the thread's stack.
    pub fn calls_c(&self) -> bool {
        self.name == b"runtime.asmcgocall" || self.name == b"runtime.asmcgocall.abi0"
    }

    /// Returns `true` for the signal return trampoline, whose stack pointer is at the signal frame.
    pub fn is_signal_return(&self) -> bool {
        self.name.starts_with(b"runtime.sigreturn")
    }

    /// Returns the source file of the instruction at `address`, which may belong to an inlined
    /// function.
    ///
    /// Each step of the search decrements `left`: see [`Pclntab::functions`].
    pub fn file(&self, address: u64, left: &mut usize) -> Option<&'a [u8]> {
        let number = u32::try_from(self.steps(FILE)?.value_at(address, left)?).ok()?;
        self.table.file(self.word(UNIT)?, number)
    }

    /// Returns the line of the instruction at `address`.
    pub fn line(&self, address: u64, left: &mut usize) -> Option<u32> {
        u32::try_from(self.steps(LINE)?.value_at(address, left)?).ok()
    }

    /// Returns the line on which the function begins; `None` before Go 1.20.
    pub fn start_line(&self) -> Option<u32> {
        self.word(START_LINE).filter(|_| self.table.version == Version::Go120)
    }

    /// Returns the additional pc table with this number.
    pub(super) fn extra_steps(&self, number: u32) -> Option<Steps<'a>> {
        let place = (number as usize).checked_mul(4)?;
        let count = self.word(PC_TABLES)?;
        let offset = word(&self.table.data, self.extra()?.checked_add(place)?)?;
        self.table.steps(offset, self.entry).filter(|_| number < count)
    }

    /// Returns the offset of the additional data with this number; `None` if absent.
    pub(super) fn extra_data(&self, number: u8) -> Option<u32> {
        const NOTHING: u32 = u32::MAX;
        let count = *self.table.data.get(self.identity().checked_add(3)?)?;
        let tables = (self.word(PC_TABLES)? as usize).checked_mul(4)?;
        let at = self.extra()?.checked_add(tables)?.checked_add(usize::from(number) * 4)?;
        word(&self.table.data, at).filter(|&offset| number < count && offset != NOTHING)
    }

    /// Returns the offset of the bytes {id, flags, 0, number of data}.
    fn identity(&self) -> usize {
        self.at.saturating_add(if self.table.version == Version::Go120 { 36 } else { 32 })
    }

    /// Returns the offset of the list of additional pc tables.
    fn extra(&self) -> Option<usize> {
        self.identity().checked_add(4)
    }

    fn steps(&self, field: usize) -> Option<Steps<'a>> {
        self.table.steps(self.word(field)?, self.entry)
    }

    fn word(&self, field: usize) -> Option<u32> {
        word(&self.table.data, self.at.checked_add(field)?)
    }

    /// Returns the end of its description: the end of the lists of pc tables and data.
    pub(super) fn end(&self) -> Option<usize> {
        let numbers =
            self.word(PC_TABLES)?.checked_add((*self.table.data.get(self.identity() + 3)?).into())?;
        self.extra()?.checked_add((numbers as usize).checked_mul(4)?)
    }

    /// Returns the name at an offset of the table's names.
    pub(super) fn other_name(&self, offset: u32) -> Option<&'a [u8]> {
        text(&self.table.data, self.table.names.checked_add(offset as usize)?)
    }
}
