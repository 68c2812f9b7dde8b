//! Filters of samples that the kernel side applies before it walks a stack.

mod glob;

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_programs::abi::filter as abi;

use crate::live::kernel::bpf::Map;
use crate::live::kernel::types::KernelTypes;
use crate::sample::{KernelFilter, SourceError};

/// Conditions that an event meets to become a sample, for
/// [`Builder::filter`](crate::live::Builder::filter).
///
/// The kernel side checks them before it walks a stack: what they drop costs no walk, and is
/// counted in [`Health::filtered`](crate::live::Health::filtered). Of several conditions of one sort one
/// is enough; conditions of different sorts must all be met. [`Builder::pid`](crate::live::Builder::pid)
/// is a further sort.
///
/// Patterns of names have `*` for any bytes, `?` for one byte, and `[a-z]` or `[!a-z]` for one of a
/// set. The kernel cuts names to 15 bytes.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Filter};
/// use std::time::Duration;
///
/// let filter = Filter::new().command("nginx").command("php-fpm*").user_code();
/// let profile = Profiler::builder()
///     .filter(filter)
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?
///     .run_for(Duration::from_secs(10))?;
/// profile.write("web.html")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "comm")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    cgroups: Vec<PathBuf>,
    commands: Vec<String>,
    threads: Vec<String>,
    cpus: Vec<u32>,
    conditions: u32,
}

/// A part of a [`Filter`] that is invalid, or that names no control group of this machine.
#[derive(Clone, Debug)]
pub struct FilterError {
    what: String,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for FilterError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}

/// Errors are equal if their texts are.
impl PartialEq for FilterError {
    fn eq(&self, other: &FilterError) -> bool {
        self.what == other.what
    }
}

impl Eq for FilterError {}

impl FilterError {
    pub(super) fn new(what: String) -> FilterError {
        FilterError { what, cause: None }
    }

    /// Returns the error for a filter that the kernel side does not take.
    pub(in crate::live) fn not_applied(error: SourceError) -> FilterError {
        FilterError { what: error.to_string(), cause: Some(Arc::new(error)) }
    }
}

impl Filter {
    /// Returns a filter without conditions: all events pass.
    pub fn new() -> Filter {
        Filter::default()
    }

    /// Accepts threads in the subtree of a control group (version 2): its folder, or its path below
    /// the root of the hierarchy, as in `system.slice/nginx.service`. At most 16.
    #[must_use = "returns the changed filter"]
    pub fn cgroup(mut self, path: impl Into<PathBuf>) -> Filter {
        self.cgroups.push(path.into());
        self
    }

    /// Accepts processes whose first thread has a name that matches `pattern`: the file name of
    /// their program, if they did not change it.
    #[must_use = "returns the changed filter"]
    pub fn command(mut self, pattern: impl Into<String>) -> Filter {
        self.commands.push(pattern.into());
        self
    }

    /// Accepts threads whose name matches `pattern`.
    #[must_use = "returns the changed filter"]
    pub fn thread(mut self, pattern: impl Into<String>) -> Filter {
        self.threads.push(pattern.into());
        self
    }

    /// Accepts events on CPU `number`, below 4,096. On other CPUs no clock and no counter runs, so
    /// that isolated ones (`isolcpus`, `nohz_full`) are not interrupted; what these would have
    /// sampled is not counted.
    #[doc(alias("isolcpus", "nohz_full"))]
    #[must_use = "returns the changed filter"]
    pub fn cpu(mut self, number: u32) -> Filter {
        self.cpus.push(number);
        self
    }

    /// Accepts events in user code: ticks that interrupt it, page faults of it, probes.
    #[must_use = "returns the changed filter"]
    pub fn user_code(mut self) -> Filter {
        self.conditions |= abi::condition::USER;
        self
    }

    /// Accepts events in the kernel: ticks that interrupt it, tracepoints, time off the CPU.
    #[must_use = "returns the changed filter"]
    pub fn kernel_code(mut self) -> Filter {
        self.conditions |= abi::condition::KERNEL;
        self
    }

