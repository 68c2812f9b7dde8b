//! Events of the running kernel.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use ebpf_programs::abi::reason::Counter;

use super::loader::{Kernel, KindCosts};
use crate::live::error::StartError;
use crate::live::kernel::bpf::Runs;
use crate::live::kernel::sideband::Sideband;
use crate::live::kernel::waker::Waker;
use crate::live::kernel::{bpf, perf};
use crate::live::machine::{clock, cpus};
use crate::live::trigger::filter::Gate;
use crate::process::Pids;
use crate::sample::{Batch, Counts, KernelFilter, KindCost, Life, LifeEvent, Source, SourceError};

/// Interval between two reads of the list of CPUs.
const CPU_CHECK: Duration = Duration::from_secs(1);

/// Minimum time between two reads of the buffers: many small batches cost more than a few larger ones.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(4);

/// Minimum time between two reads if life events alone are to be read.
const LIFE_DELAY: Duration = Duration::from_millis(20);

/// The running kernel.
pub(super) struct LiveSource {
    kernel: Kernel,
    /// Time between two samples of a CPU; `None` while sampling is paused.
    period: Option<Duration>,
    /// The filter that applies.
    filter: KernelFilter,
    cpus: Vec<Cpu>,
    /// `true` if there are CPUs whose first events nobody read.
    has_new_cpu: bool,
    /// Events that are newer than the last batch.
    later: Batch,
    checked: Instant,
    drained: Instant,
    stopped: bool,
    wake: PipeReader,
    gate: Gate,
}

/// The events of one CPU.
struct Cpu {
    number: u32,
    /// Number of times that the CPU was switched on before these were opened.
    life: u64,
    sideband: Sideband,
    /// The sampling clock, which runs while it is open.
    clock: Option<OwnedFd>,
}

impl LiveSource {
    /// Starts the clocks of all CPUs of the filter, and attaches all other triggers.
    pub(super) fn start(
        kernel: Kernel,
        period: Duration,
        pids: &Pids,
        filter: &KernelFilter,
    ) -> Result<(LiveSource, Waker, Gate), StartError> {
        let pipes = |error| StartError::System { what: "create a pipe", error };
        let (wake, waker) = Waker::new().map_err(pipes)?;
        let filters = |error| StartError::System { what: "set the filter", error };
        kernel.filter.set(filter).map_err(filters)?;
        let (gate, ends) = (kernel.filter.gate().map_err(filters)?, kernel.filter.gate().map_err(filters)?);
        kernel.walks.set_waker(waker.try_clone().map_err(pipes)?);
        let now = Instant::now();
        let mut source = LiveSource {
            kernel,
            period: Some(period),
            filter: filter.clone(),
            cpus: Vec::new(),
            has_new_cpu: false,
            later: Batch::default(),
            checked: now,
            drained: now,
            stopped: false,
            wake,
            gate,
        };
        source.kernel.walks.renew(true)?;
        source.follow_cpus().map_err(StartError::sampling)?;
        // What runs is read from `/proc` after this.
        source.has_new_cpu = false;
        source.kernel.wanted.set(pids);
        source.kernel.attached.attach(filter)?;
        Ok((source, waker, ends))
    }

    /// Opens the events of new CPUs and closes those of CPUs that went offline.
    fn follow_cpus(&mut self) -> io::Result<()> {
        let online = cpus::online()?;
        // The events of a CPU end when it goes offline, even if it comes back.
        let attached = &mut self.kernel.attached;
        self.cpus.retain(|cpu| {
            let is_kept = online.contains(&cpu.number) && cpus::life(cpu.number) == cpu.life;
            if !is_kept {
                attached.leave_cpu(cpu.number);
            }
            is_kept
        });
        for number in online {
            if self.cpus.iter().all(|cpu| cpu.number != number) {
                let life = cpus::life(number);
                let sideband = Sideband::open(number)?;
                let clock = self.clock(number)?;
                self.kernel.attached.follow_cpu(number, &self.filter)?;
                self.has_new_cpu = true;
                self.cpus.push(Cpu { number, life, sideband, clock });
            }
        }
        Ok(())
    }

    /// Opens the clock of a CPU; `None` while sampling is paused, without CPU time, and if the filter has other CPUs: those that are
    /// isolated (`isolcpus`, `nohz_full`) are not interrupted then.
    fn clock(&self, cpu: u32) -> io::Result<Option<OwnedFd>> {
        if !self.filter.has_cpu(cpu) {
            return Ok(None);
        }
        let (Some(sampler), Some(period)) = (self.kernel.walks.sampler(), self.period) else {
            return Ok(None);
        };
        perf::clock(cpu, period, sampler.as_fd()).map(Some)
    }

