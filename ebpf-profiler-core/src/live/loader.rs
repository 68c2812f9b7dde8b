//! The kernel object, from bytes to a running program.

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{Array, ArrayOfMaps, HashMap, MapData, RingBuf};
use aya::programs::{PerfEvent, ProgramError, RawTracePoint};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use ebpf_programs::abi;
use ebpf_programs::abi::reason::Counter;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

use super::cpus;
use super::error::StartError;
use super::kernel_tables::KernelTables;
use super::kernel_types::KernelTypes;
use super::mmap::Mmap;

/// The oldest kernel that has `bpf_loop`.
pub(super) const MINIMUM_KERNEL: (u32, u32) = (5, 17);

/// The loaded kernel side, taken apart.
pub(super) struct Loaded {
    /// Keeps programs and their links alive.
    pub(super) ebpf: Ebpf,
    /// The sampling program.
    pub(super) sampler: OwnedFd,
    /// The way up.
    pub(super) ring: RingBuf<MapData>,
    /// The way down.
    pub(super) tables: KernelTables,
    /// The counters of all CPUs.
    pub(super) counters: Counters,
}

/// Loads the kernel side with a ring of `ring` bytes.
pub(super) fn load(ring: u32, exclude: u32) -> Result<Loaded, StartError> {
    check_kernel()?;
    check_object(ebpf_programs::OBJECT)?;
    let cpus = cpus::possible().map_err(|error| StartError::system("list the CPUs", "read access", error))?;
    let mut ebpf = match open(cpus, ring, VerifierLogLevel::DISABLE) {
        // Once more for the reason, in case that the program was refused.
        Err(StartError::Rejected { .. }) => open(cpus, ring, VerifierLogLevel::DEBUG)?,
        other => other?,
    };
    let mut config: Array<_, [u32; 4]> = take(&mut ebpf, "CONFIG")?;
    let settings = [abi::VERSION, ring / 4, exclude, fsbase_at().unwrap_or(0)];
    config.set(0, settings, 0).map_err(|error| StartError::Object(error.to_string()))?;
    let outer: ArrayOfMaps<_> = take(&mut ebpf, "ARENA")?;
    let processes: HashMap<_, _, _> = take(&mut ebpf, "PROCESSES")?;
    Ok(Loaded {
        sampler: sampler(&ebpf)?,
        ring: take(&mut ebpf, "RING")?,
        tables: KernelTables::new(outer, processes),
        counters: Counters::map(&ebpf, cpus)?,
        ebpf,
    })
}

/// Where a thread's pointer to its own data lies in what the kernel knows of the thread.
fn fsbase_at() -> Option<u32> {
    KernelTypes::of_this_kernel().ok()?.offset("task_struct", "thread.fsbase")
}

/// What the kernel side counts, one row a CPU, shared with it.
pub(super) struct Counters {
    memory: Mmap,
    cpus: usize,
}

impl Counters {
    fn map(ebpf: &Ebpf, cpus: u32) -> Result<Counters, StartError> {
        let missing = || StartError::Object("it has no map COUNTERS".to_owned());
        let Some(aya::maps::Map::Array(map)) = ebpf.map("COUNTERS") else { return Err(missing()) };
        let cpus = cpus as usize;
        let len = (cpus * Counter::ALL.len() * 8).next_multiple_of(4096);
        let memory = Mmap::new(map.fd().as_fd(), len, false)
            .map_err(|error| StartError::system("map the counters", "CAP_BPF", error))?;
        Ok(Counters { memory, cpus })
    }

    /// The sums over all CPUs.
    pub(super) fn sums(&self) -> Vec<u64> {
        let row = Counter::ALL.len();
        let word = |cpu: usize, counter| {
            self.memory.word((cpu * row + counter) * 8).load(std::sync::atomic::Ordering::Relaxed)
        };
        (0..row).map(|counter| (0..self.cpus).map(|cpu| word(cpu, counter)).sum()).collect()
    }
}

fn check_kernel() -> Result<(), StartError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next())
        && (major, minor) < MINIMUM_KERNEL
    {
        return Err(StartError::OldKernel { release: release.trim().to_owned() });
    }
    match fs::exists("/sys/kernel/btf/vmlinux") {
        Ok(true) => Ok(()),
        _ => Err(StartError::NoTypes),
    }
}

