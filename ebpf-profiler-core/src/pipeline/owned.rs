//! Samples that are kept beyond their batch.

use ebpf_programs::abi::registers::Registers;

use crate::sample::{Body, CopiedLabels, TickRecord};
use crate::trace::Stop;

/// A sample that owns its record. Not for stacks of which the middle is dropped.
pub(super) struct OwnedTick {
    time: u64,
    ids: [u32; 3],
    event: u16,
    value: u64,
    is_held: bool,
    comm: [u8; 16],
    stop: Stop,
    epoch: u32,
    kernel: Box<[u64]>,
    /// Words and flags of labels.
    labels: (Box<[u64]>, u8),
    body: OwnedBody,
}

enum OwnedBody {
    Walked { leaf: Box<[u64]> },
    Raw(Box<OwnedRaw>),
}

struct OwnedRaw {
    registers: Registers,
    calls: Box<[u64]>,
    stack: Box<[u64]>,
}

impl OwnedTick {
    /// Copies a sample; `None` for the end of one, and for a stack whose middle is dropped.
    pub(super) fn of(tick: &TickRecord<'_>) -> Option<OwnedTick> {
        let body = match tick.body {
            Body::Walked { leaf, omitted: 0, .. } => OwnedBody::Walked { leaf: leaf.into() },
            Body::Raw { registers, calls, stack } => {
                OwnedBody::Raw(Box::new(OwnedRaw { registers, calls: calls.into(), stack: stack.into() }))
            }
            _ => return None,
        };
        let TickRecord {
            time, pid, tid, cpu, comm, event, value, is_held, stop, epoch, kernel, labels, ..
        } = *tick;
        let (ids, kernel) = ([pid, tid, cpu], kernel.into());
        let labels = (labels.words.into(), labels.flags);
        Some(OwnedTick { time, ids, event, value, is_held, comm, stop, epoch, kernel, labels, body })
    }

    pub(super) fn time(&self) -> u64 {
        self.time
    }

    pub(super) fn pid(&self) -> u32 {
        self.ids[0]
    }

    /// Returns the memory of its parts in bytes.
    pub(super) fn size(&self) -> usize {
        let words = match &self.body {
            OwnedBody::Walked { leaf } => leaf.len(),
            OwnedBody::Raw(raw) => raw.calls.len() + raw.stack.len() + size_of::<OwnedRaw>() / 8,
        };
        size_of::<OwnedTick>() + (self.kernel.len() + self.labels.0.len() + words) * 8
    }

    /// Returns the sample as it was.
    pub(super) fn record(&self) -> TickRecord<'_> {
        let [pid, tid, cpu] = self.ids;
        let body = match &self.body {
            OwnedBody::Walked { leaf } => Body::Walked { leaf, root: [&[]; 2], omitted: 0 },
            OwnedBody::Raw(raw) => {
                Body::Raw { registers: raw.registers, calls: &raw.calls, stack: &raw.stack }
            }
        };
        let OwnedTick { time, event, value, is_held, comm, stop, epoch, .. } = *self;
        let (kernel, labels) = (&self.kernel, CopiedLabels { words: &self.labels.0, flags: self.labels.1 });
        TickRecord { time, pid, tid, cpu, comm, event, value, is_held, stop, epoch, kernel, labels, body }
    }
}
