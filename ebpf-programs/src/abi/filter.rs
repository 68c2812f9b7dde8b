//! Filters of samples: conditions that an event meets before its stack is walked.
//!
//! Patterns of names are one automaton. Its states are the bits of a word, so that all patterns are matched at once:
//!
//! ```text
//!   pattern   n g * x        states   0 ─n─► 1 ─g─► 2 ─x─► 3      ⟲ any byte at 2, for the *
//!   byte b    states = (states & steps[b]) << 1 | states & loops
//! ```

/// The value of the map `FILTER`. User space writes it, the kernel side reads it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Conditions that are set, a bit for each of [`condition`]; 0 lets all events pass.
    pub conditions: u32,
    /// Number of control groups in the map `CGROUPS`, of which one must have the thread in its subtree.
    pub cgroups: u32,
    /// Byte offset of `group_leader` in the kernel's `task_struct`.
    pub leader_offset: u32,
    /// Byte offset of `comm` in `task_struct`.
    pub comm_offset: u32,
    /// Accepted CPUs, a bit for each.
    pub cpus: [u64; CPU_WORDS],
    /// Names of processes: of their first thread.
    pub commands: Names,
    /// Names of threads.
    pub threads: Names,
}

/// Conditions of a [`Filter`], as bits.
pub mod condition {
    /// The thread is in the subtree of a control group.
    pub const CGROUPS: u32 = 1;
    /// The process has one of the names.
    pub const COMMANDS: u32 = 2;
    /// The thread has one of the names.
    pub const THREADS: u32 = 4;
    /// The CPU is one of those accepted.
    pub const CPUS: u32 = 8;
    /// The event is in user code.
    pub const USER: u32 = 16;
    /// The event is in the kernel.
    pub const KERNEL: u32 = 32;
}

/// Maximum number of control groups.
pub const MAX_CGROUPS: u32 = 16;

/// Words of the set of CPUs: CPUs from 4,096 on are accepted by no condition.
pub const CPU_WORDS: usize = 64;

/// Bytes of a thread's name, with a zero byte at its end.
pub const NAME: usize = 16;

/// Number of states of [`Names`]: the bytes of all patterns, and one for each.
pub const STATES: u32 = u64::BITS;

/// Patterns of names, as an automaton.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// For each byte, the states from which it leads to the next.
    pub steps: [u64; 256],
    /// States in which any byte stays.
    pub loops: u64,
    /// The first state of each pattern.
    pub first: u64,
    /// The last state of each pattern.
    pub last: u64,
}

impl Names {
    /// Patterns that match no name.
    pub const NONE: Names = Names { steps: [0; 256], loops: 0, first: 0, last: 0 };

    /// Returns `true` if a name, up to its first zero byte, matches a pattern.
    #[inline(always)]
    pub fn matches(&self, name: &[u8; NAME]) -> bool {
        let mut states = self.first;
        for &byte in name {
            if byte == 0 || states == 0 {
                break;
            }
            states = (states & self.steps[byte as usize]) << 1 | states & self.loops;
        }
        states & self.last != 0
    }
}

impl Filter {
    /// The filter that lets all events pass.
    pub const ALL: Filter = Filter {
        conditions: 0,
        cgroups: 0,
        leader_offset: 0,
        comm_offset: 0,
        cpus: [0; CPU_WORDS],
        commands: Names::NONE,
        threads: Names::NONE,
    };

    /// The filter that lets no event pass.
    pub const NONE: Filter = Filter { conditions: condition::CPUS, ..Filter::ALL };
}

const _: () = assert!(size_of::<Names>() == 2072 && size_of::<Filter>() == 16 + 512 + 2 * 2072);
