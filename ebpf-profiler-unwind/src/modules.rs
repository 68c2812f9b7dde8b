//! The code of a process: mappings with their tables.

use std::ops::Range;
use std::ptr;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::internal::tables::{Allocator, MemoryTables, Tables};
use ebpf_profiler_core::language::FrameWalker;
use ebpf_profiler_core::process::LoadBias;
use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::interpreter;
use ebpf_programs::abi::mapping::{self, Process, kind};
use hashbrown::HashMap;

use crate::table::Table;

/// An executable mapping of a process.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    pub(crate) range: Range<u64>,
    pub(crate) load_bias: LoadBias,
    pub(crate) table: Option<&'a Table>,
    /// Number of the interpreter in the file, or whose memory it is, counted from 1; 0 without one.
    pub(crate) interpreter: u16,
    /// `true` if it is memory that the interpreter owns.
    pub(crate) is_owned: bool,
}

impl<'a> Mapping<'a> {
    /// Creates a mapping without unwind data, such as code of a JIT compiler: the walk tries frame
    /// pointers there.
    ///
    /// ```
    /// use ebpf_profiler_core::process::LoadBias;
    /// use ebpf_profiler_unwind::Mapping;
    ///
    /// // The code of a library, linked at 0x1000 and mapped at 0x7f00_0000_1000.
    /// let bias = LoadBias::between(0x7f00_0000_1000, 0x1000);
    /// let mapping = Mapping::new(0x7f00_0000_1000..0x7f00_0000_5000, bias);
    /// assert_eq!(mapping.file_address(0x7f00_0000_1139), 0x1139);
    /// ```
    pub fn new(range: Range<u64>, load_bias: LoadBias) -> Mapping<'a> {
        Mapping { range, load_bias, table: None, interpreter: 0, is_owned: false }
    }

    /// Sets the unwind table of the mapped file.
    pub fn with_table(self, table: &'a Table) -> Mapping<'a> {
        Mapping { table: Some(table), ..self }
    }

    /// Sets the interpreter in the mapped file: its index in the list for
    /// [`Modules::with_interpreters`].
    pub fn with_interpreter(self, index: usize) -> Mapping<'a> {
        let interpreter = index.checked_add(1).and_then(|number| u16::try_from(number).ok()).unwrap_or(0);
        Mapping { interpreter, ..self }
    }

    /// Marks memory that a runtime [owns](ebpf_profiler_core::language::CodeRanges): its walker
    /// unwinds all frames there.
    pub fn with_runtime(self, index: usize) -> Mapping<'a> {
        let mapping = self.with_interpreter(index);
        Mapping { is_owned: mapping.interpreter != 0, table: None, ..mapping }
    }

    /// Returns the part of it in `range`, which may be empty.
    pub fn part(&self, range: Range<u64>) -> Mapping<'a> {
        let range = range.start.max(self.range.start)..range.end.min(self.range.end);
        Mapping { range, ..self.clone() }
    }

    /// Returns the addresses in the process.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the load bias of the mapped file.
    pub fn load_bias(&self) -> LoadBias {
        self.load_bias
    }

    /// Returns the virtual address in the file for an address in the process.
    pub fn file_address(&self, address: u64) -> u64 {
        self.load_bias.in_file(address)
    }
}

/// The executable mappings of a process with their unwind tables, laid out for
/// [`Walk`](crate::Walk).
///
/// Each table is copied once, even if several mappings use it.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::process::LoadBias;
/// use ebpf_profiler_unwind::{Arch, Mapping, Modules, Table};
///
/// let table = Table::from_elf(&std::fs::read("/proc/self/exe")?)?;
/// let program = Mapping::new(0x5000_0000..0x5100_0000, LoadBias::new(0x5000_0000)).with_table(&table);
/// let jit = Mapping::new(0x7000_0000..0x7001_0000, LoadBias::ZERO);
/// let modules = Modules::new(Arch::HOST, &[program, jit]);
/// assert_eq!(modules.left_out(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Modules {
    arch: Arch,
    arena: MemoryTables,
    process: Process,
    /// The mappings in the arena, each with its index in the list of the caller.
    mappings: Vec<(mapping::Mapping, usize)>,
    left_out: usize,
}

/// Maximum number of mappings: the limit of the walkers' search.
pub(crate) const MAX_MAPPINGS: usize = 1 << 14;

/// Maximum number of bytes of tables, as in the kernel.
const MAX_BYTES: u64 = 1 << 30;

