//! .NET (CoreCLR): .NET 8, 9 and 10 on x86_64, as a shared framework, self-contained, and as a single file.
//!
//! ```text
//!   address ──► range of code ─┬─ compiled while the program runs: header ──► method ─┐
//!                              └─ precompiled (ReadyToRun): entry point ──► method ───┴─► metadata of its assembly
//! ```
//!
//! Both kinds of code are unwound exactly, by the unwind codes that the runtime has for each method:
//! in the prologue, in methods without a frame pointer, and at their ends. A return address that the
//! runtime has replaced, to stop a thread for the collector, is read from the thread that it belongs to.
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
//! | version | `@(#)Version` in the file; without one, any layout that fits |
//! | map of code ranges | first entry of the exported table for debuggers, `g_dacTable` |
//! | layout of modules | by version; a precompiled image's module must lead to the image, or a method's module to metadata that has it |
//! | data of precompiled code | derived: it leads back to its module, and to a header and unwind entries in the image |
//! | function that replaces return addresses | its instructions, once in the file |
//! | names | metadata of assemblies, in the memory of the process |
//!
//! | .NET | single file or self-contained | run |
//! |---|---|---|
//! | 8 | both | 8.0.15, a trimmed single file without precompiled code |
//! | 9 | both | 9.0.1, 9.0.5, self-contained |
//! | 10 | both | 10.0.0, a single file |
//! | 7 and older, 11 and newer | | refused: version not known |
//!
//! # Identity
//!
//! A method that was freed, with its assembly or as a dynamic method, may be replaced by another one.
//! Frames carry a hash of the header of its code, its descriptor and its module, which naming
//! compares.
//!
//! # Limits
//!
//! * Frames have no lines, and type arguments have no names. Lines would need the debug information of
//!   compiled code, whose form differs between .NET 9, 10 and 11, and a portable PDB, which most
//!   programs are published without.
//! * In a process that has no precompiled image when it is attached to, methods of such images have no
//!   names. Images of several assemblies (composite, in some images of containers) were not run.
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

mod heap;

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

/// The languages of .NET: methods in CoreCLR of .NET 8, 9 and 10 on x86_64.
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
