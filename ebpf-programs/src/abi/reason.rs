//! Stop reasons of a walk, and counters of the kernel side: the one list for the kernel and user space.

macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $value:literal, $text:literal;)+ }) => {
        $(#[$meta])*
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $doc])+ $variant = $value,)+ }

        impl $name {
            /// All variants, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the variant with this number.
            pub const fn from_number(number: u8) -> Option<$name> {
                match number { $($value => Some($name::$variant),)+ _ => None }
            }

            /// Returns a short description.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.text())
            }
        }
    };
}

reasons! {
    /// Reason why the walk of a user stack ended.
    Stop {
        /// The outermost frame was reached: `_start` or the entry of a thread.
        Root = 0, "reached the root";
        /// The thread has no user stack: it is a kernel thread, or it is exiting and its memory is gone.
        NoUserStack = 1, "no user stack";
        /// The stack is deeper than the buffer: both ends are kept, the middle is dropped.
        TooDeep = 2, "deeper than the buffer, middle dropped";
        /// The walk reached its limit of steps; the root side is missing.
        TooLong = 3, "more frames than the limit";
        /// No state of the process is published yet.
        UnknownProcess = 4, "process not known yet";
        /// The address lies in no published executable mapping of the process.
        Unmapped = 5, "address in no executable mapping";
        /// The mapping's unwind table is not published yet.
        Pending = 6, "unwind table not ready yet";
        /// A word of the stack is not readable.
        Unreadable = 7, "stack not readable";
        /// The unwind data cannot be expressed as a rule.
        Unsupported = 8, "unwind data that no rule can express";
        /// A rule needs a register whose value is unknown in this frame.
        LostRegister = 9, "register needed by the unwind rule is unknown";
        /// The stack pointer did not move towards the root.
        NoProgress = 10, "stack pointer does not grow";
        /// The code has no unwind data, and no plausible caller was found by the frame pointer or on the stack.
        Implausible = 11, "no unwind data, frame pointer not plausible";
        /// The unwind table is inconsistent.
        BadTable = 12, "unwind table is broken";
        /// The walk in user space needed a word beyond the copied part of the stack; raw samples only.
        CopyEnds = 13, "the copied part of the stack ends";
        /// The process has more mappings than its share, or changes them faster than they are followed.
        TooManyMappings = 14, "too many mappings";
        /// The thread is within `execve`: its old stack is gone, its new one not there yet.
        Exec = 15, "exec";
        /// The process has more different stacks in the profile than its share.
        TooManyStacks = 16, "too many different stacks";
        /// The walk took longer than its [time limit](super::config::Config::walk_nanos); the root side is missing.
        TooSlow = 17, "took longer than the limit";
        /// The walk used outdated mappings: a file was unmapped, and another one mapped at its address.
        Outdated = 18, "mappings changed meanwhile";
        /// The sample was not unwound, because user space was behind.
        Late = 19, "not unwound in time";
        /// The outermost frame of a coroutine was reached, which has a separate stack, or a slice of a stack.
        Coroutine = 20, "reached the base of a coroutine";
    }
}

reasons! {
    /// Counters of the kernel side, each kept per CPU.
    Counter {
        /// Events for which the sampling program ran.
        Events = 0, "events";
        /// Events dropped because their process is filtered out.
        Filtered = 1, "events of filtered processes";
        /// Samples whose stack the kernel side unwound; the others are in `Counter::Raw`.
        Samples = 2, "samples";
        /// Samples sent raw, as registers and a copy of the stack.
        Raw = 3, "raw samples";
        /// Samples lost because the ring was full.
        RingFull = 4, "samples lost because the ring was full";
        /// Bytes sent to user space.
        Bytes = 5, "bytes sent";
        /// Wake-ups of user space.
        Wakeups = 6, "wake-ups";
        /// Native and interpreter frames of user stacks that were unwound.
        Frames = 7, "user frames";
        /// Events lost because all working memory that their CPU may use was in use.
        Nested = 8, "samples lost because events interrupted one another";
        /// Waits lost because too many threads wait, because the thread was switched off its CPU again at once, or because the kernel
        /// showed only one of the two switches.
        Untracked = 9, "waits lost because their thread was not followed";
        /// Events of the embedder's own programs lost because their kind is unknown, or their value too high.
        Invalid = 10, "events of own programs lost because their kind or value was invalid";
        /// Events lost because there was no program to walk the stack.
        NoWalk = 11, "events lost because no walk was loaded";
        /// Events at which the kernel ran no program, because one ran on the CPU already. Counted by the kernel.
        Skipped = 12, "events lost because the kernel ran another program";
        /// Samples lost because too many had not ended: see [`held`](super::held).
        Unheld = 13, "samples lost because too many had not ended";
        /// Ends of samples that could not be sent because the ring was full. Most are sent when the address is used again.
        UnsentEnds = 14, "ends of samples delayed or lost because the ring was full";
        /// Events lost on a CPU that came online after the start, because it has no working memory of its own, and no other was free.
        /// Before Linux 5.17 these are all events of such a CPU.
        NewCpu = 15, "samples lost on CPUs that came online later";
    }
}

impl Counter {
    /// Words of eight bytes that each CPU's counters occupy: whole cache lines, so that CPUs share none.
    pub const WORDS: usize = Self::ALL.len().next_multiple_of(16);
}
