//! Go: the labels of goroutines.
//!
//! ```text
//!   pprof.Do(ctx, pprof.Labels("request", "7"), work)
//!
//!   thread pointer ──► g ──► m ──► curg ──► labels ──► slice of pairs (from 1.24 on), or hash map
//!                      │     48    │        │
//!                      │           │        └ runtime/pprof.runtime_setProfLabel: where it stores its argument
//!                      └───────────┴ runtime.systemstack: the loads with which it begins
//! ```
//!
//! Offsets are read from the code of these two functions. Their names are in Go's function table,
//! which stripped programs have, too. A program without the second one sets no labels. Which
//! layout the set has follows from the version in the build information; programs without it have
//! the newer one if they have its function `mergeLabelSets`.
//!
//! A thread shows the labels of its goroutine also while it runs the scheduler, the collector, a
//! signal handler or C code for it. One that looks for work has none. Go's own stacks have names
//! without this module.
//!
//! Sources: [proflabel.go](https://github.com/golang/go/blob/go1.25.5/src/runtime/proflabel.go),
//! [label.go from 1.24 on](https://github.com/golang/go/blob/go1.25.5/src/runtime/pprof/label.go),
//! [up to 1.23](https://github.com/golang/go/blob/go1.22.10/src/runtime/pprof/label.go),
//! [map.go](https://github.com/golang/go/blob/go1.22.10/src/runtime/map.go),
//! [asm_amd64.s](https://github.com/golang/go/blob/go1.25.5/src/runtime/asm_amd64.s).

mod code;

mod version;

use ebpf_profiler_core::elf::segment_type::PT_LOAD;
use ebpf_profiler_core::elf::{Arch, Elf, Segment};
use ebpf_profiler_core::internal::go::Pclntab;
use ebpf_profiler_core::language::{LabelLayout, LabelPath, LabelRuntime, LabelSource, Reason, Target};

use crate::accessor::{self, Origin};
use crate::thread_local;

/// The labels that Go programs set with `runtime/pprof`: `Do`, `SetGoroutineLabels`.
///
/// Programs of Go 1.17 and later on x86_64; tested with 1.19 to 1.27.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::LabelSource;
/// use ebpf_profiler_hll::go::GoLabels;
///
/// let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(GoLabels.find(&elf).is_none(), "no Go program");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GoLabels;

impl LabelSource for GoLabels {
    fn name(&self) -> &'static str {
        "go"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn LabelRuntime>> {
        if elf.arch() != Arch::X86_64 || !Pclntab::may_be_in(elf) {
            return None;
        }
        let functions = Functions::find(&Pclntab::find(elf).ok()??);
        functions.sets_labels.as_ref()?;
        Some(Box::new(GoRuntime(functions.facts(elf))))
    }
}

/// The facts of a file; `None` if its code has another form than those that are known.
struct GoRuntime(Option<Facts>);

/// Offsets of a Go runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// Storage of the address of the running g.
    g: Origin,
    /// Offsets of m in g, and of curg in m.
    hops: [i64; 2],
    /// Offset of the labels in g.
    labels: i64,
    layout: LabelLayout,
    /// Address in the file, and size, of the segment with texts in the source: keys, mostly.
    constants: Option<(u64, u64)>,
}

impl LabelRuntime for GoRuntime {
    fn attach(&self, target: &Target<'_>) -> Result<LabelPath, Reason> {
        let facts = self.0.ok_or(Reason::Unsupported)?;
        let mut offsets = thread_local::path(facts.g, target)?;
        offsets.extend(facts.hops);
        offsets.push(facts.labels);
        if facts.layout == LabelLayout::GoMap {
            // The set is a variable with the address of the map.
            offsets.push(0);
        }
        let path = LabelPath::from_thread_pointer(&offsets, facts.layout).ok_or(Reason::Unsupported)?;
        Ok(match facts.constants {
            Some((address, size)) => path.with_constants(target.address(address), size),
            None => path,
        })
    }
}

/// The functions from whose code offsets are read: address, and end.
#[derive(Clone, Debug, Default)]
struct Functions {
    switches: Option<(u64, u64)>,
    sets_labels: Option<(u64, u64)>,
    has_slices: bool,
}

impl Functions {
    fn find(table: &Pclntab) -> Functions {
        let mut found = Functions::default();
        for number in 0..table.len() {
            let Some(function) = table.function(number) else { continue };
            let place = || Some((function.entry(), table.entry(number + 1)?));
            match function.name() {
                b"runtime.systemstack" | b"runtime.systemstack.abi0" => found.switches = place(),
                b"runtime/pprof.runtime_setProfLabel" => found.sets_labels = place(),
                b"runtime/pprof.mergeLabelSets" => found.has_slices = true,
                _ => {}
            }
        }
        found
    }

    fn facts(&self, elf: &Elf) -> Option<Facts> {
        let switches = self.switches?;
        let layout = match version::minor(elf) {
            Some(..=16) => return None,
            Some(17..=23) => LabelLayout::GoMap,
            Some(24..) => LabelLayout::Slice,
            None if self.has_slices => LabelLayout::Slice,
            None => LabelLayout::GoMap,
        };
        let hops = code::hops(&bytes(elf, switches)?)?;
        let labels = code::labels(&bytes(elf, self.sets_labels?)?)?;
        let g = accessor::dereferenced(elf, switches.0)?;
        Some(Facts { g, hops, labels, layout, constants: constants(elf) })
    }
}

/// Returns address and size of the largest segment that is neither writable nor code.
fn constants(elf: &Elf) -> Option<(u64, u64)> {
    let is_constant = |segment: &&Segment| segment.kind == PT_LOAD && segment.flags == READ;
    let largest = elf.segments().iter().filter(is_constant).max_by_key(|segment| segment.file_size)?;
    Some((largest.address, largest.file_size))
}

/// Flags of a segment that is only read.
const READ: u32 = 4;

/// Reads the code of a function, as far as it is needed.
fn bytes(elf: &Elf, (entry, end): (u64, u64)) -> Option<Vec<u8>> {
    let size = end.checked_sub(entry)?.min(MAX_FUNCTION);
    let mut bytes = vec![0; size as usize];
    elf.read(entry, &mut bytes).ok()?;
    Some(bytes)
}

/// Maximum number of bytes of a function that are searched.
const MAX_FUNCTION: u64 = 1024;
