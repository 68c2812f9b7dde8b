//! Events of the embedder's own eBPF programs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ebpf_programs::abi::own::walk;

use super::{Trigger, Walk};
use crate::live::error::StartError;
use crate::live::kernel::bpf::Map;

/// Type of an embedder's eBPF program that triggers samples ([`Trigger::own`]).
///
/// The program takes a sample by a tail call to the profiler's program that walks the stack, and
/// the kernel allows tail calls between programs of one type only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramType {
    /// A program at a perf event: a clock or counter.
    PerfEvent,
    /// A program at a uprobe, uretprobe, USDT probe, kprobe or kretprobe.
    Probe,
    /// A program at a tracepoint.
    Tracepoint,
    /// A program at a raw tracepoint.
    RawTracepoint,
}

impl ProgramType {
    /// Returns the walk that programs of this type call.
    pub(in super::super) fn walk(self) -> Walk {
        let (map, program) = match self {
            ProgramType::PerfEvent => ("EVENT_WALKS", "own_event"),
            ProgramType::Probe => ("PROBE_WALKS", "own_probe"),
            ProgramType::Tracepoint => ("TRACE_WALKS", "own_trace"),
            ProgramType::RawTracepoint => ("RAW_WALKS", "own_raw"),
        };
        Walk { map, index: walk::OWN, program }
    }
}

