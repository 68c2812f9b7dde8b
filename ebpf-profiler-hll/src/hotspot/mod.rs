//! HotSpot, the Java virtual machine of OpenJDK 8 and later: Java, Scala, Kotlin and what else runs
//! on it.
//!
//! Frames of Java methods are on the native stack, in memory that the runtime owns: the *code
//! heaps*. The kernel side walks them by the code blob that an address lies in, or, in the
//! interpreter, by the frame pointer.
//!
//! ```text
//!   gHotSpotVMStructs, …Types, …IntConstants ──► offsets, code heaps, interpreter     once a process
//!
//!   frame ──┬─ interpreted: Method, bytecode index ──────────────► class and method, line
//!           ├─ compiled:    code blob, position ──► PcDesc, scopes ► the same for each inlined method
//!           └─ stub:        address ──────────────────────────────► name of the stub routine, or of its blob
//! ```
//!
//! # Names
//!
//! | method | name |
//! |---|---|
//! | of a class | `java.util.HashMap.getNode` |
//! | of the class of a lambda, whose number differs between runs | `Chain$$Lambda.run` |
//! | of a hidden class, whose address differs between runs | `java.lang.invoke.LambdaForm$MH.invoke` |
//! | constructor, class initializer | `java.lang.String.<init>`, `java.lang.String.<clinit>` |
//!
//! # Reuse of addresses
//!
//! A frame carries the address of the method's `ConstMethod`, or the number of the compilation. If
//! the address holds another one when it is named, it gets no name.
//!
//! # Versions
//!
//! Offsets come from the tables of the process, not from its version.
//!
//! | OpenJDK | state |
//! |---|---|
//! | 8 (8u504), 26, 27 of Debian; 11, 17, 21, 25 of Temurin | run: known chains, interpreted and compiled |
//! | 28 (early access) of Debian | run: some of the chains with default options |
//! | 9, 10, 12 to 16, 18 to 20, 22 | not run; attached to if their tables have rows of the same names |
//! | 23, 24 | not run; the location of the methods that scopes name is another one, which only a unit test with made-up tables has |
//! | 7 and older | refused: their methods are objects in the heap |
//! | OpenJ9, Zing | not found: they have no such tables |
//!
//! # Limits
//!
//! * x86_64 only.
//! * Java 28 with `--enable-preview`: frames of methods that take value objects as several
//!   arguments are not tested.
//! * Compiled code describes calls and safepoints only, so its innermost frame has the line of the
//!   next one. A loop of an inlined method without a safepoint, as Serial and Parallel GC have
//!   them, shows as the method that it is inlined into. With `-XX:+UnlockDiagnosticVMOptions
//!   -XX:+DebugNonSafepoints` both are exact.
//! * The callers of a virtual thread that was unmounted stay in the heap until they are returned
//!   to. They are found by variables of the symbol table; in a `libjvm.so` without one, a frame
//!   that is marked as not readable stands for them.
//!
//! Published structures: [vmStructs.cpp of 21](https://github.com/openjdk/jdk/blob/jdk-21+35/src/hotspot/share/runtime/vmStructs.cpp).
//! Frames: [frame_x86.hpp](https://github.com/openjdk/jdk/blob/jdk-21+35/src/hotspot/cpu/x86/frame_x86.hpp).

mod attach;

mod code;

mod compressed;

mod find;

mod heap;

mod layout;

mod method;

mod name;

mod stub;

mod tables;

mod virtual_thread;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};
use ebpf_programs::abi::interpreter::walker;

/// The language Java: interpreted, compiled and inlined methods of HotSpot, the JVM of OpenJDK 8 to
/// 28.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::Language;
/// use ebpf_profiler_hll::hotspot::HotSpot;
///
/// let own = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(HotSpot.find(&own).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HotSpot;

impl Language for HotSpot {
    fn name(&self) -> &'static str {
        "jvm"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }

    fn walkers(&self) -> u32 {
        1 << walker::HOTSPOT
    }
}
