//! Options that separate privileges.

use super::Builder;
use crate::live::machine::broker::Broker;

impl Builder {
    /// Opens what belongs to other processes through a broker: the profiler works as with
    /// `CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`, which this program does not need then. See
    /// [`Broker`] for an example.
    ///
    /// If the broker ends, the profiler goes on with its own privileges:
    /// [`Health::broker`](crate::live::Health::broker).
    #[doc(alias("privilege separation"))]
    pub fn broker(mut self, broker: &Broker) -> Builder {
        self.broker = Some(broker.clone());
        self
    }

    /// Confines the profiler's threads to the system calls that they need, once it has started. By
    /// default they are not.
    ///
    /// They can open files for reading, use BPF and perf events, and read memory of other processes;
    /// they cannot execute programs, make code, use the network, or open files for writing. Other
    /// calls fail with `EPERM`. Threads of sinks and of the [hook](Builder::enrich) run code of the
    /// embedding program, and are not confined; the [symbolizer](Builder::symbolizer),
    /// [languages](Builder::languages) and the [compiler](Builder::unwind) are.
    ///
    /// This bounds what a fault in a parser does by itself. It is no boundary for an attacker who
    /// executes code in such a thread: it shares the memory of threads that are not confined.
    #[doc(alias("seccomp", "sandbox"))]
    pub fn confine_threads(mut self) -> Builder {
        self.confines = true;
        self
    }
}
