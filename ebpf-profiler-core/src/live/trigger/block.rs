//! Latency of disks.

use std::time::Duration;

use ebpf_programs::abi::held;

use super::error::AttachError;
use crate::live::kernel::types::KernelTypes;
use crate::profile::{SampleKind, Unit};

/// The trigger of the latency of disks: the time from the issue of a request to its completion, in
/// nanoseconds, with the stack that issued it.
///
/// A request counts when it completes: in the profile at that time, at its whole length. Requests
/// that were issued before the profiler, and those that are not complete at its end, are not
/// counted. Writes through the page cache are issued later by threads of the kernel. A request of a
/// device that is on top of another, such as an encrypted one, counts at both.
///
/// At most 16,384 requests are followed at once; further ones are counted as lost. With a
/// [budget](crate::live::Budget), requests are sampled at random, and count the more.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::BlockLatency};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .on(BlockLatency::longer_than(Duration::from_millis(1)))
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// let profile = profiler.run_for(Duration::from_secs(10))?;
/// println!("{:?} in {} slow requests", Duration::from_nanos(profile.total()), profile.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("biolatency", "block_rq_issue", "iostat"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLatency {
    pub(super) threshold: Duration,
}

impl BlockLatency {
    /// Samples requests that take at least `threshold`. Shorter ones are dropped, so totals do not
    /// contain them.
    pub fn longer_than(threshold: Duration) -> BlockLatency {
        BlockLatency { threshold }
    }

    pub(super) fn kind() -> SampleKind {
        SampleKind::new("block-latency", Unit::Nanoseconds)
    }

    /// Returns the bytes of the settings, as the kernel's map has them.
    pub(super) fn settings(&self, event: u16) -> Result<Vec<u8>, AttachError> {
        let mut types = KernelTypes::of_this_kernel()
            .map_err(|error| AttachError::unreadable("the kernel's type information", error))?;
        let mut offset = |name, path| {
            types
                .offset(name, path)
                .ok_or_else(|| AttachError::unsupported(format!("this kernel's {name} has no {path}")))
        };
        let held::Block { event, threshold, request_bio, bio_next, bio_size, reserved, mean } = held::Block {
            event: event.into(),
            threshold: u64::try_from(self.threshold.as_nanos()).unwrap_or(u64::MAX),
            request_bio: offset("request", "bio")?,
            bio_next: offset("bio", "bi_next")?,
            bio_size: offset("bio", "bi_iter.bi_size")?,
            ..held::Block::default()
        };
        let mut bytes = [event, threshold].map(u64::to_ne_bytes).concat();
        bytes.extend([request_bio, bio_next, bio_size, reserved].map(u32::to_ne_bytes).concat());
        bytes.extend(mean.to_ne_bytes());
        Ok(bytes)
    }
}
