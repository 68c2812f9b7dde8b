//! Recordings: taken on one machine, replayed on another without privileges.
//!
//! ```no_run
//! # #[cfg(feature = "live")] {
//! # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
//! # use ebpf_profiler_core::{Profiler, replay::Replay};
//! # use std::time::Duration;
//! let builder = Profiler::builder().unwind(ebpf_profiler_unwind::tables()).record("run.ticks");
//! builder.start()?.run_for(Duration::from_secs(10))?;
//! let profile = Replay::open("run.ticks")?.unwind(ebpf_profiler_unwind::tables()).profile()?;
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
//! The same [`Pipeline`](crate::pipeline::Pipeline) runs both times. The recording holds its events
//! and the answers to its questions: the first question of a kind gets the first answer, the second
//! the second. Raw samples are unwound again, with unwind tables of the same files on the machine
//! of the replay. Without such a file their walk ends early, with a [stop
//! reason](crate::trace::Stop). A file is the same if its size and build id are equal, or its
//! contents if it has no build id; no other file gives unwind tables or names. Names of kernel
//! functions and of script functions are in the recording.
//!
//! A recording holds pieces of stack memory, and with it secrets of programs: its file has mode
//! `0600`. With processes configured it holds stacks of these only; of others it holds times, life
//! events and mapped files.
//!
//! Once a second, and at the end of each profile, all records so far are written. A recording of a
//! program that was killed, or on a disk that was full, is replayed up to its last whole record:
//! see [`Replay::incomplete`].
//!
//! # Format
//!
//! Numbers are little-endian and `u32` unless noted. A `text` or `bytes` is its length and that
//! many bytes; a `list` is its length and that many items; an `optional` is 0, or 1 and the value.
//! An error as answer is 0.
//!
//! ```text
//!   "EBPFTICK"   version   0   record ...
//!
//!   record = kind   size   body: u8 × size       (at most 16 MiB)
//! ```
//!
//! | kind | record | body |
//! | ---: | --- | --- |
//! | 1 | start, the first | architecture (1 x86_64, 2 arm64), 0, clock offset `u64`, period `u64`, time `u64`, bytes for tables `u64`, configured pids `list` (empty: all; 4,294,967,295 alone: none), kinds of samples `list` of name `text` and unit (0 count, 1 nanoseconds, 2 bytes) |
//! | 2 | sample | time `u64`, kind (0 malformed: the last field; 1 walked, 2 raw), pid, tid, cpu, stop reason, frames taken, words omitted, thread name `bytes` (16), kernel frames `list` of `u64`, user words `list` of `u64`; of a raw one: pc `u64`, set of known registers `u64`, thread pointer `u64`, set of registers that aren't 0 `u64`, their values `u64`, stack `list` of `u64`; number of the kind of sample, value `u64` |
//! | 3 | life event | time `u64`, pid, what (1 forked, 2 executed, 3 mapped, 4 exited, 5 lost), then the parent, the *mapping*, or the number |
//! | 4 | batch | the events since the previous one were taken together |
//! | 5 | flush | time `u64`, counters `list` of `u64`, runs `u64`, run time `u64`: a profile ended |
//! | 7 | settings, after a flush | period `u64`, configured pids `list`, as at the start: of the samples from here on |
//! | 6 | end, the last | time `u64`, 1 if the profiler continued without the recording |
//! | 16 | processes | pids `list` |
//! | 17 | mappings | pid, `optional` `list` of *mapping* |
//! | 18 | description | pid, executable `text`, container `text`, created `u64`, parent, command line `text`, control group `text`, pod `text`, `optional` user, pid in its namespace, environment `list` of name `text` and value `text`; older recordings end before the parent, or before the control group |
//! | 19 | file | pid, *mapping*, `optional` *facts* |
//! | 20 | memory | pid, address `u64`, length, `optional` `bytes` |
//! | 21 | image | `bytes` of the vDSO |
//! | 22 | kernel | address `u64`, `list` of functions: name `text`, linker name `text`, kernel module `text` |
//! | 23 | script | pid, interpreter, address `u64`, check, language `text`, then 0 and *function*, or the number of the reason for a missing name |
//! | 24 | prepared | pid of a process that was published to the kernel maps before its first sample |
//! | 25 | outdated | time `u64`, cpu, tid of a sample whose walk used mappings that had been replaced |
//!
//! Other kinds are skipped. Version 4 lacks the generation of an inode, version 3 the inode of a
//! file, too. Version 2 lacks these, and the kinds of samples, and kind and value of a sample: all
//! are of CPU time. Times are nanoseconds: of `CLOCK_MONOTONIC` in events, since 1970 elsewhere.
//!
//! | part | fields |
//! | --- | --- |
//! | *mapping* | start `u64`, end `u64`, offset `u64`, *file id*, path `text` |
//! | *file id* | 0 anonymous; 1, device major, device minor, inode `u64`; 2, build id `bytes`; 3, as 1, then the generation of the inode `u64` |
//! | *facts* | size `u64`, `optional` (of an ELF file): architecture, build id `bytes`, fingerprint `u64`, `list` of *segment*; then `optional` (of a file that others than root may write): device `u64`, inode `u64` |
//! | *segment* | flags, offset `u64`, address `u64`, size in the file `u64`, size in memory `u64` |
//! | *function* | name `text`, file `text`, first line, `list` of position and line; then, if functions are inlined into it, `list` of name `text`, file `text`, first line, and `list` of position and `list` of index of the function and line |
//!
//! A recording that contradicts itself is an [error](crate::replay::SourceError::Format). Reading
//! takes memory in proportion to the answers in it.

mod record;

mod encode;

mod facts;

mod process_filter;

mod recorder;

mod recording_system;

mod kernel_names;

mod incomplete;

mod decode;

mod reader;

mod file;

mod skeleton;

mod tick;

mod recorded_system;

mod source;

mod play;

mod run;

pub use incomplete::Incomplete;
#[doc(hidden)]
pub use kernel_names::{KernelOnly, RecordingSymbolizer};
pub use play::{Replay, Replayed};
pub use recorder::RecordStats;
#[doc(hidden)]
pub use recorder::{RecordOptions, Recorder};
#[doc(hidden)]
pub use recording_system::RecordingSystem;
pub use run::Profiles;

pub use crate::sample::SourceError;
