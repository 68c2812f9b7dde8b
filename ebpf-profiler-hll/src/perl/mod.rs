//! Perl 5.32 to 5.42, with threads and without.
//!
//! The *loop* is `Perl_runops_standard`, with a debugger `Perl_runops_debug`; a *run* is the list
//! of subs and evals that one native call of the loop executes.
//!
//! ```text
//!   thread ──PL_thr_key──► interpreter ──► curstackinfo ──► contexts, an array ──prev──► contexts ──► …
//!                               └────────► curcop: the statement
//!   without threads: variables PL_curstackinfo, PL_curcop
//!
//!   context of a sub ──► CV ──► GV or name, stash, file
//! ```
//!
//! # Names
//!
//! | code | name | file and line |
//! |---|---|---|
//! | sub, format | `Package::name` | yes |
//! | anonymous sub | `Package::__ANON__` | yes |
//! | `eval`, `require`, `use` | `(eval)`, as `caller` names it | yes |
//! | code of the program outside subs | `{main}` | yes |
//!
//! Subs in C (XS) have no context: their native frames are shown. The line is that of the current
//! statement; a sub that is being entered has none yet.
//!
//! # Reuse of addresses
//!
//! A new sub can reuse the memory of one that was freed. Frames carry a hash of its body, its file,
//! and the number of its first statement, which Perl counts up while it compiles; those of code
//! outside of subs the first 96 bytes of the path.
//!
//! # Limits
//!
//! * `eval` in code that C called (`sort { eval … }`) begins another loop, which lasts until that
//!   code returns. The subs of both loops stand in the inner one.
//! * The block of `sort { … }` is code of the sub around it: while it calls a regular expression
//!   that calls a sub, its loop is shown as a native frame.
//!
//! Structures: [cop.h of 5.36](https://github.com/Perl/perl5/blob/v5.36.0/cop.h),
//! [intrpvar.h](https://github.com/Perl/perl5/blob/v5.36.0/intrpvar.h).

mod attach;

mod find;

mod name;

mod operations;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language Perl: subs of Perl 5.32 to 5.42, built with threads or without.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::perl::Perl;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Perl.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Perl;

impl Language for Perl {
    fn name(&self) -> &'static str {
        "perl"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    fn walkers(&self) -> u32 {
        1 << walker::PERL
    }
}