/// The object and this library may come from different builds.
fn check_object(object: &[u8]) -> Result<(), StartError> {
    let wrong = |what: &str| StartError::Object(what.to_owned());
    let file = ElfFile64::<LittleEndian>::parse(object).map_err(|error| wrong(&error.to_string()))?;
    let section = file.section_by_name("abi").ok_or_else(|| wrong("it doesn't say which version it is"))?;
    match section.data() {
        Ok(word) if word == abi::VERSION.to_le_bytes() => Ok(()),
        _ => Err(wrong("it is of another version")),
    }
}

fn open(cpus: u32, ring: u32, log: VerifierLogLevel) -> Result<Ebpf, StartError> {
    let mut ebpf = EbpfLoader::new()
        // Nothing in the object is relocated against the kernel's types, so they needn't be read.
        .btf(None)
        .verifier_log_level(log)
        .map_max_entries("SCRATCH", cpus)
        .map_max_entries("COUNTERS", cpus)
        .map_max_entries("RING", ring)
        .load(ebpf_programs::OBJECT)
        .map_err(|error| refused(&error, || StartError::Object(describe(&error))))?;
    let sampler: &mut PerfEvent = program(&mut ebpf, "sample")?;
    sampler.load().map_err(rejected)?;
    for (name, tracepoint) in [("executed", "sched_process_exec"), ("exited", "sched_process_exit")] {
        let program: &mut RawTracePoint = program(&mut ebpf, name)?;
        program.load().map_err(rejected)?;
        program.attach(tracepoint).map_err(rejected)?;
    }
    Ok(ebpf)
}

fn program<'e, P>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut P, StartError>
where
    &'e mut P: TryFrom<&'e mut aya::programs::Program, Error = ProgramError>,
{
    let missing = || StartError::Object(format!("it has no program {name}"));
    ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(rejected)
}

fn take<M>(ebpf: &mut Ebpf, name: &str) -> Result<M, StartError>
where
    M: TryFrom<aya::maps::Map, Error = aya::maps::MapError>,
{
    let map = ebpf.take_map(name).ok_or_else(|| StartError::Object(format!("it has no map {name}")))?;
    map.try_into().map_err(|error: aya::maps::MapError| StartError::Object(error.to_string()))
}

fn sampler(ebpf: &Ebpf) -> Result<OwnedFd, StartError> {
    let missing = || StartError::Object("it has no program sample".to_owned());
    let fd = ebpf.program("sample").ok_or_else(missing)?.fd().map_err(rejected)?;
    fd.as_fd()
        .try_clone_to_owned()
        .map_err(|error| StartError::System { what: "duplicate a file descriptor", error })
}

fn rejected(error: ProgramError) -> StartError {
    refused(&error, || match &error {
        ProgramError::LoadError { io_error, verifier_log } => {
            StartError::Rejected { error: io_error.to_string(), log: verifier_log.to_string() }
        }
        _ => StartError::Rejected { error: describe(&error), log: String::new() },
    })
}

/// A lack of privilege, where the system said so anywhere on the way; what `otherwise` makes of it if not.
fn refused(error: &(dyn Error + 'static), otherwise: impl FnOnce() -> StartError) -> StartError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if code == Some(libc::EPERM) {
            return StartError::Privilege { what: "load the sampling program", capability: "CAP_BPF" };
        }
        cause = error.source();
    }
    otherwise()
}

/// The error with all its causes.
fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_of_this_version() {
        check_object(ebpf_programs::OBJECT).unwrap();
    }

    #[test]
    fn another_object_is_refused() {
        let sentence = |bytes: &[u8]| check_object(bytes).unwrap_err().to_string();
        assert!(sentence(b"no object").contains("rebuild it: cargo xtask object"));
        let mut other = ebpf_programs::OBJECT.to_vec();
        let file = ElfFile64::<LittleEndian>::parse(ebpf_programs::OBJECT).unwrap();
        let (at, _) = file.section_by_name("abi").unwrap().file_range().unwrap();
        other[at as usize] ^= 1;
        assert!(sentence(&other).contains("another version"));
    }
}
