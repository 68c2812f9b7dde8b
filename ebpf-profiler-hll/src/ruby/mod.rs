//! Ruby 2.7 to 3.4 (CRuby).
//!
//! The *loop* is `vm_exec_core`; a *run* is the control frames that one native call of the loop
//! executes. Control frames are an array that grows down, one for each thread and fiber.
//!
//! ```text
//!   thread ──thread-local variable──► execution context ──► control frame, caller, …       2.7: over a key
//!
//!   control frame ──► instruction sequence ──► body ──► label, path, line table
//!       └──► environment ──► … ──► method entry ──► owner, original name
//! ```
//!
//! # Names
//!
//! | frame | name | file, line |
//! |---|---|---|
//! | method | `Foo::Bar#baz` | of the source |
//! | singleton method | `Foo.qux` | of the source |
//! | block, `rescue`, `ensure` in a method | `block in Foo::Bar#baz` | of the source |
//! | body of a method that `define_method` defined | `Foo::Bar#baz` | of the block |
//! | script, body of a class, `eval` | `<main>`, `<class:Bar>`, `<top (required)>` | of the source |
//! | method in C | `Array#each` | none |
//! | block in C | its native frames | |
//! | garbage collection | `[garbage collection]`, before its native frames (x86_64) | none |
//!
//! Methods of anonymous classes and of single objects are named without their class: `baz`.
//!
//! # Position of methods in C
//!
//! A method in C that Ruby code calls stands between its caller and its native frames. One that C
//! code calls has a control frame but no loop: it stands beside the next loop toward the root.
//!
//! # Loops that begin or end
//!
//! C code pushes the control frame before it calls the loop, and the loop pops it before it
//! returns. Between the two the innermost frame has no loop: it is recognized by its position,
//! which is that of its first instruction, and stands beside the next loop.
//!
//! # Compiled code
//!
//! Code of YJIT (in C in 3.1, in Rust from 3.2 on) works on the same control frames. All methods of
//! a run share one native frame, by which the walk gets to the loop's caller and which is not
//! shown:
//!
//! ```text
//!   native   rb_vm_exec ◄── compiled code ◄── rb_ary_each ◄── rb_vm_exec ◄── compiled code
//!   shown    rb_vm_exec, its run,             rb_ary_each,    rb_vm_exec, its run
//! ```
//!
//! Code of MJIT (2.6 to 3.2) is a native function of a file that a C compiler made, and shows as
//! such, beside its method.
//!
//! The position of a method that compiled code runs is the one that the code stored last: the call
//! in all frames but the innermost one. There it may lie before the instruction that runs, at the
//! method's first one if none was stored.
//!
//! # Reuse of addresses
//!
//! Frames carry a hash of the size and the address of their instructions, their label, first line
//! and path, which naming compares. In methods it is combined with the address of the method entry,
//! which must lead back to the instructions.
//!
//! # Limits
//!
//! * Methods in C that a fiber begins with (`Enumerator#next`) are not shown: no loop is below
//!   them.
//! * Code in C that runs without the global lock while another thread collects garbage is shown as
//!   garbage collection.
//! * Ruby 3.0 is not tested.
//! * Methods in C for which compiled code pushes no control frame are their native frames alone.
//! * YJIT is tested in 3.1 and 3.3, MJIT in 2.7 and 3.1. RJIT, whose frame is the same as YJIT's,
//!   is not tested.
//! * A runtime that exports no symbols is not found.
//!
//! Structures: [vm_core.h of 3.3](https://github.com/ruby/ruby/blob/v3_3_0/vm_core.h).

mod attach;

mod class;

mod collection;

mod find;

mod lines;

mod name;

mod offsets;

mod object;

mod symbol;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language Ruby: methods and blocks of CRuby 2.7 to 3.4, interpreted or compiled by YJIT.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::ruby::Ruby;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Ruby.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ruby;

impl Language for Ruby {
    fn name(&self) -> &'static str {
        "ruby"
    }

    fn walkers(&self) -> u32 {
        1 << walker::RUBY
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }
}