impl Modules {
    /// Lays out the mappings of a process, given in any order.
    ///
    /// Mappings in the kernel's half of the address space are skipped. Of overlapping mappings the
    /// one that begins first is used, up to the start of the next. At most 16,384 mappings and
    /// 1 GiB of tables are used; the rest is [counted](Modules::left_out).
    pub fn new(arch: Arch, mappings: &[Mapping<'_>]) -> Modules {
        Modules::with_interpreters(arch, mappings, &[])
    }

    /// Lays out the mappings of a process with interpreters.
    ///
    /// Interpreters beyond [the maximum of a process](ebpf_programs::abi::interpreter::MAX) are
    /// left out.
    pub fn with_interpreters(arch: Arch, mappings: &[Mapping<'_>], interpreters: &[FrameWalker]) -> Modules {
        let interpreters = &interpreters[..interpreters.len().min(interpreter::MAX)];
        let mut order: Vec<usize> = (0..mappings.len()).collect();
        order.retain(|&number| is_user(&mappings[number].range));
        order.sort_by_key(|&number| mappings[number].range.start);
        order.dedup_by_key(|number| mappings[*number].range.start);
        order.truncate(MAX_MAPPINGS);
        let mut layout = Layout { interpreters: interpreters.len(), ..Layout::new() };
        let laid: Vec<_> = order.iter().map(|&number| (layout.mapping(&mappings[number]), number)).collect();
        let process = layout.process(laid.iter().map(|(mapping, _)| mapping), interpreters);
        let left_out = mappings.len() - laid.len() + layout.refused;
        Modules { arch, arena: layout.arena, process, mappings: laid, left_out }
    }

    /// Returns the instruction set.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the number of mappings and tables that were left out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the index of the mapping that contains `address`, and its negated load bias.
    pub(crate) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let next = self.mappings.partition_point(|(mapping, _)| mapping.start <= address);
        let (mapping, number) = self.mappings.get(next.checked_sub(1)?)?;
        (address < mapping.end).then_some((*number, mapping.bias))
    }

    pub(crate) fn process(&self) -> Process {
        self.process
    }

    pub(crate) fn piece(&self, word: u32) -> Option<&[u32]> {
        self.arena.piece(word)
    }
}

/// An arena under construction.
struct Layout {
    arena: MemoryTables,
    places: Allocator,
    /// Offset of each table in the arena, by the table's address; `None` if there was no space.
    known: HashMap<*const Table, Option<u32>>,
    /// Number of interpreters.
    interpreters: usize,
    refused: usize,
}

impl Layout {
    fn new() -> Layout {
        let (arena, places) = (MemoryTables::default(), Allocator::new(MAX_BYTES));
        Layout { arena, places, known: HashMap::new(), interpreters: 0, refused: 0 }
    }

    fn mapping(&mut self, mapping: &Mapping<'_>) -> mapping::Mapping {
        let place =
            mapping.table.filter(|table| !table.image().is_empty()).and_then(|table| self.table(table));
        let (table, kind) = match place {
            Some(place) => (place, kind::TABLE),
            None if mapping.is_owned && usize::from(mapping.interpreter) <= self.interpreters => {
                (0, kind::RUNTIME)
            }
            None => (0, kind::BARE),
        };
        let Range { start, end } = mapping.range;
        let interpreter = mapping.interpreter;
        let interpreter = if usize::from(interpreter) <= self.interpreters { interpreter } else { 0 };
        mapping::Mapping { start, end, bias: mapping.load_bias.in_file(0), table, kind, interpreter }
    }

    fn table(&mut self, table: &Table) -> Option<u32> {
        if let Some(&place) = self.known.get(&ptr::from_ref(table)) {
            return place;
        }
        let place = self.write(table.image());
        self.refused += usize::from(place.is_none());
        self.known.insert(table, place);
        place
    }

    fn process<'a>(
        &mut self,
        mappings: impl Iterator<Item = &'a mapping::Mapping>,
        interpreters: &[FrameWalker],
    ) -> Process {
        let bytes: Vec<[u8; size_of::<mapping::Mapping>()]> = mappings.map(bytes).collect();
        let Some(mappings) = self.write(bytes.as_flattened()) else { return Process::default() };
        let described: Vec<u8> = interpreters.iter().flat_map(|walker| walker.abi().to_bytes()).collect();
        let interpreters = self.write(&described).unwrap_or(0);
        Process { mappings, count: bytes.len() as u32, interpreters, ..Process::default() }
    }

    fn write(&mut self, bytes: &[u8]) -> Option<u32> {
        let place = self.places.allocate(bytes.len(), 0)?;
        self.arena.write(u64::from(place) * UNIT as u64, bytes).ok()?;
        Some(place)
    }
}

/// Returns `true` for user space. The walkers' search treats higher addresses as negative, and gdb
/// lists the kernel's vsyscall page among the mappings of a process.
fn is_user(range: &Range<u64>) -> bool {
    !range.is_empty() && range.end <= 1 << 63
}

/// Encodes a mapping for the arena.
fn bytes(mapping: &mapping::Mapping) -> [u8; size_of::<mapping::Mapping>()] {
    let kinds = u64::from(mapping.kind) | u64::from(mapping.interpreter) << 16;
    let last = u64::from(mapping.table) | kinds << 32;
    let mut bytes = [0; size_of::<mapping::Mapping>()];
    let words = [mapping.start, mapping.end, mapping.bias, last].map(in_arena);
    bytes.copy_from_slice(words.as_flattened());
    bytes
}

/// Encodes a word for the arena: low half first, each half in native byte order.
fn in_arena(word: u64) -> [u8; 8] {
    let halves = [word as u32, (word >> 32) as u32].map(u32::to_ne_bytes);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(halves.as_flattened());
    bytes
}