    /// Replaces the clocks of all CPUs, each as soon as the next one of its CPU runs.
    fn restart_clocks(&mut self) -> io::Result<()> {
        for index in 0..self.cpus.len() {
            match self.clock(self.cpus[index].number) {
                Ok(clock) => self.cpus[index].clock = clock,
                // A CPU that was switched off: its successor gets a clock in `follow_cpus`.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => self.cpus[index].clock = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Loads the clock's program with the walkers of runtimes that were found since.
    fn renew_walks(&mut self) -> io::Result<()> {
        if self.stopped {
            return Ok(());
        }
        if self.kernel.walks.renew(false).map_err(|error| io::Error::other(error.to_string()))? {
            self.restart_clocks()?;
        }
        Ok(())
    }

    fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let wait_before_read = MIN_READ_INTERVAL.saturating_sub(self.drained.elapsed());
        if !wait_before_read.is_zero() {
            std::thread::sleep(wait_before_read);
        }
        let wait = if self.kernel.drains.is_requested() { Duration::ZERO } else { wait };
        let mut fds = vec![self.kernel.ring.as_raw_fd(), self.wake.as_raw_fd()];
        fds.extend(self.cpus.iter().map(|cpu| cpu.sideband.fd().as_raw_fd()));
        let mut ready = perf::poll(&fds, wait)?;
        let is_life = ready[2..].contains(&true) && !ready[0] && !ready[1];
        let rest = LIFE_DELAY.saturating_sub(self.drained.elapsed()).min(wait);
        if is_life && !rest.is_zero() {
            ready = perf::poll(&fds[..2], rest)?;
        }
        if ready[1] {
            // Several wake-ups end one wait.
            let _ = self.wake.read(&mut [0; 16])?;
        }
        Ok(())
    }
}

impl Source for LiveSource {
    fn next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        self.wait(wait)?;
        if !self.stopped && self.checked.elapsed() > CPU_CHECK {
            self.checked = Instant::now();
            // A CPU that goes offline meanwhile is tried again in 1 s.
            let _ = self.follow_cpus();
        }
        self.renew_walks()?;
        if std::mem::take(&mut self.has_new_cpu) {
            let life = Life::Lost { count: 0 };
            batch.push_life(LifeEvent { time: clock::monotonic(), pid: 0, life });
        }
        batch.append(&mut self.later);
        let now = clock::monotonic();
        self.kernel.drains.begin();
        // Samples first: the life events that a sample depends on are older, so they are in the other buffers by then.
        self.kernel.cpu_buffers.drain(|record| batch.push_tick(record));
        self.kernel.ring.drain(|record| batch.push_tick(record));
        for cpu in &mut self.cpus {
            cpu.sideband.drain(batch);
        }
        batch.hold_later(now, &mut self.later);
        self.drained = Instant::now();
        Ok(true)
    }

    fn counts(&self) -> Counts {
        let attached = self.kernel.attached.programs().map(|program| bpf::runs(program).unwrap_or_default());
        let runs: Runs = attached.chain([self.kernel.walks.runs()]).sum();
        let mut counters = self.kernel.counters.sums();
        counters[Counter::Skipped as usize] = runs.missed;
        Counts { counters, runs: runs.count, run_time: runs.time }
    }

    fn costs(&self) -> Vec<KindCost> {
        self.kernel.kind_costs.as_ref().map(KindCosts::sums).unwrap_or_default()
    }

    fn set_kind_period(&mut self, kind: usize, period: u64) -> Result<(), SourceError> {
        match &self.kernel.kind_costs {
            Some(costs) => Ok(costs.set_period(kind, period)?),
            None => Err(SourceError::Io(io::ErrorKind::Unsupported.into())),
        }
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        self.gate.close();
        self.kernel.walks.reject_own();
        for cpu in &mut self.cpus {
            cpu.clock = None;
        }
        // Programs that run now have ended at the next read.
        self.drained = Instant::now();
    }

    fn detach(&mut self) {
        self.kernel.attached.detach();
    }

    fn set_pids(&mut self, pids: &Pids) {
        self.kernel.wanted.set(pids);
    }

    fn set_filter(&mut self, filter: &KernelFilter) -> Result<(), SourceError> {
        // Fails for a control group that was removed meanwhile; some of the others may be set by then.
        self.kernel.filter.set(filter).inspect_err(|_| {
            let _ = self.kernel.filter.set(&self.filter);
        })?;
        self.filter = filter.clone();
        Ok(())
    }

    fn set_period(&mut self, period: Option<Duration>) -> Result<(), SourceError> {
        self.period = period;
        self.kernel.walks.reject_own();
        self.kernel.attached.detach();
        self.restart_clocks()?;
        if self.period.is_some() {
            self.kernel.walks.accept_own()?;
            self.kernel.attached.attach(&self.filter).map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(())
    }
}
