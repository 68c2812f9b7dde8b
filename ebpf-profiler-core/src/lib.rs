//! <!-- sentence -->
//! A whole-system, cross-language sampling profiler for Linux, to embed in any Rust program.
//! <!-- /sentence -->
//!
//! <!-- dependencies -->
//! ```toml
//! [dependencies]
//! ebpf-profiler-core = "0.1"
//! ebpf-profiler-unwind = "0.1" # stacks of code without frame pointers
//! ebpf-profiler-hll = "0.1"    # Python, Java, JavaScript and others
//! ```
//! <!-- /dependencies -->
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
//!     profile.write("machine.html")?; // or .svg, .folded, .json (Firefox Profiler), .speedscope.json
//!     Ok(())
//! }
//! ```
//! <!-- /code -->
//!
//! It writes the flame graph and prints the functions with the most samples, here at 199 Hz:
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
//!   kernel ──► samples ──► stacks ─────────► names ─────► Profile ──► Sink: a file, a collector, a closure
//!              Trigger     UnwindCompiler    Symbolizer
//!              Filter      Language          Language
//!
//!   Profiler: of the running machine · Replay: of a recording, without privileges
//! ```
//!
//! # Manual
//!
//! [How it works](manual::how_it_works) · [events](manual::events) · [runtimes](manual::runtimes) · [losses](manual::losses) ·
//! [cost](manual::cost) · [security](manual::security) · [running as an agent](manual::agent) ·
//! [unwinding without the profiler](manual::unwinding) · [instead of pprof-rs](manual::instead_of_pprof_rs)
//!
//! # Limitations
//!
//! <!-- not -->
//! - Languages: those of `ebpf-profiler-hll`, whose documentation lists their limits. Other interpreters show their native
//!   functions. Code of other JIT compilers is walked through with checked guesses, and has names only if its runtime writes a perf
//!   map or a jitdump file.
//! - The first sample of a script that starts after the profiler shows the interpreter's functions, not the script's.
//! - On arm64: native code, and of the languages CPython; `fentry` from 6.4; no arguments of static probes. Where
//!   code without unwind data has a leaf without a frame, its caller is missing.
//! - No stacks of 32-bit programs.
//! - Other events than the clock's (`Trigger`): a stack at each event, so rates beyond some 100,000 a second lose samples, which are
//!   counted. Memory in use counts from the start of the profiler.
//! - Debug information in `.gnu_debugdata`, zstd-compressed sections, split DWARF and debuginfod servers is not read.
//! <!-- /not -->
//!
//! # Requirements
//!
//! <!-- needs -->
//! | requirement | details |
//! | --- | --- |
//! | kernel | 5.10 or newer, with type information (`CONFIG_DEBUG_INFO_BTF=y`); off-CPU time from 6.1, `fentry` from 5.19; the tests boot Debian's 5.10, 6.1 and 6.12 |
//! | CPU | x86_64; arm64 with kernel 6.1 or newer, with pages of 4 and 16 KiB: the tests boot Debian's 6.1 and 6.12, emulated |
//! | `CAP_BPF`, `CAP_PERFMON` | required to load the sampling program and to read stacks |
//! | `CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH` | to open other users' programs; some stacks are truncated without them |
//! | `CAP_CHECKPOINT_RESTORE` | the same for programs deleted or replaced while they run |
//! | `CAP_SYS_NICE` | to reserve CPU time, so that a saturated machine is profiled, too |
//! | host PID namespace | in a container: `docker run --pid=host` or `hostPID: true`; there are no user stacks without it |
//! | kernel lockdown | none or `integrity`, not `confidentiality` |
//! | Rust | 1.88; no BPF toolchain: the compiled object is included |
//! <!-- /needs -->
//!
//! [`live::requirements`] checks the running machine against this list.
//!
//! # Cost
//!
//! <!-- cost -->
//! Measured on a virtual machine with two CPUs and kernel 6.18, both sides of a row in alternation; compare ratios rather than
//! times. The first word of the last column names the benchmark: `cargo bench -p benches --bench NAME`, as root.
//!
//! | measurement | ours | compared with | benchmark and baseline |
//! | --- | --- | --- | --- |
//! | one sample in the kernel, 10 frames | 1.1 µs | 1.5 µs | `kernel_side`: the kernel's own frame-pointer walk of the same program |
//! | 120 frames | 2.8 µs | 5.1 µs | |
//! | 100 frames of Python 3.11 | 7.7 µs | 0.7 µs | `languages`: the same program's native frames alone |
//! | 100 frames of Java 17, compiled | 5.5 µs | 25 µs | `languages --peer`: the OpenTelemetry profiler (b442421) on the same thread |
//! | CPU time of 30 s at 97 Hz, two busy threads, with names | 0.09 s | 0.16 s | `whole_profiler`: `perf record -g`, without names |
//! | peak memory, with names | 16 MiB | | `whole_profiler` |
//! | program start to the first sample | 66 ms | | `whole_profiler`, both CPUs busy |
//! | a switch between threads that is not sampled | 92 ns | 145 ns | `events`: a script of bpftrace with a threshold; time in eBPF programs |
//! <!-- /cost -->
//!
//! [`manual::cost`] has all rows: further languages and events, naming, memory, large machines.
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `live` | yes | [`Profiler`], which loads the kernel side and follows the processes of the running machine |
//! | `symbolize` | yes | lines and inlined functions from DWARF; demangled Rust and C++ |
//!
//! Without features the crate has the types, the traits, the pipeline, replay and sinks, and needs no privileges.
//!
//! # Modules, in the order in which a sample passes them
//!
//! | module | contents |
//! | --- | --- |
//! | [`elf`] | ELF files, read piece by piece. Seam: [`ReadAt`](elf::ReadAt) |
//! | [`process`] | files that processes map. Seam: [`Opener`](process::Opener) |
//! | [`unwind`] | the compiler of unwind tables. Seam: [`UnwindCompiler`](unwind::UnwindCompiler) |
//! | [`language`] | functions of scripts. Seam: [`Language`](language::Language) |
//! | [`trace`] | stacks, and the kernel side's walkers on the host. Seam: [`Stack`](trace::Stack) |
//! | [`symbol`] | names for frames. Seam: [`Symbolizer`](symbol::Symbolizer) |
//! | [`profile`] | a finished profile, and the tree that flame graphs draw |
//! | [`label`] | labels of this program's own work, also across `.await`, without feature `live` |
//! | [`sink`] | flame graph, SVG, folded text, Firefox Profiler, speedscope, table. Seams: [`Sink`], [`Format`](sink::Format) |
//! | [`replay`] | recordings |
//! | [`live`] | the profiler of the running machine |
//! | [`stats`] | counters of a profiler's stages |
//! | [`manual`] | pages on the profiler as a whole |
//! | [`testing`] | profiles from text, and the conformance test of languages |
//!
//! The parts in between, from the kernel's ring buffer to a profile, are private.
//!
//! A seam is a trait with few methods. Closures implement those with one method, such as [`Sink`].
//!
//! # Errors and losses
//!
//! Failure to start is an error. Failure of one stack is data.
//!
//! | failure | reported by |
//! | --- | --- |
//! | the profiler can't start | [`StartError`], with a remedy |
//! | the event stream breaks | [`StopError`](live::StopError) from the next call |
//! | a stack is truncated | [`Stop`](trace::Stop) in its trace, and a frame in every flame graph |
//! | the ring buffer is full | [`Profile::losses`](profile::Profile::losses), [`Health::lost`](live::Health::lost) |
//! | a record cannot be decoded | [`PipelineStats::malformed`](stats::PipelineStats::malformed) |
//! | a file has no usable unwind data | [`RegistryStats::without_table`](stats::RegistryStats::without_table), by reason |
//! | a script's function cannot be named | the frame shows the reason; [`InterpreterStats`](language::InterpreterStats) |
//! | an address has no symbol | the frame shows file and offset; [`SymbolStats`](symbol::SymbolStats) |
//! | a sink fails | [`Health::sink_errors`](live::Health::sink_errors); sampling goes on |
//! | the disk of a recording is full | [`Health::recording`](live::Health::recording); sampling goes on |
//!
//! The kernel side counts every sample by its outcome ([`Counter`]). [`Profile::summary`] prints the totals in one line:
//!
//! ```
//! let profile = ebpf_profiler_core::testing::profile("cat;main;read_[k] 3\ncat;[truncated: stack not readable];f 1");
//! assert_eq!(profile.summary().to_string(), "4 samples in 1.0 s, 75.0 % of the stacks whole, none lost");
//! ```
//!
//! # Security
//!
//! The profiler is privileged and reads programs that may be malicious. Stacks, names, mappings, mapped files and recordings
//! are untrusted input: lengths are validated before use; counts, depths, memory and work are bounded; input beyond a bound
//! becomes a counted reason, never a panic. Files of other processes are read, not mapped, so a file that shrinks causes an
//! error and not a signal. Unsafe code is denied outside the modules that talk to the kernel. Parsers have fuzz targets.
//! A program can still forge its own stack, and a profile shows its readers the activity of all users.
//!
//! [`Limits`] bound the memory that other programs can cause: [`manual::security`] lists the bounds, the privileges and the trust.
//!
//! # Minimum kernel version
//!
//! 5.10 for [`live`]; none for everything else.
//!
//! [`Counter`]: ebpf_programs::abi::reason::Counter
//! [`Profile::summary`]: profile::Profile::summary
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod sample;

mod tables;

pub mod elf;

mod go;

mod x86_64;

pub mod process;

pub mod unwind;

pub mod language;

mod jit;

pub mod trace;

mod registry;

pub mod symbol;

pub mod profile;

pub mod label;

mod files;

pub mod sink;

mod pipeline;

pub mod replay;

#[cfg(feature = "live")]
pub mod live;

pub mod stats;

pub mod manual;

#[cfg(feature = "live")]
pub use live::{Builder, Filter, Health, Profiler, StartError, Trigger};
pub use profile::{Profile, Sample};
pub use registry::Limits;
pub use sink::Sink;

pub mod testing;

#[doc(hidden)]
pub mod internal;

mod text;
