//! OpenTelemetry: the contexts that programs publish for their threads.
//!
//! ```text
//!   thread pointer ──► otel_thread_ctx_v1 ──► trace id | span id | valid | flags | size | attributes: key, size, text …
//!                      thread-local pointer;                                                     │
//!                      0: no context        keys that the process has published in its context ──┘
//! ```
//!
//! A program or one of its libraries exports the thread-local variable `otel_thread_ctx_v1`, and publishes a
//! process context whose attribute `threadlocal.schema_version` is `tlsdesc_v1_dev` or `tls_v1`.
//! The distance of the variable from the thread pointer is fixed in an executable; for libraries it is found by the
//! relocations of the file, or of another one that uses the variable: static, by descriptor (TLSDESC), or in the
//! storage of a module.
//!
//! A sample has the ids as labels [`trace_id`](ebpf_profiler_core::profile::Labels::TRACE_ID) and
//! [`span_id`](ebpf_profiler_core::profile::Labels::SPAN_ID), which are a link in OTLP, and the attributes as further ones.
//!
//! Sources: [OTEP 4947](https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md),
//! [ELF handling for thread-local storage](https://www.akkadia.org/drepper/tls.pdf).

mod headers;

mod relocations;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    LabelLayout, LabelPath, LabelRuntime, LabelSource, LoadedFile, Reason, Target,
};

use crate::accessor::Origin;
use crate::thread_local;

/// The thread-local variable.
const VARIABLE: &str = "otel_thread_ctx_v1";

/// The contexts that programs publish for their threads as OpenTelemetry specifies it.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::LabelSource;
/// use ebpf_profiler_hll::otel::ThreadContexts;
///
/// let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert!(ThreadContexts.find(&elf).is_none(), "publishes none");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadContexts;

impl LabelSource for ThreadContexts {
    fn name(&self) -> &'static str {
        "otel"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn LabelRuntime>> {
        let offset = elf.exports()?.get(VARIABLE)?.address;
        let fixed = headers::offset_in_executable(elf, offset).map(|offset| Origin::Static { offset });
        let origin = fixed.or_else(|| relocations::origin(elf, VARIABLE, Some(offset)));
        Some(Box::new(Variable { origin }))
    }
}

/// The variable in a file; `None` if the file itself does not say where a thread has it.
struct Variable {
    origin: Option<Origin>,
}

impl LabelRuntime for Variable {
    fn attach(&self, target: &Target<'_>) -> Result<LabelPath, Reason> {
        let offsets = match self.origin {
            Some(origin) => thread_local::path(origin, target)?,
            None => of_another(target).ok_or(Reason::Unsupported)??,
        };
        LabelPath::from_thread_pointer(&offsets, LabelLayout::ThreadContext).ok_or(Reason::Unsupported)
    }
}

/// Returns the path by a file that uses the variable of another one.
fn of_another(target: &Target<'_>) -> Option<Result<Vec<i64>, Reason>> {
    target.files().iter().take(MAX_FILES).find_map(|file: &LoadedFile| {
        let origin = relocations::origin(&file.open().ok()?, VARIABLE, None)?;
        let files = target.files().to_vec();
        Some(thread_local::path(origin, &Target::new(target.memory(), file.bias, files)))
    })
}

/// Maximum number of files that are searched for a use of the variable.
const MAX_FILES: usize = 256;

#[cfg(test)]
mod tests;
