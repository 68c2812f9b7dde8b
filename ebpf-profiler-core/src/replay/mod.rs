//! Recordings: taken on one machine, looked at on another, without privileges.
//!
//! ```no_run
//! # #[cfg(feature = "live")] {
//! # use ebpf_profiler_core::{Profiler, replay::Replay};
//! # use std::time::Duration;
//! Profiler::builder().record("run.ticks").start()?.run_for(Duration::from_secs(10))?;
//! let profile = Replay::open("run.ticks")?.profile()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!             Source          Pipeline          System
//!   record    events ──┬────► walks ◄────┬───── answers
//!                      └─► Recorder ◄────┘
//!   replay    file ──────────► walks ◄────────── file
//! ```
//!
//! The same [`Pipeline`](crate::pipeline::Pipeline) runs both times. What it is given is in the recording, and so
//! is what it asked: the first question of a kind gets the first answer, the second the second. Stacks that the
//! kernel side left to be walked are walked anew, with unwind tables of the files on the machine of the replay
//! where those are the same files; otherwise they end where the walker could not go on, and their
//! [stop reason](crate::trace::Stop) says so. A file counts as the same when its size and its build id are
//! equal, or its contents where it has no build id; nothing is named after any other. The names of the kernel's
//! functions and of the functions of scripts are in the recording.
//!
//! A recording holds pieces of the stacks of programs, so whatever secrets lie there. Where processes were asked
//! for it holds no others' stacks, only when they ran, lived, and what files they had mapped.
//!
//! # Format
//!
//! Numbers are little-endian, `u32` unless something else is said. A text or `bytes` is its length and that many
//! bytes; a list is its length and that many items; `optional` is 0, or 1 and the thing: 0 stands for an answer
//! that was refused.
//!
//! ```text
//!   "EBPFTICK"   version   abi::VERSION   record ...
//!
//!   record = kind   size   body: u8 × size       (at most 16 MiB)
//! ```
//!
//! | kind | record | body |
//! | ---: | --- | --- |
//! | 1 | start, the first | architecture (1 x86_64, 2 arm64), 0, clock offset `u64`, period `u64`, time `u64`, bytes for tables `u64`, pids asked for `list` |
//! | 2 | tick | the words of [`ebpf_programs::abi::record`], as the ring had them |
//! | 3 | life event | time `u64`, pid, what (1 forked, 2 executed, 3 mapped, 4 exited, 5 lost), then the parent, the *mapping*, or how many |
//! | 4 | batch | the events since the last of these were taken together |
//! | 5 | flush | time `u64`, counters `list` of `u64`, runs `u64`, run time `u64`: a profile ended |
//! | 6 | end, the last | time `u64`, 1 if the profiler went on without the recording |
//! | 16 | processes | pids `list` |
//! | 17 | mappings | pid, `optional` `list` of *mapping* |
//! | 18 | description | pid, executable `text`, container `text`, created `u64` |
//! | 19 | file | pid, *mapping*, `optional` *facts* |
//! | 20 | memory | pid, address `u64`, length, `optional` `bytes` |
//! | 21 | image | `bytes` of the code that the kernel lends to every process |
//! | 22 | kernel | address `u64`, `list` of functions: name `text`, name for the linker `text`, kernel module `text` |
//! | 23 | script | pid, interpreter, address `u64`, check, language `text`, then 0 and *function*, or the number of the reason why there is none |
//! | 24 | prepared | pid: the kernel side knew this process before its first tick |
//!
//! Other kinds are passed over. Times are nanoseconds: of `CLOCK_MONOTONIC` in events, since 1970 elsewhere.
//!
//! | part | fields |
//! | --- | --- |
//! | *mapping* | start `u64`, end `u64`, offset `u64`, *file id*, path `text` |
//! | *file id* | 0 anonymous; 1, device major, device minor, inode `u64`; 2, build id `bytes` |
//! | *facts* | size `u64`, `optional` (of an ELF file): architecture, build id `bytes`, fingerprint `u64`, `list` of *segment* |
//! | *segment* | flags, offset `u64`, address `u64`, size in the file `u64`, size in memory `u64` |
//! | *function* | name `text`, file `text`, line on which it begins, `list` of position and line |
//!
//! A recording that was cut off, or that contradicts itself, is an
//! [error](crate::sample::SourceError::Format); reading takes memory in proportion to the answers in it.

mod record;

mod encode;

mod facts;

mod wanted;

mod recorder;

mod recording_system;

mod kernel_names;

mod decode;

mod reader;

mod file;

mod skeleton;

mod recorded_system;

mod source;

mod play;

mod run;

pub use kernel_names::{KernelOnly, RecordingSymbolizer};
pub use play::{Replay, Replayed};
pub use recorder::{RecordOptions, RecordStats, Recorder};
pub use recording_system::RecordingSystem;
pub use run::Profiles;
