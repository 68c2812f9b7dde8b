//! Why a walk ended, and what became of a tick: the one list for both sides.

macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $value:literal, $text:literal;)+ }) => {
        $(#[$meta])*
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $doc])+ $variant = $value,)+ }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The one with this number.
            pub const fn from_number(number: u8) -> Option<$name> {
                match number { $($value => Some($name::$variant),)+ _ => None }
            }

            /// A few words for people.
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
    /// Why a user stack ends where it ends.
    Stop {
        /// The outermost frame was reached: `_start` or the entry of a thread.
        Root = 0, "reached the root";
        /// The thread has no user stack: it belongs to the kernel, or its memory is gone already because it ends.
        NoUserStack = 1, "no user stack";
        /// Frames are left out in the middle: the stack is deeper than the buffer, both ends were kept.
        TooDeep = 2, "deeper than the buffer, the middle is left out";
        /// The walk took more steps than are allowed; the root side is missing.
        TooLong = 3, "more frames than are walked";
        /// The process isn't known to the tables.
        UnknownProcess = 4, "process not known yet";
        /// The address lies in no known executable mapping of the process.
        Unmapped = 5, "address in no executable mapping";
        /// The mapping's unwind table isn't there yet.
        Pending = 6, "unwind table not ready yet";
        /// A word of the stack couldn't be read.
        Unreadable = 7, "stack not readable";
        /// The unwind data can't be said in a rule.
        Unsupported = 8, "unwind data beyond what a rule says";
        /// A rule starts from a register that isn't known in this frame.
        LostRegister = 9, "rule wants a register that is not known here";
        /// The stack pointer didn't move towards the root.
        NoProgress = 10, "stack pointer does not grow";
        /// There is no unwind data, and what the frame pointer says isn't plausible.
        Implausible = 11, "no unwind data, frame pointer not plausible";
        /// A table contradicts itself.
        BadTable = 12, "unwind table is broken";
        /// The copy of the stack that came with a raw tick ends before the stack does.
        CopyEnds = 13, "the copied part of the stack ends";
    }
}

reasons! {
    /// What the kernel side counts, one counter each on every CPU.
    Counter {
        /// Ticks that the program ran for.
        Events = 0, "events";
        /// Ticks of processes that aren't asked for.
        Filtered = 1, "ticks of processes that are not asked for";
        /// Ticks that went up as a walked stack.
        Samples = 2, "samples";
        /// Ticks that went up as registers and a copy of the stack.
        Raw = 3, "raw samples";
        /// Ticks that didn't fit into the ring.
        RingFull = 4, "ticks lost because the ring was full";
        /// Bytes that went up.
        Bytes = 5, "bytes sent";
        /// Wake-ups of user space.
        Wakeups = 6, "wake-ups";
        /// Frames of user stacks.
        Frames = 7, "user frames";
    }
}

impl Counter {
    /// Words that a CPU has for its counters: whole cache lines, which no other CPU takes from it.
    pub const WORDS: usize = Self::ALL.len().next_multiple_of(16);
}
