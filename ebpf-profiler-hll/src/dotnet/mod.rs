//! .NET (CoreCLR): .NET 9 and 10 on x86_64, as a shared framework, self-contained, and as a single file.
//!
//! ```text
//!   address ──► range of code ─┬─ compiled while the program runs: header ──► method ─┐
//!                              └─ precompiled (ReadyToRun): entry point ──► method ───┴─► metadata of its assembly
//! ```
//!
//! Both kinds of code are unwound exactly, by the unwind codes that the runtime has for each method:
//! in the prologue, in methods without a frame pointer, and at their ends.
//!
//! # Names
//!
//! | method | name |
//! |---|---|
//! | of a type | `System.Collections.Generic.List`1.Add` |
//! | of a type in a type | `App.Shop.Cart.Add` |
//! | asynchronous, or an iterator | `App.Shop.PayAsync` |
//! | lambda | `lambda 0_1 in App.Shop.Pay` |
//! | local function | `Round in App.Shop.Pay` |
//! | generated at run time | its own name, `IL_STUB_PInvoke` |
//! | code that the runtime generates for calls | `[.NET stub]` |
//!
//! # Finding a process's structures
//!
//! | fact | source |
//! |---|---|
//! | map of code ranges | first entry of the exported table for debuggers, `g_dacTable` |
//! | layout of modules | that of .NET 9 or 10: the one by which a precompiled image leads to its own address |
//! | names | metadata of assemblies, in the memory of the process |
//!
//! # Identity
//!
//! A method that was freed, with its assembly or as a dynamic method, may be replaced by another one.
//! Frames carry a hash of the header of its code, its descriptor and its module, which naming
//! compares.
//!
//! # Limits
//!
//! * Frames have no lines, and type arguments have no names.
//! * With `DOTNET_ReadyToRun=0`, which disables precompiled code, no method is shown: the layout is
//!   found by a precompiled image.
//! * Methods of assemblies that the program generates (`AssemblyBuilder`) have no names, as their
//!   metadata isn't kept in the form of files. Dynamic methods have theirs.
//! * A method that was inlined into its caller isn't shown.
//! * A handler of exceptions is shown as its method; the runtime's frames between a `catch` block and
//!   the code that threw the exception are left out. In precompiled code of .NET 10 they are shown, and
//!   the method twice.
//! * Other versions, other CPUs, and NativeAOT aren't supported.
//! * Samples at other events than the clock's show native frames in place of .NET's.

mod attach;

mod find;

mod image;

mod layout;

mod metadata;

mod method;

mod name;

mod precompiled;

mod sections;

mod text;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};

/// The languages of .NET: methods in CoreCLR of .NET 9 and 10 on x86_64.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::dotnet::Dotnet;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Dotnet.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Dotnet;

impl Language for Dotnet {
    fn name(&self) -> &'static str {
        "dotnet"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    /// None from the start: together with all others, programs at events exceed the number of
    /// instructions that the kernel's verifier follows. The clock's program gets it when a process
    /// runs .NET.
    fn walkers(&self) -> u32 {
        0
    }
}
