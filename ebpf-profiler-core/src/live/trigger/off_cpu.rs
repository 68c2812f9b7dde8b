//! Off-CPU time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use ebpf_programs::abi::off_cpu;

use super::error::AttachError;
use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::types::KernelTypes;
use crate::profile::{SampleKind, Unit};

/// The trigger of off-CPU time: the time from the switch that takes a thread off its CPU to the
/// switch that brings it back, with the stack that went to sleep.
///
/// That is the time in which a thread sleeps, waits for a lock, a disk or a CPU. Threads of the
/// kernel are included. A wait that began before the profiler counts from its start. A wait counts
/// when it ends: in the profile in which the thread is back on its CPU, at its whole length. A
/// thread that never wakes has no sample.
///
/// # Minimum kernel version
///
/// 6.1
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::OffCpu};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .on(OffCpu::longer_than(Duration::from_millis(1)))
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// let profile = profiler.run_for(Duration::from_secs(10))?;
/// println!("{:?} off the CPU", Duration::from_nanos(profile.total()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("sched_switch", "offcputime"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffCpu {
    pub(super) threshold: Duration,
    pub(super) probability: f64,
    pub(super) by_state: bool,
    pub(super) has_wakers: bool,
}

impl OffCpu {
    /// Samples waits of at least `threshold`. Shorter ones are dropped, so totals do not contain
    /// them; with zero every switch is a sample.
    pub fn longer_than(threshold: Duration) -> OffCpu {
        OffCpu { threshold, probability: 1.0, by_state: false, has_wakers: false }
    }

    /// Samples each wait with a probability above 0 and up to 1, 1 by default. The values of
    /// sampled waits are divided by it, so that totals are right on average.
    #[must_use = "returns the changed trigger"]
    pub fn probability(self, probability: f64) -> OffCpu {
        OffCpu { probability, ..self }
    }

    /// Divides the time into two kinds of samples: `blocked`, until the thread is woken, and
    /// `runnable`, in which it is ready to run and waits for a CPU. A thread that was preempted
    /// is runnable at once. Both have the stack that left the CPU.
    #[must_use = "returns the changed trigger"]
    pub fn by_state(self) -> OffCpu {
        OffCpu { by_state: true, ..self }
    }

    /// Adds the kind of samples `wakers`: the time that a thread was blocked, with the stack that
    /// woke it. It belongs to another thread; for timers and disks, to whatever thread the
    /// interrupt hit. The sample's process is the waker's, also for filters.
    #[must_use = "returns the changed trigger"]
    pub fn wakers(self) -> OffCpu {
        OffCpu { has_wakers: true, ..self }
    }

    pub(super) fn kinds(&self) -> Vec<SampleKind> {
        let mut kinds = self.kinds_of_waits();
        if self.has_wakers {
            kinds.push(SampleKind::new("wakers", Unit::Nanoseconds));
        }
        kinds
    }

    fn kinds_of_waits(&self) -> Vec<SampleKind> {
        if !self.by_state {
            return vec![SampleKind::off_cpu()];
        }
        ["blocked", "runnable"].map(|name| SampleKind::new(name, Unit::Nanoseconds)).into()
    }

    /// Returns the names of the programs that it needs.
    pub(super) fn programs(&self) -> &'static [&'static str] {
        match (self.by_state, self.has_wakers) {
            (false, false) => &["switched", "resumed"],
            (true, false) => &["switched", "resumed", "woken"],
            (false, true) => &["switched", "resumed", "waking"],
            (true, true) => &["switched", "resumed", "woken", "waking"],
        }
    }

    /// Returns the settings for the kernel side.
    pub(super) fn settings(&self, event: u16) -> Result<off_cpu::OffCpu, AttachError> {
        check_kernel()?;
        // Not a number is in no range.
        if !(1e-6..=1.0).contains(&self.probability) {
            return Err(AttachError::invalid(format!(
                "the probability cannot be {}; choose one from 0.000001 to 1",
                self.probability
            )));
        }
        let types = KernelTypes::of_this_kernel().ok();
        let start_time = types.and_then(|mut types| types.offset("task_struct", "start_time"));
        let start_time_offset = start_time
            .ok_or_else(|| AttachError::unsupported("this kernel's task_struct has no start_time"))?;
        Ok(off_cpu::OffCpu {
            start: 0,
            threshold: u64::try_from(self.threshold.as_nanos()).unwrap_or(u64::MAX),
            probability: (self.probability * 2f64.powi(32)) as u64,
            weight: (2f64.powi(16) / self.probability) as u64,
            interrupt: interrupt().unwrap_or_default(),
            start_time_offset,
            event: event.into(),
            is_full: 0,
            by_state: self.by_state.into(),
            wakers: if self.has_wakers { u64::from(event) + self.kinds_of_waits().len() as u64 } else { 0 },
        })
    }
}

/// The code that enters the interrupt.
const INTERRUPT_ENTRY: &str =
    if cfg!(target_arch = "aarch64") { "el1h_64_irq" } else { "asm_sysvec_irq_work" };

/// Fails on kernels that are too old.
pub(super) fn check_kernel() -> Result<(), AttachError> {
    KernelFeature::UserRing.refuse("off-CPU time").map_or(Ok(()), |what| Err(AttachError::unsupported(what)))
}

/// Returns the address range of the code that enters the interrupt that a CPU requests of itself;
/// `None` if the kernel does not show its symbols.
fn interrupt() -> Option<[u64; 2]> {
    let mut from = None;
    for line in BufReader::new(fs::File::open("/proc/kallsyms").ok()?).lines() {
        let line = line.ok()?;
        let mut parts = line.split_ascii_whitespace();
        let address = u64::from_str_radix(parts.next()?, 16).ok().filter(|&address| address != 0)?;
        match (from, parts.nth(1)?) {
            (None, INTERRUPT_ENTRY) => from = Some(address),
            // The list is in the order of addresses.
            (Some(from), _) if address > from => return Some([from, address]),
            _ => {}
        }
    }
    None
}

/// Returns the bytes of the settings, as the map has them.
pub(super) fn bytes(settings: &off_cpu::OffCpu) -> Vec<u8> {
    let off_cpu::OffCpu {
        start,
        threshold,
        probability,
        weight,
        interrupt,
        start_time_offset,
        event,
        is_full,
        by_state,
        wakers,
    } = *settings;
    let words = [start, threshold, probability, weight, interrupt[0], interrupt[1]];
    let halves = [start_time_offset, event];
    let mut bytes = words.map(u64::to_ne_bytes).concat();
    bytes.extend(halves.map(u32::to_ne_bytes).concat());
    bytes.extend([is_full, by_state, wakers].map(u64::to_ne_bytes).concat());
    bytes
}
