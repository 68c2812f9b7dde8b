//! High-level languages for ebpf-profiler: names the functions of scripts in the stacks of the programs that run them.
//!
//! Begin with [`ebpf-profiler-core`](ebpf_profiler_core), the profiler; its builder takes the languages of this crate:
//! `.languages(ebpf_profiler_hll::all())`.
//!
//! ```toml
//! [dependencies]
//! ebpf-profiler-core = "0.1"
//! ebpf-profiler-unwind = "0.1"
//! ebpf-profiler-hll = "0.1"
//! ```
//!
//! The frames of an interpreter's loop are then replaced by the functions that it runs, with file and line:
//!
//! ```text
//! without   _start;main;Py_RunMain;…;_PyEval_EvalFrameDefault;_PyEval_EvalFrameDefault;long_mul
//! with      _start;main;Py_RunMain;…;<module>;fibonacci;long_mul
//! ```
//!
//! Without a profiler, a language tells if a file holds its runtime:
//!
//! ```
//! use std::fs::File;
//! use ebpf_profiler_core::elf::Elf;
//!
//! # let path = std::env::args().nth(1).unwrap_or("/proc/self/exe".into());
//! let elf = Elf::open(File::open(path)?)?; // /usr/bin/python3
//! for language in ebpf_profiler_hll::all() {
//!     if let Some(runtime) = language.find(&elf) {
//!         println!("{}: {:x?}", language.name(), runtime.loops());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! cpython: [52b0f0..538a4c, 430f05..43455e]
//! ```
//!
//! # Languages
//!
//! | language | versions | found by | frames | names |
//! |---|---|---|---|---|
//! | [CPython](python) | 2.7, 3.6 to 3.14; free-threaded builds | exported symbols or the symbol table, in any file | all threads and generators, in their exact positions | qualified from 3.11 on; file; line of each frame |
//! | [V8](v8) | Node.js 12 to 26 | exported `v8dbg_*` variables and the symbol table, in any file | interpreted, baseline and optimized functions, inlined ones, builtins | as in DevTools; file; line, that of the function unless V8 has optimized it or it threw |
//! | [PHP](php) | 7.4 to 8.4, built for threads (ZTS) or not | exported symbols in any file, or the code of a static program | functions of scripts and internal functions, in their exact positions | with class; file; line of each frame |
//! | [Perl](perl) | 5.32 to 5.42 | exported symbols, in any file | subs, formats and evals, in their exact positions | with package; file; line of each frame |
//! | [HotSpot](hotspot) | 8, 11, 17, 21, 25 to 28 (those between were not run); programs in Java, Kotlin, Scala, Groovy, JRuby | exported symbols, in any file | interpreted, compiled and inlined methods, native wrappers, stubs, in their exact positions | class and method in Java form; file; line of each frame |
//! | [Ruby](ruby) | 2.7 to 3.4 | exported symbols, and the code of the loop | all threads and fibers; methods in C | with the path of the class; file; line of each frame |
//! | [LuaJIT](luajit) | 2.0 and 2.1 on x86_64, interpreter and traces | exported symbols or the symbol table, and unwind rules | functions in Lua and in C, coroutines, several states, in their exact positions | as the caller names them; file; line of each frame |
//! | [.NET](dotnet) | 8.0 to 10.0 on x86_64, self-contained and as a single file; 8.0.15 (without precompiled code), 9.0.1 and 10.0.0 were run | exported `g_dacTable`; layouts by version, each checked in the process | compiled and precompiled (ReadyToRun) methods, in their exact positions; the runtime's native frames | `App.Shop.Cart.Add`, `App.Shop.PayAsync`, `lambda 0_1 in App.Shop.Pay`; no lines |
//! | [BEAM](beam) | OTP 25 to 29 on x86_64, with the JIT; 26 and 28 were not run | exported `enif_` functions; the rest is read from the process | functions of Erlang and Elixir down to the process's first one, then the scheduler's thread | `lists:map/2`, `Enum.map/2`; file; line of each frame |
//!
//! # Labels of threads
//!
//! [`labels()`] are the sources of labels that programs set for the work of their threads:
//!
//! | source | programs | labels |
//! |---|---|---|
//! | [OpenTelemetry](otel) | any that publish thread contexts (`otel_thread_ctx_v1`, OTEP 4947): C, C++, Rust, Java, .NET, Python, Ruby; glibc and musl | `trace_id`, `span_id`, attributes |
//! | [Go](go) | Go 1.17 and later on x86_64; 1.19 to 1.27 were run | those of `runtime/pprof`: `pprof.Do` |
//!
//! # Limits
//!
//! * On arm64 CPython alone is tested, 3.11 on a live process, and what [`all`] returns there. It is implemented for all versions
//!   except 2.7; up to 3.11 a thread shows the first interpreter that it worked for, and in all versions interpreters that
//!   called another one are missing. HotSpot, V8, LuaJIT, .NET and BEAM are not
//!   supported there.
//! * Runtimes that export no symbols and are stripped are not found, except static builds of PHP.
//! * In code of Ruby's YJIT the line of the innermost method may be that of an earlier instruction. In code of
//!   PHP's JIT the innermost function has no line. LuaJIT's traces show the function in which the trace began.
//! * A stack in code that PCRE compiles for regular expressions is cut if PCRE runs it on a separate stack
//!   (`jit_machine_stack_exec`).
//! * HotSpot: in a `libjvm.so` without a symbol table, one marked frame stands for those callers of a virtual thread that are in
//!   the heap.
//! * PyPy, Jython and other implementations of Python are not supported.
//!
//! # Stages of naming
//!
//! ```text
//!   find ──────► offsets ──────► attach ────────► name ─────────► lines
//!   recognize    of fields       path to the      of a function   of its positions
//!   the file                     innermost frame
//!   once a file  once a file     once a process   once a function once a function
//! ```
//!
//! There is one folder per language, with `find` and `name` in each. Most have `attach`; offsets, line tables, text and JIT compilers have
//! files of their own where they take more than a few lines. Shared modules are beside them: `accessor` reads from the
//! machine code of an accessor function where a thread's state is stored, `thread_local` turns that into a path through
//! memory (keys of glibc and musl, thread-local variables of all models), `split` finds cold parts of a function, `fde` reads the
//! ranges of functions, `c_text` text that ends with a zero byte.
//!
//! # Other languages
//!
//! A language whose frames are a linked list, an array, or those of compiled code with frame pointers needs no code in the kernel:
//! implement [`Language`], which [describes](ebpf_profiler_core::language::FrameWalker) in numbers where they begin and how they
//! are laid out. Requirements of other runtimes:
//!
//! | runtime | frames | possible today | missing |
//! |---|---|---|---|
//! | Go | native frames, named by `ebpf-profiler-unwind`'s table | all; labels of goroutines by [`labels()`] | |
//!
//! "Naming by address" is what a [`Symbolizer`](ebpf_profiler_core::symbol::Symbolizer) does for files; for code that
//! is generated at run time the process would be a further argument.
//!
//! # Requirements
//!
//! Permission to read the memory of the processes, which the profiler has. glibc or musl as their C library.
//!
//! # Cost
//!
//! | operation | CPU time | for comparison |
//! |---|---|---|
//! | first frame of a function: four reads, 800 bytes | 9 to 11 µs | 7 µs for the same reads alone; 26 to 37 µs per frame in `py-spy dump` |
//! | further frame on another line | 0.2 µs | |
//! | further frame on the same line | 0.05 to 0.2 µs | 20 µs per frame in each sample of `py-spy record` |
//! | attaching to a process: 2 to 40 reads | 0.05 to 0.15 ms | |
//! | a file that holds a runtime, once | 0.1 to 0.6 ms; 2.2 ms for a stripped 2.7 | |
//!
//! CPython 2.7 to 3.14, by `cargo bench -p benches --bench naming`. py-spy's figures include its reading of the frame. A file
//! without a runtime costs 3.5 µs (median of 2,467 files); one with a symbol table is searched for two names, which takes
//! a millisecond for some megabytes of symbols.
//!
//! # Security
//!
//! The memory and the files of profiled processes are untrusted input. Lengths are bounded before memory is allocated,
//! lists have a maximum length, and implausible data yields a [`Reason`](ebpf_profiler_core::language::Reason). Tests and
//! fuzz targets with hostile memory check this. There is no unsafe code.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod python;