/// The maps by which eBPF programs of the embedder's own trigger samples, from
/// [`Profiler::own_programs`](crate::live::Profiler::own_programs).
///
/// A program decides that its event is a sample, writes kind and value to a map, and calls the walk
/// last:
///
/// ```text
///   struct event { u64 value; u32 kind; u32 reserved; };          value: at most 2⁴⁸; reserved: 0
///
///   OWN_EVENTS    hash map   key: address of the program's context, 8 bytes    value: struct event
///   EVENT_WALKS   programs   perf events        index 0
///   PROBE_WALKS   programs   probes             index 0
///   TRACE_WALKS   programs   tracepoints        index 0
///   RAW_WALKS     programs   raw tracepoints    index 0
///
///   u64 key = (u64)context;
///   struct event event = { .value = bytes, .kind = kind };
///   bpf_map_update_elem(&OWN_EVENTS, &key, &event, BPF_ANY);
///   bpf_tail_call(context, &PROBE_WALKS, 0);
///   bpf_map_delete_elem(&OWN_EVENTS, &key);                       reached if there is no walk: the profiler pauses or ended
/// ```
///
/// An event with an unknown kind or a higher value is lost and counted in
/// [`Health::lost`](crate::live::Health::lost); so is one that does not fit into `OWN_EVENTS`,
/// which has 1,024 entries. Filters apply as to all events.
///
/// The program gets the maps by [pins](OwnPrograms::pin), in a loader such as aya or libbpf, or by
/// [descriptors](OwnPrograms::maps). The walks are removed when the profiler ends, also from maps
/// that are pinned or held by others. A profiler that is killed removes nothing: as long as a pin
/// is left, the walks, their buffers (tens of MiB) and the programs that call them stay. So
/// remove the pins once the programs are loaded.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::Profiler;
/// use ebpf_profiler_core::live::{ProgramType, Trigger};
/// use ebpf_profiler_core::profile::Unit;
/// use std::path::Path;
///
/// let written = Trigger::own("written", Unit::Bytes, ProgramType::RawTracepoint);
/// let profiler = Profiler::builder()
///     .on(written)
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// let own = profiler.own_programs();
/// own.pin(Path::new("/sys/fs/bpf/own_program"))?;
/// let kind = own.kind("written");
/// // Load the program with these maps, set its kind, attach it.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # With aya
///
/// The program in Rust, by `aya-ebpf`; `ebpf_programs` has the types. It takes a sample at each
/// `write` call, with its number of bytes:
///
/// ```ignore
/// #[map]
/// static OWN_EVENTS: HashMap<u64, Event> = HashMap::pinned(MAX_EVENTS, 0);
/// #[map]
/// static RAW_WALKS: ProgramArray = ProgramArray::pinned(walk::COUNT as u32, 0);
/// #[unsafe(no_mangle)]
/// static KIND: Global<u32> = Global::new(0);
///
/// #[raw_tracepoint(tracepoint = "sys_enter")]
/// fn written(context: RawTracePointContext) -> i32 {
///     let (registers, call) = (context.arg::<*const u64>(0), context.arg::<u64>(1));
///     if call != WRITE {
///         return 0;
///     }
///     let Ok(value) = (unsafe { bpf_probe_read_kernel(registers.wrapping_add(RDX)) }) else { return 0 };
///     let key = context.as_ptr() as u64;
///     if OWN_EVENTS.insert(key, Event { value, kind: KIND.load(), reserved: 0 }, 0).is_ok() {
///         unsafe { RAW_WALKS.tail_call(&context, walk::OWN) };
///         let _ = OWN_EVENTS.remove(key);
///     }
///     0
/// }
/// ```
///
/// The program that loads it, by `aya`:
///
/// ```ignore
/// own.pin(pins)?;
/// let mut loader = EbpfLoader::new();
/// let mut ebpf = loader.default_map_pin_directory(pins).override_global("KIND", &kind, true).load(OBJECT)?;
/// std::fs::remove_dir_all(pins)?;                               // the loaded program holds the maps
/// let program: &mut RawTracePoint = ebpf.program_mut("written").ok_or("no such program")?.try_into()?;
/// program.load()?;
/// program.attach("sys_enter")?;                                 // until `ebpf` is dropped
/// ```
///
/// Both are complete in the repository: `examples/own_program/src/main.rs` and
/// `examples/src/bin/own_program.rs`.
#[derive(Debug)]
pub struct OwnPrograms {
    kinds: Vec<(String, u32)>,
    maps: Vec<(&'static str, Map)>,
}

impl Drop for OwnPrograms {
    fn drop(&mut self) {
        for (_, map) in self.maps.iter().filter(|(name, _)| *name != EVENTS) {
            let _ = map.remove(walk::OWN);
        }
    }
}

/// The map of events.
const EVENTS: &str = "OWN_EVENTS";

impl OwnPrograms {
    /// Collects the maps for `triggers`, whose index is the number of their kind of samples.
    pub(in super::super) fn new(
        triggers: &[Trigger],
        map: impl Fn(&str) -> Result<Map, StartError>,
    ) -> Result<OwnPrograms, StartError> {
        let own = || Trigger::numbered(triggers).filter(|(_, trigger)| trigger.is_own());
        let kinds: Vec<(String, u32)> =
            own().map(|(kind, it)| (it.own_name().to_owned(), kind.into())).collect();
        let mut names: Vec<&str> = own().flat_map(|(_, it)| it.walks()).map(|walk| walk.map).collect();
        names.sort_unstable();
        names.dedup();
        names.extend((!kinds.is_empty()).then_some(EVENTS));
        let maps = names.into_iter().map(|name| Ok((name, map(name)?)));
        Ok(OwnPrograms { kinds, maps: maps.collect::<Result<_, StartError>>()? })
    }

    /// Returns the number of a kind of samples; `None` if there is no [`Trigger::own`] with this
    /// name.
    pub fn kind(&self, name: &str) -> Option<u32> {
        self.kinds.iter().find(|(it, _)| it == name).map(|&(_, kind)| kind)
    }

    /// Returns the maps by name: `OWN_EVENTS`, and the walks of the program types in use.
    pub fn maps(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.maps.iter().map(|(name, map)| (*name, map.as_fd()))
    }

    /// Pins the maps by their names in `folder` of a BPF file system, which is created if it is
    /// missing. Pins stay until they are removed.
    ///
    /// # Errors
    ///
    /// Fails if a pin exists, or `folder` is not in a BPF file system.
    pub fn pin(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        self.maps.iter().try_for_each(|(name, map)| {
            let path = CString::new(folder.join(name).as_os_str().as_bytes())?;
            map.pin(&path)
        })
    }
}
