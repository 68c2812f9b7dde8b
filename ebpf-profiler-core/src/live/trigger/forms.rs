//! The forms of triggers as text, and those that a machine lacks.

use super::{Trigger, attach, counter, fentry, off_cpu, tracepoint};

impl Trigger {
    /// The forms of triggers as text, each with its meaning.
    pub const FORMS: &'static [(&'static str, &'static str)] = &[
        ("cpu", "CPU time: a clock on each CPU; the default"),
        (
            "off-cpu[:1ms[:0.1]]",
            "time off the CPU: waits of at least 1 ms, a share of 0.1 of them (kernel 6.1)",
        ),
        (
            "off-cpu-states[:1ms[:0.1]]",
            "the same in two kinds: blocked, and runnable, which is the time that a thread waits for a CPU",
        ),
        (
            "off-cpu-wakers[:1ms[:0.1]]",
            "time off the CPU, and the same waits until they were ended, with the stack that woke the thread",
        ),
        ("futex[:1ms]", "waits for locks of at least 1 ms: futex calls (tracefs)"),
        ("block-io", "reads and writes of disks by bytes, where they are issued (tracefs)"),
        ("block-latency[:1ms]", "latency of disks: requests of at least 1 ms, by the stack that issued them"),
        (
            "uprobe:FILE:FUNCTION[:argN|:time]",
            "calls of a function of a program or library, or of all that match a pattern, such as libc.so*:pthread_*; argN: its \
             N-th argument, from 0; time: until it returns",
        ),
        ("uretprobe:FILE:FUNCTION[:result]", "returns of a function; result: the value that it returns"),
        (
            "kprobe:FUNCTION[:argN|:time]",
            "calls of a function of the kernel, or of all that match a pattern, such as vfs_*",
        ),
        ("kretprobe:FUNCTION[:result]", "returns of a function of the kernel"),
        (
            "fentry:FUNCTION[:argN|:time]",
            "the same as kprobe, with the argument's type; a pattern matches at most 16 functions (kernel 5.19)",
        ),
        (
            "fexit:FUNCTION[:result]",
            "returns of a function of the kernel, with the result's type (kernel 5.19)",
        ),
        (
            "usdt:FILE:PROVIDER:NAME[:argN]",
            "a static probe (USDT) of a program or library, such as libstdc++.so.6:libstdcxx:throw; readelf -n FILE lists them",
        ),
        (
            "tracepoint:GROUP:NAME[:FIELD]",
            "an event of the kernel, such as syscalls:sys_enter_read; FIELD: an integer of it (tracefs)",
        ),
        ("page-faults[:N]", "every N-th page fault; also minor-faults, major-faults"),
        (
            "cycles[:N]",
            "every N-th cycle of a CPU, by default of 10,000,019; also instructions, cache-references, cache-misses, branches, \
             branch-misses (PMU)",
        ),
        (
            "malloc[:64KiB][:FILE]",
            "allocations by bytes, of the C library, or of the allocator in a library or program, such as libjemalloc.so.2; 64KiB: a \
             sample every 64 KiB on average",
        ),
        (
            "malloc-live[:512KiB][:FILE]",
            "memory that is allocated and not freed yet, by the stack that allocated it; 1: each allocation",
        ),
    ];

    /// Returns the reason for which this machine has no triggers of a form of [`Trigger::FORMS`];
    /// `None` if nothing is known to be missing.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::live::Trigger;
    ///
    /// for (form, meaning) in Trigger::FORMS {
    ///     match Trigger::missing(form) {
    ///         None => println!("{form}: {meaning}"),
    ///         Some(reason) => println!("{form}: not on this machine: {reason}"),
    ///     }
    /// }
    /// assert_eq!(Trigger::missing("cpu"), None);
    /// ```
    pub fn missing(form: &str) -> Option<String> {
        let name = form.split([':', '[']).next().unwrap_or_default();
        let checked = match name {
            "off-cpu" | "off-cpu-states" | "off-cpu-wakers" | "off-cpu-states-wakers" => {
                off_cpu::check_kernel()
            }
            "futex" | "block-io" | "tracepoint" => tracepoint::folder().map(drop),
            "uprobe" | "uretprobe" | "usdt" | "malloc" | "malloc-live" => {
                attach::number_of("uprobe").map(drop)
            }
            "cycles" => counter::check_hardware(),
            "kprobe" | "kretprobe" => attach::number_of("kprobe").map(drop),
            "fentry" | "fexit" => return fentry::missing(),
            _ => Ok(()),
        };
        checked.err().map(|error| error.to_string())
    }
}