pub mod php;

pub mod perl;

pub mod hotspot;

pub mod ruby;

pub mod v8;

pub mod luajit;

pub mod beam;

pub mod dotnet;

pub mod go;

pub mod otel;

mod accessor;

mod thread_local;

mod split;

mod c_text;

mod fde;

use ebpf_profiler_core::language::{LabelSource, Language};

/// Returns all languages of this crate, to be passed to the profiler's builder: `.languages(ebpf_profiler_hll::all())`.
///
/// # Examples
///
/// ```
/// let languages = ebpf_profiler_hll::all();
/// assert!(languages.iter().any(|language| language.name() == "cpython"));
/// ```
pub fn all() -> Vec<Box<dyn Language>> {
    if cfg!(target_arch = "aarch64") {
        // The others have not run there.
        return vec![Box::new(python::Python)];
    }
    vec![
        // The first, as it rejects a file by one look-up, and its own files have long symbol tables for others to search.
        Box::new(v8::V8),
        Box::new(python::Python),
        Box::new(php::Php),
        Box::new(perl::Perl),
        Box::new(hotspot::HotSpot),
        Box::new(ruby::Ruby),
        Box::new(luajit::LuaJit),
        Box::new(beam::Beam),
        Box::new(dotnet::Dotnet),
    ]
}

/// Returns the sources of labels of threads of this crate: the contexts that OpenTelemetry specifies, and the labels of Go.
///
/// They are passed to the profiler's builder: `.process_labels(ebpf_profiler_hll::labels())`.
///
/// # Examples
///
/// ```
/// let labels = ebpf_profiler_hll::labels();
/// let names: Vec<&str> = labels.iter().map(|source| source.name()).collect();
/// assert_eq!(names, ["otel", "go"]);
/// ```
pub fn labels() -> Vec<Box<dyn LabelSource>> {
    vec![Box::new(otel::ThreadContexts), Box::new(go::GoLabels)]
}
