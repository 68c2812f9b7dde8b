//! Raw samples of a recording: registers, copied stack, and mappings.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::internal::files;
use ebpf_profiler_core::internal::sample::{
    Batch, Body, Event, FileId, Life, LifeEvent, MapEvent, Source, SourceError, TickRecord,
};
use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_unwind::case::{Case, Place, Subject};
use ebpf_profiler_unwind::{Mapping, Table};
use ebpf_programs::abi::registers::{Registers, x86_64};

/// A raw sample.
pub struct RecordedStack {
    /// Process id.
    pub pid: u32,
    /// Name of the thread.
    pub name: String,
    registers: Registers,
    stack: Vec<u64>,
    maps: Vec<MapEvent>,
}

/// Maximum number of raw samples.
const MAX_STACKS: usize = 4096;

impl RecordedStack {
    /// Returns the raw samples of a recording, sorted by time. Processes that are older than the
    /// recording are left out, because the mappings of these are not among its events.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is no recording.
    pub fn all(path: &Path) -> Result<Vec<RecordedStack>, SourceError> {
        let mut source = Replay::open(path)?.source()?;
        let (mut batch, mut processes, mut stacks) = (Batch::default(), Processes::default(), Vec::new());
        while source.next(Duration::ZERO, &mut batch)? {
            batch.in_order(|event| match event {
                Event::Life(event) => processes.take(event),
                Event::Tick(Ok(tick)) => stacks.extend(processes.stack(&tick)),
                Event::Tick(Err(_)) => {}
            });
            batch.clear();
            stacks.truncate(MAX_STACKS);
        }
        Ok(stacks)
    }

    /// Returns the test case, with unwind tables of those files that are unchanged on this machine.
    pub fn case(&self, about: &str) -> Case {
        let files: Vec<Option<Elf>> = self.maps.iter().map(open).collect();
        let tables: Vec<Option<Table>> = files.iter().map(|file| Table::of(file.as_ref()?).ok()).collect();
        let ids: Vec<Vec<u8>> =
            files.iter().map(|file| file.as_ref().and_then(Elf::build_id).unwrap_or_default()).collect();
        let place = |number: usize| {
            let (map, file) = (&self.maps[number], &files[number]);
            let address = file.as_ref().and_then(|file| file.code_address(map.offset));
            let load_bias = address.map_or(LoadBias::ZERO, |address| LoadBias::between(map.start, address));
            let mapping = Mapping::new(map.start..map.end, load_bias);
            let mapping = match &tables[number] {
                Some(table) => mapping.with_table(table),
                None => mapping,
            };
            Place::new(mapping, &map.path, &ids[number])
        };
        let places: Vec<Place<'_>> = (0..files.len()).map(place).collect();
        let subject = Subject::new(Arch::HOST, &places);
        let memory = |address| self.on_stack(address).or_else(|| self.in_file(address, &files));
        Case::record(about, subject, &self.registers, memory, |_| String::new())
    }

    fn on_stack(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.registers.values[x86_64::SP] & !7)?;
        self.stack.get(usize::try_from(offset / 8).ok()?).copied()
    }

    /// Reads a word of code from its file.
    fn in_file(&self, address: u64, files: &[Option<Elf>]) -> Option<u64> {
        let number = self.maps.iter().position(|map| (map.start..map.end).contains(&address))?;
        let mut word = [0; 8];
        let offset = self.maps[number].offset.checked_add(address - self.maps[number].start)?;
        files[number].as_ref()?.fill(offset, &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    }
}

/// Opens the file of a mapping; `None` if it is missing or has another build id.
fn open(map: &MapEvent) -> Option<Elf> {
    let elf = Elf::open(files::open(Path::new(&*map.path)).ok()?).ok()?;
    let same = match &map.file {
        FileId::BuildId(id) => elf.build_id().as_deref() == Some(id),
        FileId::Inode { .. } => true,
        _ => false,
    };
    same.then_some(elf)
}

/// Mappings of each process.
#[derive(Default)]
struct Processes(HashMap<u32, Vec<MapEvent>>);

impl Processes {
    fn take(&mut self, event: &LifeEvent) {
        match &event.life {
            Life::Forked { parent } => {
                let inherited = self.0.get(parent).cloned();
                inherited.map(|maps| self.0.insert(event.pid, maps));
            }
            Life::Executed => _ = self.0.insert(event.pid, Vec::new()),
            Life::Mapped(map) => {
                // The other mappings of an older process are unknown.
                let Some(maps) = self.0.get_mut(&event.pid) else { return };
                maps.retain(|old| old.end <= map.start || map.end <= old.start);
                maps.push(map.clone());
            }
            Life::Exited => _ = self.0.remove(&event.pid),
            _ => {}
        }
    }

    fn stack(&self, tick: &TickRecord<'_>) -> Option<RecordedStack> {
        let Body::Raw { registers, stack, .. } = tick.body else { return None };
        let maps = self.0.get(&tick.pid).filter(|_| !stack.is_empty())?.clone();
        Some(RecordedStack { pid: tick.pid, name: tick.name(), registers, stack: stack.to_vec(), maps })
    }
}
