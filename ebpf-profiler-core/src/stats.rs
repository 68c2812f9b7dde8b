//! Counters of a profiler's stages, as fields of [`Health`](crate::live::Health) and
//! [`Replayed`](crate::replay::Replayed).
//!
//! ```text
//!   PipelineStats   samples in profiles, whole, raw, late
//!   └ registry: RegistryStats   tables, mappings, files without a table
//!     └ jit: JitStats   perf maps and jitdump files
//! ```

pub use crate::jit::JitStats;
pub use crate::pipeline::PipelineStats;
pub use crate::registry::RegistryStats;
