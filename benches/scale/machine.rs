//! A generated machine: its processes and files, and the kernel's map of published processes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::internal::process::{Description, System};
use ebpf_profiler_core::internal::sample::{FileId, MapEvent};
use ebpf_profiler_core::internal::tables::{Full, MemoryTables, Tables};
use ebpf_profiler_core::internal::testing::FakeSystem;
use ebpf_profiler_core::process::Opener;
use ebpf_programs::abi::mapping::Process;

/// Executable mappings of a process.
pub(crate) const MAPPINGS: u32 = 15;

/// Mappings with frames on stacks.
pub(crate) const WALKED: u32 = 4;

/// Size of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) cpus: u32,
    pub(crate) processes: u32,
    /// Processes a second that begin and end.
    pub(crate) lives: u32,
    /// Number of containers. The files of each are its own.
    pub(crate) containers: u32,
    /// `true` if the owner of these files is not root.
    pub(crate) is_foreign: bool,
}

/// A code segment of a real file.
pub(crate) struct Code {
    path: Arc<str>,
    offset: u64,
    pub(crate) len: u64,
    build_id: Option<Box<[u8]>>,
}

/// The machine, shared by the profiler's view of it and the generated events.
#[derive(Clone)]
pub(crate) struct Machine {
    state: Arc<Mutex<State>>,
    /// The code segments of files that are in each container.
    pub(crate) code: Arc<Vec<Code>>,
    pub(crate) shape: Shape,
}

#[derive(Default)]
struct State {
    /// Running processes, with their containers.
    running: BTreeMap<u32, u32>,
    /// The kernel's map.
    published: HashMap<u32, Process>,
    reads: u64,
}

impl Machine {
    pub(crate) fn new(shape: Shape) -> io::Result<Machine> {
        let state =
            State { running: (0..shape.processes).map(|at| (1000 + at, at)).collect(), ..State::default() };
        Ok(Machine { state: Arc::new(Mutex::new(state)), code: Arc::new(code()?), shape })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reads of mappings since the start.
    pub(crate) fn reads(&self) -> u64 {
        self.state().reads
    }

    pub(crate) fn published(&self, pid: u32) -> Option<Process> {
        self.state().published.get(&pid).copied()
    }

    /// Starts a process as the child of another; the kernel side copies the state of that.
    pub(crate) fn fork(&self, pid: u32, parent: u32) {
        let mut state = self.state();
        let container = state.running.get(&parent).copied().unwrap_or(parent);
        state.running.insert(pid, container);
        if let Some(process) = state.published.get(&parent).copied()
            && state.published.len() < crate::published(self.shape.cpus)
        {
            state.published.insert(pid, process);
        }
    }

    pub(crate) fn exec(&self, pid: u32) {
        self.state().published.remove(&pid);
    }

    pub(crate) fn exit(&self, pid: u32) {
        let mut state = self.state();
        state.running.remove(&pid);
        state.published.remove(&pid);
    }

    /// Returns a mapping of a process, as an event of the kernel (by build id) or of `/proc` (by
    /// inode).
    pub(crate) fn mapping(&self, pid: u32, index: u32, is_event: bool) -> MapEvent {
        let container = self.state().running.get(&pid).copied().unwrap_or(pid) % self.shape.containers.max(1);
        self.mapping_in(container, pid, index, is_event)
    }

    fn mapping_in(&self, container: u32, pid: u32, index: u32, is_event: bool) -> MapEvent {
        let code = &self.code[index as usize % self.code.len()];
        let inode = u64::from(container) * 64 + u64::from(index) + 1;
        let file = match &code.build_id {
            Some(id) if is_event => FileId::BuildId(id.clone()),
            _ => FileId::Inode { device: (8, 1), inode },
        };
        let start = start(pid, index);
        MapEvent::new(start..start + code.len, code.offset, file, code.path.clone())
    }
}

/// Returns the first address of a mapping of a process.
pub(crate) fn start(pid: u32, index: u32) -> u64 {
    0x5500_0000_0000 + (u64::from(pid.wrapping_mul(0x9e37_79b1)) << 12) + (u64::from(index) << 28)
}

/// Returns the code segments of this program and its libraries.
fn code() -> io::Result<Vec<Code>> {
    let maps = FakeSystem::this_process()?.mappings(std::process::id())?;
    let maps =
        maps.into_iter().filter(|map| map.path.starts_with('/') && fs::exists(&*map.path).unwrap_or(false));
    let code = maps.map(|map| {
        let build_id = Elf::open(File::open(&*map.path)?).ok().and_then(|elf| elf.build_id());
        let build_id = build_id.map(|id| Box::from(&id[..]));
        Ok(Code { path: map.path, offset: map.offset, len: map.end - map.start, build_id })
    });
    code.collect()
}

impl System for Machine {
    fn processes(&self) -> Vec<u32> {
        self.state().running.keys().copied().collect()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        let container = {
            let mut state = self.state();
            state.reads += 1;
            *state.running.get(&pid).ok_or(io::ErrorKind::NotFound)? % self.shape.containers.max(1)
        };
        Ok((0..MAPPINGS).map(|index| self.mapping_in(container, pid, index, false)).collect())
    }

    fn describe(&self, pid: u32) -> Description {
        let mut description = Description::default();
        description.executable = format!("/usr/bin/program-{}", pid % 50).into();
        description
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        let container = self.state().running.get(&pid).copied().unwrap_or(pid) % self.shape.containers.max(1);
        let index = self.code.iter().position(|code| code.path == mapping.path).unwrap_or_default() as u64;
        let inode = match mapping.file {
            FileId::Inode { inode, .. } => inode,
            _ => u64::from(container) * 64 + index + 1,
        };
        let inode = self.shape.is_foreign.then_some((0x801, inode));
        Arc::new(CodeFile { path: mapping.path.clone(), inode })
    }

    fn read(&self, _: u32, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A file of a container: a real one of this machine.
struct CodeFile {
    path: Arc<str>,
    inode: Option<(u64, u64)>,
}

impl Opener for CodeFile {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(File::open(&*self.path)?))
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        self.inode
    }
}

/// The arena, and the kernel's map of processes with its capacity.
pub(crate) struct KernelTables(pub(crate) MemoryTables, pub(crate) Machine);

impl Tables for KernelTables {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full> {
        self.0.write(at, bytes)
    }

    fn piece(&self, word: u32) -> Option<&[u32]> {
        self.0.piece(word)
    }

    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        let mut state = self.1.state();
        if !state.published.contains_key(&pid) && state.published.len() >= crate::published(self.1.shape.cpus)
        {
            return Err(Full);
        }
        state.published.insert(pid, *process);
        Ok(())
    }

    fn replace_process(&mut self, pid: u32, process: &Process) {
        if let Some(known) = self.1.state().published.get_mut(&pid) {
            *known = *process;
        }
    }

    fn remove_process(&mut self, pid: u32) {
        self.1.state().published.remove(&pid);
    }
}
