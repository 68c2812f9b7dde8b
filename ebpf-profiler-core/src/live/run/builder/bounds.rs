//! Bounds of memory, time and waiting.

use std::time::Duration;

use crate::live::machine::reservation::Reservation;
use crate::live::run::budget::Budget;
use crate::registry::Limits;

use super::Builder;

impl Builder {
    /// Sets the size of the ring in bytes: a power of two from 64 KiB to 1 GiB; by default 64 KiB
    /// for each CPU, but at least 4 MiB and at most 32 MiB.
    ///
    /// The ring takes the records that do not fit into a per-CPU buffer.
    #[doc(alias = "BPF_MAP_TYPE_RINGBUF")]
    pub fn ring_size(mut self, bytes: u32) -> Builder {
        self.ring = Some(bytes);
        self
    }

    /// Limits the memory of unwind tables and mappings in bytes; 1 GiB by default, which is also
    /// the maximum.
    pub fn table_memory(mut self, bytes: u64) -> Builder {
        self.memory = self.memory.min(bytes);
        self
    }

    /// Sets the bounds of what other programs can make the profiler keep: mappings, processes,
    /// files. By default those of [`Limits`], and more processes and mappings on machines of
    /// more than 64 CPUs or 64 GiB: up to 131,072 and 1,048,576, unless there is a budget of
    /// memory.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = Some(limits);
        self
    }

    /// Limits the cost of the profiler: samples are taken less often when they cost more than the
    /// budget. By default there is no limit.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::{Budget, Trigger}};
    ///
    /// let budget = Budget::cpu(0.005).memory(64 << 20);
    /// let builder = Profiler::builder().on("malloc".parse::<Trigger>()?).budget(budget);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn budget(mut self, budget: Budget) -> Builder {
        self.budget = Some(budget);
        self
    }

    /// Sets the longest time of a walk, during which the interrupts of its CPU are off: 20 µs to 4
    /// s, 500 µs by default. Each frame that is found adds a quarter of a microsecond, so that
    /// deep stacks stay whole: at most 2 ms for 8,192 of them.
    ///
    /// Most walks take 2 to 20 µs. A program can build a stack that takes milliseconds, many steps
    /// for each frame. Its walks end with [`Stop::TooSlow`](crate::trace::Stop::TooSlow). From the
    /// ninth in a second on, each halves the time of the next, down to a sixteenth.
    pub fn walk_time(mut self, longest: Duration) -> Builder {
        self.walk_time = longest;
        self
    }

    /// Reserves CPU time for the profiler, so that it loses no samples on a saturated machine. By
    /// default nothing is reserved.
    ///
    /// The reservation bounds what is guaranteed, a [`budget`](Builder::budget) what is spent on
    /// samples.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::Reservation};
    ///
    /// let builder = Profiler::builder().reserve(Reservation::cpu(0.05));
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(mut self, reservation: Reservation) -> Builder {
        self.reservation = Some(reservation);
        self
    }

    /// Sets the longest time that [`finish`](crate::Profiler::finish), [`stop`](crate::Profiler::stop) and drop
    /// take; 5 s by default.
    ///
    /// Half of it is for samples that wait to be unwound, a quarter for names, the rest for the
    /// sinks. Work that is not done by then is dropped and counted in
    /// [`Health::deadline`](crate::live::Health::deadline). Zero means now: nothing is waited for.
    /// `finish` returns the profile without the missing names, or fails with
    /// [`StopError::Deadline`](crate::live::StopError::Deadline).
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// Sets the longest time that [`take_profile`](crate::Profiler::take_profile) and changes of a running
    /// profiler wait for their profile; 60 s by default.
    ///
    /// After it they fail with [`StopError::NotReady`](crate::live::StopError::NotReady). The sinks get the
    /// profile when it is ready. Frames with debug information that was never read take the longest.
    pub fn reply_deadline(mut self, deadline: Duration) -> Builder {
        self.reply_deadline = deadline;
        self
    }
}
