//! <!-- sentence -->
//! A whole-system, cross-language sampling profiler for Linux, to embed in any Rust program.
//! <!-- /sentence -->
//!
//! <!-- code -->
//! ```rust,no_run
//! # #[cfg(not(feature = "live"))] fn main() {}
//! # mod ebpf_profiler_unwind {
//! #     use ebpf_profiler_core::{elf::{Elf, ElfError}, unwind::Compiled};
//! #     pub fn tables() -> impl Fn(&Elf) -> Result<Compiled, ElfError> { |_| Ok(Compiled::default()) }
//! # }
//! # mod ebpf_profiler_hll {
//! #     pub fn all() -> Vec<Box<dyn ebpf_profiler_core::language::Language>> { Vec::new() }
//! # }
//! # #[cfg(feature = "live")]
//! use ebpf_profiler_core::{Profiler, sink::Table};
//! use std::time::Duration;
//!
//! # #[cfg(feature = "live")]
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let profile = Profiler::builder()
//!         .unwind(ebpf_profiler_unwind::tables())
//!         .languages(ebpf_profiler_hll::all())
//!         .start()?
//!         .run_for(Duration::from_secs(10))?;
//!     print!("{}", Table::new(&profile).rows(4));
//!     profile.write("machine.html")?; // .svg, .folded by their ending
//!     Ok(())
//! }
//! ```
//! <!-- /code -->
//!
//! It writes the flame graph and prints the functions that ran most, here at 199 Hz:
//!
//! <!-- prints -->
//! ```text
//!  self            total            function         module
//!   290    7.4 %     293    7.4 %   gzip+0x4290      gzip
//!    99    2.5 %     114    2.9 %   Perl_hv_common   perl
//!    70    1.8 %      70    1.8 %   clear_page_erms  [kernel]
//!    67    1.7 %     463   11.7 %   gzip+0x4710      gzip
//! ```
//! <!-- /prints -->
//!
//! ```text
//!   kernel ──────► events ──────────► traces ─────────────► profile ─────► files, other programs
//!          Source         Pipeline           ProfileBuilder         Sink
//!                         Registry, Walker   Symbolizer
//!                           ▲         ▲
//!             processes, ───┘         └─── tables ◄───────────────── ELF files
//!             files
//!             System                       Tables    UnwindCompiler  Elf
//!                                          (the kernel side walks by the same ones)
//! ```
//!
//! # What it does not do yet
//!
//! <!-- not -->
//! - Of interpreters only CPython: of other scripts the interpreter's own functions are shown. Code made at run time is
//!   walked by guesses that are checked, and has no names.
//! - The first tick of a script that began after the profiler shows its interpreter, not its functions.
//! - No live profiles but on x86_64. Tables and walkers know arm64, too; the compiled kernel side doesn't.
//! - No stacks of 32-bit programs.
//! - Nothing but CPU time: no waiting, no memory, no locks.
//! - Of debug information it does not read `.gnu_debugdata`, sections compressed with zstd, split DWARF and debuginfod
//!   servers.
//! <!-- /not -->
//!
//! # Requirements
//!
//! <!-- needs -->
//! | what | how much |
//! | --- | --- |
//! | kernel | 5.17 or newer with type information (`CONFIG_DEBUG_INFO_BTF=y`); the tests boot Debian's 6.1 and 6.12 |
//! | CPU | x86_64 |
//! | `CAP_BPF`, `CAP_PERFMON` | to load the sampling program and to read stacks; without them nothing starts |
//! | `CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH` | to open other users' programs; without them some stacks end early |
//! | `CAP_CHECKPOINT_RESTORE` | the same for programs that were deleted or replaced while they run |
//! | process numbers | the machine's: in a container `docker run --pid=host` or `hostPID: true`; without them there are no user stacks |
//! | lockdown | not `confidentiality` |
//! | Rust | 1.88; no BPF toolchain: the compiled object comes along |
//! <!-- /needs -->
//!
//! [`live::requirements`] says what of this there is.
//!
//! # What it costs
//!
//! <!-- cost -->
//! Measured on a virtual machine with two CPUs and kernel 6.18, both sides of a line in turns: the ratios tell more than the
//! times. `kernel_side`, `scripts`, `naming` and `whole_profiler` are benches: `cargo bench -p benches --bench NAME`, as root.
//!
//! | what | ours | compared with | by |
//! | --- | --- | --- | --- |
//! | a tick in the kernel, stack of 10 frames | 1.8 µs | 2.6 µs | `kernel_side`, against the kernel's own walk of the same program, built with frame pointers |
//! | 50 frames | 3.5 µs | 6.1 µs | |
//! | 120 frames | 4.9 µs | 11 µs | |
//! | 300 frames | 9.8 µs | 26 µs | |
//! | 100 frames of a Python script | 24 µs | 2.3 µs | `scripts`, against the same program's native frames alone |
//! | to name a function of a Python script, the first time | 9.1 µs | 6.9 µs | 3.13; `naming`, against the same reads of its process alone |
//! | and once more | 0.1 µs | 20 µs | 3.13; `naming`, against a frame in a sample of py-spy, which reads frame and name each time |
//! | CPU time of 30 s at 97 Hz, two busy threads, with names | 0.16 s | 0.30 s | `whole_profiler`, against `perf record -g`, which names nothing |
//! | of that to start, while it samples, to name and write | 0.06, 0.04, 0.05 s | | `whole_profiler` |
//! | memory at most, with names | 14 MiB | | `whole_profiler` |
//! | kernel maps before and with tables | 5.6, 5.7 MiB | | `whole_profiler` |
//! | bytes a sample, wake-ups a second | 504, 0.1 | | `whole_profiler` |
//! | program start to the first sample | 88 ms | | `whole_profiler`, both CPUs busy |
//! | ticks lost | 0 of 5,795 | | `whole_profiler` |
//! | stacks delivered whole of processes that live 30 ms | 100 % | | `whole_profiler`, 300 in a row |
//! <!-- /cost -->
//!
//! # Features
//!
//! | feature | on unless switched off | brings |
//! | --- | --- | --- |
//! | `live` | yes | [`Profiler`], which loads the kernel side and follows the processes of this machine |
//! | `symbolize` | yes | lines and inlined functions from DWARF; demangled Rust and C++ |
//!
//! Without either this is vocabulary, traits, the pipeline, replays and sinks, and runs without privileges anywhere.
//!
//! # The modules, in the order of a sample's way
//!
//! | module | what it is about |
//! | --- | --- |
//! | [`sample`] | what comes out of the kernel: ticks, and the life of processes. Seam: [`Source`](sample::Source) |
//! | [`tables`] | what goes down to it: unwind tables and mappings. Seam: [`Tables`](tables::Tables) |
//! | [`elf`] | ELF files, read piece by piece. Seam: [`ReadAt`](elf::ReadAt) |
//! | [`go`] | the table of functions in every Go program |
//! | [`process`] | processes and the files that they map. Seam: [`System`](process::System) |
//! | [`unwind`] | the compiler of unwind tables. Seam: [`UnwindCompiler`](unwind::UnwindCompiler) |
//! | [`language`] | functions of scripts. Seam: [`Language`](language::Language) |
//! | [`trace`] | stacks, and the kernel side's walkers on the host. Seam: [`Stack`](trace::Stack) |
//! | [`registry`] | the state of all processes, published to the kernel side |
//! | [`symbol`] | names for frames. Seam: [`Symbolizer`](symbol::Symbolizer) |
//! | [`profile`] | a finished profile, and the tree that pictures are drawn from |
//! | [`sink`] | flame graph, SVG, folded text, table. Seam: [`Sink`](sink::Sink) |
//! | [`pipeline`] | the one place that sees all of these |
//! | [`replay`] | recordings |
//! | [`live`] | the profiler of this machine |
//! | [`testing`] | stand-ins for all seams |
//!
//! A seam is a trait with few methods, and a closure does where it has one: see [`Sink`](sink::Sink).
//!
//! # Errors and losses
//!
//! A failure to start is an error, a failure of one stack is data.
//!
//! | what goes wrong | where it is said |
//! | --- | --- |
//! | the profiler can't start | [`StartError`](live::StartError): a sentence with the remedy |
//! | the stream of events breaks | [`StopError`](live::StopError) from the next question |
//! | a stack doesn't reach its root | [`Stop`](trace::Stop) in its trace, and a line in every picture |
//! | a tick doesn't fit into the ring | [`Profile::losses`](profile::Profile::losses), [`Health::lost`](live::Health::lost) |
//! | bytes of the ring make no sense | [`PipelineStats::malformed`](pipeline::PipelineStats::malformed) |
//! | a file gives no unwind table | [`RegistryStats::without_table`](registry::RegistryStats::without_table), by reason |
//! | a script's function gets no name | the picture shows the reason; [`InterpreterStats`](language::InterpreterStats) |
//! | an address gets no name | the picture shows file and offset; [`SymbolStats`](symbol::SymbolStats) |
//! | a sink refuses a profile | [`Health::sink_errors`](live::Health::sink_errors); sampling goes on |
//! | the disk of a recording is full | [`Health::recording`](live::Health::recording); sampling goes on |
//!
//! The kernel side counts every tick that it takes, by what became of it: [`Counter`]. [`Profile::summary`] puts the
//! account into one line:
//!
//! ```
//! let profile = ebpf_profiler_core::testing::profile("cat;main;read_[k] 3\ncat;[truncated: stack not readable];f 1");
//! assert_eq!(profile.summary().to_string(), "4 samples in 1.0 s, 75.0 % of the stacks whole, none lost");
//! ```
//!
//! # Security
//!
//! The profiler has much privilege and looks at programs that may mean harm. Their stacks, names and mappings, the files
//! that they map, and recordings are read as untrusted input: lengths are checked before they are believed, counts,
//! depths, memory and work have bounds, and what goes beyond becomes a reason in the account, not a panic. Files of
//! others are read, not mapped, so one that shrinks while it is read is an error and not a signal. Unsafe code is denied but
//! in the modules that talk to the kernel. Parsers have fuzz targets. A program can still lie about its own stack, and a
//! profile shows whoever may read it what everyone runs.
//!
//! # Minimum kernel version
//!
//! 5.17 for [`live`]; none for everything else.
//!
//! [`Counter`]: ebpf_programs::abi::reason::Counter
//! [`Profile::summary`]: profile::Profile::summary
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod sample;

pub mod tables;

pub mod elf;

pub mod go;

pub mod process;

pub mod unwind;

pub mod language;

pub mod trace;

pub mod registry;

pub mod symbol;

pub mod profile;

pub mod sink;

pub mod pipeline;

pub mod replay;

#[cfg(feature = "live")]
pub mod live;

#[cfg(feature = "live")]
pub use live::Profiler;

pub mod testing;

mod text;
