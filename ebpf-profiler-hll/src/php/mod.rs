//! PHP 7.4 to 8.4.
//!
//! The *loop* is `execute_ex`; a *run* is the list of frames that one native call of the loop
//! executes: functions of scripts, and internal functions that are called from them.
//!
//! ```text
//!   executor_globals.current_execute_data ──► zend_execute_data ──prev_execute_data──► …      one list a process
//!     (ZTS: tsrm_get_ls_cache() + executor_globals_offset)                                    one list a thread
//!                                               │ func
//!                                               ▼
//!   zend_function   type 1: internal   function_name, scope
//!                   type 2: function of a script, or code of a file; 4: code of eval
//!                           function_name, scope, filename, line_start, opcodes
//!   zend_op         32 bytes, lineno at 24                                             a frame's position is an address here
//! ```
//!
//! # Frames
//!
//! * The innermost function's line comes from the register of the loop (`r15`), if the loop keeps
//!   the instruction there and the value is one of the function: the frame's own `opline` is saved
//!   only before calls.
//! * An internal function that C code calls, like `strrev` in `array_map('strrev', …)`, doesn't end
//!   a run.
//! * Generators that delegate by `yield from` stand between the running one and its caller, as in
//!   PHP's backtraces.
//! * A fiber has a separate native stack, which ends with the fiber; the functions that resumed it
//!   are not in it.
//! * From 8.4 on calls of some internal functions have no frame (`ZEND_FRAMELESS_ICALL`); only
//!   their native frames are shown.
//! * Code of the JIT runs in the loop's native frame, and is shown as the functions that it
//!   executes. It keeps the current instruction only where it calls: the innermost function has no
//!   line while such code, or a C function that it calls, runs.
//!
//! # Names
//!
//! | code | name | file and line |
//! |---|---|---|
//! | function | `App\render` | yes |
//! | method, static or not; of a trait: with the class that uses it | `App\Page::render` | yes |
//! | closure | `{closure}`, `App\Page::{closure}`; from 8.4 on as PHP names it: `{closure:App\Page::render():12}` | yes |
//! | method of an anonymous class | `class@anonymous::render` | yes |
//! | code of a file outside functions: the main script, an included file | `{main}` | file |
//! | code of `eval` | `{eval}` | as PHP names it: `page.php(3) : eval()'d code` |
//! | internal function, which is written in C | `usort`, `ArrayIterator::next` | none |
//!
//! An internal function stands beside the native frames of its C function (`zif_usort`), which the
//! walk shows too.
//!
//! # Reuse of addresses
//!
//! A closure's function is part of the closure object, and the memory of a request is reused by the
//! next one. Frames carry a hash of the function: the numbers of its variables, temporaries and
//! instructions, the address of its class, the hashes of its name and file, its first and last
//! line; for an internal function, its C function and module; for instructions in opcache's memory,
//! their address in place of what is in the source. So a later function at the same address is
//! another one. Names are read after the sample: the memory of a function that was freed meanwhile
//! is named while it holds the same words. A process that was forked from the same one has the
//! function elsewhere, but with the same hash: its name is that of both, also for samples that were
//! taken before.
//!
//! Structures: [zend_compile.h of 8.3](https://github.com/php/php-src/blob/php-8.3.0/Zend/zend_compile.h).

mod attach;

mod find;

mod jit;

mod lines;

mod name;

mod offsets;

mod stripped;

mod text;

mod version;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language PHP: functions of PHP 7.4 to 8.4, built for threads (ZTS) or not, interpreted and
/// JIT-compiled.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::php::Php;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Php.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Php;

impl Language for Php {
    fn name(&self) -> &'static str {
        "php"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    fn walkers(&self) -> u32 {
        1 << walker::PHP
    }
}