    /// Returns the filter as the kernel side has it, with the control groups open.
    pub(in crate::live) fn compile(&self) -> Result<KernelFilter, FilterError> {
        let mut filter = abi::Filter { conditions: self.conditions, ..abi::Filter::ALL };
        let mut set = |is_set: bool, condition| {
            if is_set {
                filter.conditions |= condition;
            }
        };
        set(!self.cgroups.is_empty(), abi::condition::CGROUPS);
        set(!self.commands.is_empty(), abi::condition::COMMANDS);
        set(!self.threads.is_empty(), abi::condition::THREADS);
        set(!self.cpus.is_empty(), abi::condition::CPUS);
        filter.commands = glob::compile(&self.commands)?;
        filter.threads = glob::compile(&self.threads)?;
        for &cpu in &self.cpus {
            let word = filter.cpus.get_mut(cpu as usize / 64);
            *word.ok_or_else(|| FilterError::new(format!("CPU {cpu} is beyond 4095")))? |= 1 << (cpu % 64);
        }
        if !self.commands.is_empty() || !self.threads.is_empty() {
            let types = KernelTypes::of_this_kernel().ok();
            let offsets = types.and_then(|mut types| {
                Some((types.offset("task_struct", "group_leader")?, types.offset("task_struct", "comm")?))
            });
            (filter.leader_offset, filter.comm_offset) = offsets.ok_or_else(|| {
                FilterError::new("this kernel does not describe its task_struct".to_owned())
            })?;
        }
        filter.cgroups = self.cgroups.len() as u32;
        if filter.cgroups > abi::MAX_CGROUPS {
            return Err(FilterError::new(format!(
                "{} control groups are more than {}",
                filter.cgroups,
                abi::MAX_CGROUPS
            )));
        }
        let cgroups = self.cgroups.iter().map(|path| cgroup(path)).collect::<Result<_, _>>()?;
        Ok(KernelFilter::new(filter, Arc::new(cgroups)))
    }
}

/// The maps of the filter.
pub(in crate::live) struct Maps {
    pub(in crate::live) filter: Map,
    pub(in crate::live) cgroups: Map,
}

impl Maps {
    /// Replaces the filter. No program that reads it may run.
    pub(in crate::live) fn set(&self, filter: &KernelFilter) -> io::Result<()> {
        for (cgroup, index) in filter.cgroups().iter().zip(0..) {
            self.cgroups.set(index, &cgroup.as_raw_fd().to_ne_bytes())?;
        }
        self.filter.set(0, &filter.bytes())
    }

    /// Returns the way to reject all events.
    pub(in crate::live) fn gate(&self) -> io::Result<Gate> {
        self.filter.try_clone().map(Gate)
    }
}

/// Ends the sampling of a profiler, from any thread and without a wait: no event passes its filter.
#[derive(Debug)]
pub(in crate::live) struct Gate(Map);

impl Gate {
    pub(in crate::live) fn close(&self) {
        let none = KernelFilter::new(abi::Filter::NONE, Arc::default());
        // Otherwise samples come until the programs are detached.
        let _ = self.0.set(0, &none.bytes());
    }
}

/// Opens the folder of a control group.
fn cgroup(path: &Path) -> Result<OwnedFd, FilterError> {
    const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let below = ROOTS.map(|root| Path::new(root).join(path.strip_prefix("/").unwrap_or(path)));
    let is_cgroup = |folder: &&PathBuf| folder.join("cgroup.procs").is_file();
    let given = path.to_owned();
    // A path of version 1 has the same files, but not this one.
    let is_version_2 = |folder: &&PathBuf| is_cgroup(folder) && !folder.join("tasks").exists();
    let found = [&given].into_iter().chain(&below).find(is_version_2);
    let found = found.ok_or_else(|| {
        FilterError::new(format!(
            "{} is no control group of version 2; list them: systemd-cgls",
            path.display()
        ))
    })?;
    let folder = File::open(found).map_err(|error| FilterError {
        what: format!("{} cannot be opened: {error}", found.display()),
        cause: Some(Arc::new(error)),
    })?;
    Ok(folder.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_cannot_be_applied_are_rejected_with_the_reason() {
        let text = |filter: Filter| filter.compile().err().unwrap().to_string();
        assert!(text(Filter::new().cpu(4096)).contains("CPU 4096 is beyond 4095"));
        assert!(text(Filter::new().cgroup("no/such.slice")).contains("no/such.slice is no control group"));
        assert!(text(Filter::new().command("")).contains("pattern is empty"));
        assert!(text(Filter::new().thread("[ab")).contains("no ] for its ["));
        assert!(text(Filter::new().thread("0123456789abcdef")).contains("15 bytes"));
        let long = (0..9).fold(Filter::new(), |filter, number| filter.thread(format!("worker-{number}")));
        assert!(text(long).contains("together"));
    }

    #[test]
    fn events_pass_on_the_cpus_of_the_filter() {
        let filter = Filter::new().cpu(3).cpu(65).compile().unwrap();
        let passing: Vec<u32> = (0..5000).filter(|&cpu| filter.has_cpu(cpu)).collect();
        assert_eq!(passing, [3, 65]);
        let all = Filter::new().user_code().compile().unwrap();
        assert!([0, 4095, 4096, u32::MAX].into_iter().all(|cpu| all.has_cpu(cpu)));
    }

    #[test]
    fn filter_has_the_conditions_that_were_set() {
        let filter = Filter::new().cpu(3).cpu(65).thread("a*").user_code();
        let filter = filter.compile().unwrap();
        let set = abi::condition::CPUS | abi::condition::THREADS | abi::condition::USER;
        assert_eq!(filter.filter().conditions, set);
        assert_eq!(filter.filter().cpus[..2], [8, 2]);
        assert_eq!(filter.bytes().len(), size_of::<abi::Filter>());
        assert_eq!(Filter::new().compile().unwrap().filter(), &abi::Filter::ALL);
    }
}
