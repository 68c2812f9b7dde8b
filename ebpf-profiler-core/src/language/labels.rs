//! Labels that programs set for the work of their threads.

use ebpf_programs::abi::labels::{self, HOPS, layout};

use super::{Reason, Target};
use crate::elf::Elf;

/// A way in which programs set labels for the work of their threads: recognizes the files that have
/// it.
///
/// The kernel side reads the labels of a sample while its thread is interrupted.
/// `ebpf_profiler_hll::labels()` are the sources that exist.
///
/// # Examples
///
/// Threads of a program whose variable `current_labels`, at a known distance from the thread
/// pointer, has the address of a slice of pairs:
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::{LabelLayout, LabelPath, LabelRuntime, LabelSource, Reason, Target};
///
/// struct Own;
///
/// impl LabelSource for Own {
///     fn name(&self) -> &'static str {
///         "own"
///     }
///     fn find(&self, elf: &Elf) -> Option<Box<dyn LabelRuntime>> {
///         elf.exports()?.get("current_labels")?;
///         Some(Box::new(Own))
///     }
/// }
///
/// impl LabelRuntime for Own {
///     fn attach(&self, _: &Target<'_>) -> Result<LabelPath, Reason> {
///         LabelPath::from_thread_pointer(&[-16], LabelLayout::Slice).ok_or(Reason::Unsupported)
///     }
/// }
///
/// let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(Own.find(&elf).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LabelSource: Send + Sync {
    /// Returns a name for counters.
    fn name(&self) -> &'static str;

    /// Returns what finds the labels of threads in processes with this file; `None` if its code sets
    /// none.
    ///
    /// Called once per executable file. Reject other files with as few reads as possible.
    fn find(&self, elf: &Elf) -> Option<Box<dyn LabelRuntime>>;
}

/// Finds the labels of threads in the processes that have a file mapped.
pub trait LabelRuntime: Send + Sync {
    /// Returns the path to the labels of the threads of a process.
    ///
    /// # Errors
    ///
    /// After [`Reason::Unsupported`] the process has no labels; after all other reasons this is
    /// retried for about 8 s.
    fn attach(&self, target: &Target<'_>) -> Result<LabelPath, Reason>;
}

/// The path from a thread to its set of labels: `[[[thread pointer + offsets[0]] + offsets[1]] +
/// …]`.
///
/// A dereference that returns 0 ends the path: the thread has no labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelPath(labels::LabelPath);

/// The layout of a set of labels in memory: what the path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelLayout {
    /// `{address, length, capacity}` of an array of pairs: address and length of the key, address
    /// and length of the value, eight bytes each. Go from 1.24 on. The first 8 are taken.
    Slice,
    /// A hash map of strings of Go up to 1.23, with at most 16 pairs.
    GoMap,
    /// A thread context of OpenTelemetry ([OTEP 4947]): trace id, span id and attributes, whose keys are
    /// in the context that the process has published. Without one there are no labels.
    ///
    /// [OTEP 4947]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md
    ThreadContext,
}

impl LabelPath {
    /// Path from the thread pointer (the base of `fs` on x86_64) to a set in a layout. `None` if there
    /// are no offsets, or more than 7.
    pub fn from_thread_pointer(offsets: &[i64], layout: LabelLayout) -> Option<LabelPath> {
        if offsets.is_empty() || offsets.len() > HOPS {
            return None;
        }
        let mut path = labels::LabelPath { hops: offsets.len() as u32, ..labels::LabelPath::default() };
        path.offsets[..offsets.len()].copy_from_slice(offsets);
        path.layout = match layout {
            LabelLayout::Slice => layout::SLICE,
            LabelLayout::GoMap => layout::MAP,
            LabelLayout::ThreadContext => layout::CONTEXT,
        };
        Some(LabelPath(path))
    }

    /// Adds the addresses of the constants of the program: `size` bytes of the file whose
    /// [`LabelRuntime`] returns this path, as they are mapped in the process. The process must not be
    /// able to write them.
    ///
    /// A text among them is read from the file once, instead of from the process at each sample.
    #[must_use = "returns the changed path"]
    pub fn with_constants(mut self, address: u64, size: u64) -> LabelPath {
        (self.0.constants, self.0.constants_size) = (address, size);
        self
    }

    /// Returns `true` if it leads to contexts of threads.
    pub(crate) fn is_of_contexts(&self) -> bool {
        self.0.layout == layout::CONTEXT
    }

    /// Returns the path as the kernel side reads it.
    #[doc(hidden)]
    pub fn abi(&self) -> &labels::LabelPath {
        &self.0
    }
}
