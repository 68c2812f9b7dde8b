//! BEAM, the virtual machine of Erlang and Elixir: OTP 25 to 29 with the compiler (JIT) on x86_64.
//!
//! ```text
//!   address ──► table of modules ──► header ──► functions ──► ErtsCodeInfo: module, function, arity ──► atoms
//!                                      └──────► line table: address ──► file, line
//! ```
//!
//! All code of modules is compiled when they are loaded. The stack of an Erlang process, down to
//! the function with which it was spawned, is shown on top of the native stack of the scheduler's
//! thread, and the functions in C that it calls on top of it:
//!
//! ```text
//!   …;sched_thread_func;process_main… | shapes:server/1;lists:map/2;shapes:'-server/1-fun-0-'/1;shapes:area/1 | binary_to_term_1
//! ```
//!
//! # Names
//!
//! | function | name |
//! |---|---|
//! | Erlang | `lists:map/2` |
//! | Elixir | `Enum.map/2` |
//! | anonymous, Elixir | `anonymous fn/1 in Shapes.area/1` |
//! | code that all modules share | `[beam fragment]` |
//!
//! # Finding a process's structures
//!
//! A stripped `beam.smp` exports the interface for functions in C; newer builds export nothing
//! else. Two of these functions show where the table of atoms is, and how a thread gets its
//! scheduler. Everything else is read from the process, and compared:
//!
//! | fact | source |
//! |---|---|
//! | table of modules | three equal structures in the file's data, which lead to sorted modules |
//! | functions in a module's header | the one offset that fits three modules |
//! | active table, saved stack pointer, frame of `process_main` | the code of `process_main`, which is generated at start |
//! | caller of `process_main` | the return address behind the first scheduler's registers |
//!
//! # Identity
//!
//! A module that is loaded again may lie where a purged one was. Frames carry a hash of module,
//! function, arity and of the function's first lines, which naming compares.
//!
//! # Limits
//!
//! * Samples at other events than the clock's show native frames in place of Erlang's.
//! * The interpreter (OTP up to 23, other CPUs, `--disable-jit`) isn't supported.
//! * Functions that run on dirty schedulers are shown without the Erlang process that called them.
//! * A function that ends with a call is no longer on the stack, as in Erlang's own stack traces.
//! * A function in C has its native name, `binary_to_term_1`, if the file has a symbol for it.

mod atom;

mod attach;

mod characters;

mod find;

mod lines;

mod main_code;

mod modules;

mod name;

mod text;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};

/// The languages Erlang and Elixir: functions of modules in BEAM, OTP 25 to 29 on x86_64.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::beam::Beam;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Beam.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Beam;

impl Language for Beam {
    fn name(&self) -> &'static str {
        "beam"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    /// None from the start: together with all others, programs at events exceed the number of
    /// instructions that the kernel's verifier follows. The clock's program gets it when a process runs
    /// BEAM.
    fn walkers(&self) -> u32 {
        0
    }
}
