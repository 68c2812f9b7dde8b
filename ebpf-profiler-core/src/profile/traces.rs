//! Distinct traces of a profile.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::{FrameId, StackId, TraceId};
use crate::trace::{Frame, Stop, Trace};

/// All traces of a profile.
///
/// All frames are in one list. Traces that differ only in their stop reason share a range of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Traces {
    items: Vec<StoredTrace>,
    stacks: Stacks,
}

/// A trace: the number of its frames, and its stop reason and gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StoredTrace {
    pub(super) stack: StackId,
    pub(super) stop: Stop,
    pub(super) omitted: u32,
    pub(super) gap: u32,
}

/// Concatenated lists of frames.
#[derive(Clone, Debug, Default)]
struct Stacks {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
}

impl Traces {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    #[inline]
    pub(super) fn get(&self, id: TraceId) -> &StoredTrace {
        &self.items[id.0 as usize]
    }

    pub(super) fn stacks(&self) -> usize {
        self.stacks.ends.len()
    }

    /// Adds a frame to the stack that is not ended yet.
    pub(super) fn push_frame(&mut self, frame: FrameId) {
        self.stacks.frames.push(frame);
    }

    /// Returns the number of frames of the longest stack.
    pub(super) fn longest_stack(&self) -> usize {
        (0..self.stacks()).map(|stack| self.frames(StackId(stack as u32)).len()).max().unwrap_or(0)
    }

    /// Ends a stack, which may equal another one.
    pub(super) fn end_stack(&mut self) {
        self.stacks.ends.push(self.stacks.frames.len());
    }

    /// Adds a trace, which may equal another one.
    pub(super) fn push(&mut self, trace: StoredTrace) {
        self.items.push(trace);
    }

    #[inline]
    pub(super) fn frames(&self, stack: StackId) -> &[FrameId] {
        self.stacks.get(stack.0)
    }
}

impl Stacks {
    #[inline]
    fn get(&self, number: u32) -> &[FrameId] {
        let index = number as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.frames[start..self.ends[index]]
    }

    fn push(&mut self, frames: &[FrameId]) -> u32 {
        self.frames.extend_from_slice(frames);
        self.ends.push(self.frames.len());
        self.ends.len() as u32 - 1
    }
}

/// Interner of traces. A known trace is found without an allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceInterner {
    traces: Traces,
    by_frames: HashTable<(u64, u32)>,
    by_content: HashMap<StoredTrace, TraceId>,
    /// Traces by the hash of their frames before these have numbers.
    by_trace: HashTable<(u64, TraceId)>,
    hasher: DefaultHashBuilder,
    scratch: Vec<FrameId>,
}

impl TraceInterner {
    /// Returns the number of a trace with these numbers of frames.
    pub(super) fn intern(&mut self, trace: &Trace<'_>, frames: impl Iterator<Item = FrameId>) -> TraceId {
        let stack = self.stack(frames);
        let stored = StoredTrace { stack, stop: trace.stop, omitted: trace.omitted, gap: trace.gap };
        let items = &mut self.traces.items;
        *self.by_content.entry(stored).or_insert_with(|| {
            items.push(stored);
            TraceId(items.len() as u32 - 1)
        })
    }

    /// Returns the number of a trace; `None` if it is unknown.
    pub(super) fn find(
        &mut self,
        trace: &Trace<'_>,
        frames: impl Iterator<Item = Option<FrameId>>,
    ) -> Option<TraceId> {
        self.scratch.clear();
        for frame in frames {
            self.scratch.push(frame?);
        }
        let stack = StackId(self.known_stack(self.hasher.hash_one(&self.scratch[..]))?);
        let stored = StoredTrace { stack, stop: trace.stop, omitted: trace.omitted, gap: trace.gap };
        self.by_content.get(&stored).copied()
    }

    /// Returns the hash of a trace.
    pub(super) fn hash(&self, trace: &Trace<'_>) -> u64 {
        self.hasher.hash_one((&trace.frames[..], trace.stop, trace.omitted, trace.gap))
    }

    /// Returns the number of a trace with this hash that was noted; `None` if there is none.
    /// `items` are the frames by their numbers.
    pub(super) fn noted(&self, hash: u64, trace: &Trace<'_>, items: &[Frame]) -> Option<TraceId> {
        let is_it = |&(known, id): &(u64, TraceId)| {
            let (stored, frames) = self.get(id);
            known == hash
                && (stored.stop, stored.omitted, stored.gap) == (trace.stop, trace.omitted, trace.gap)
                && frames.len() == trace.frames.len()
                && frames.iter().zip(trace.frames.iter()).all(|(id, frame)| items[id.0 as usize] == *frame)
        };
        self.by_trace.find(hash, is_it).map(|&(_, id)| id)
    }

    /// Notes the number of a trace with this hash: the next time it is found without a look-up of
    /// each frame.
    pub(super) fn note(&mut self, hash: u64, id: TraceId) {
        // Noted already if its frames got other names since.
        if self.by_trace.find(hash, |&noted| noted == (hash, id)).is_none() {
            self.by_trace.insert_unique(hash, (hash, id), |&(hash, _)| hash);
        }
    }

    /// Returns the number of frames of all different stacks.
    pub(super) fn frame_count(&self) -> usize {
        self.traces.stacks.frames.len()
    }

    /// Returns a trace and its frames.
    pub(super) fn get(&self, id: TraceId) -> (&StoredTrace, &[FrameId]) {
        let stored = self.traces.get(id);
        (stored, self.traces.frames(stored.stack))
    }

    pub(super) fn finish(self) -> Traces {
        self.traces
    }

    fn stack(&mut self, frames: impl Iterator<Item = FrameId>) -> StackId {
        self.scratch.clear();
        self.scratch.extend(frames);
        let hash = self.hasher.hash_one(&self.scratch[..]);
        StackId(self.known_stack(hash).unwrap_or_else(|| {
            let number = self.traces.stacks.push(&self.scratch);
            self.by_frames.insert_unique(hash, (hash, number), |&(hash, _)| hash);
            number
        }))
    }

    /// Returns the number of the stack of the frames in `scratch`, whose hash is `hash`.
    fn known_stack(&self, hash: u64) -> Option<u32> {
        let TraceInterner { traces, by_frames, scratch, .. } = self;
        let same = |&(known, number): &(u64, u32)| known == hash && traces.stacks.get(number) == &scratch[..];
        by_frames.find(hash, same).map(|&(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(stop: Stop, omitted: u32) -> Trace<'static> {
        Trace { frames: [].as_slice().into(), stop, omitted, gap: 0 }
    }

    #[test]
    fn noted_traces_are_found_by_their_frames() {
        let mut interner = TraceInterner::default();
        let frames = [1, 2].map(|address| Frame::Kernel { address });
        let ids = [FrameId(0), FrameId(1)];
        let root = Trace::new(&frames[..], Stop::Root);
        let id = interner.intern(&root, ids.into_iter());
        let hash = interner.hash(&root);
        assert_eq!(interner.noted(hash, &root, &frames), None);
        for _ in 0..3 {
            interner.note(hash, id);
        }
        assert_eq!((interner.noted(hash, &root, &frames), interner.by_trace.len()), (Some(id), 1));
        // Traces with the same hash.
        for other in [Trace::new(&frames[..1], Stop::Root), Trace::new(&frames[..], Stop::TooDeep)] {
            assert_eq!(interner.noted(hash, &other, &frames), None);
        }
        let renamed = [frames[0], Frame::Kernel { address: 3 }];
        assert_eq!(interner.noted(hash, &root, &renamed), None);
    }

    #[test]
    fn traces_that_differ_in_their_end_share_their_frames() {
        let mut interner = TraceInterner::default();
        let ab = [FrameId(0), FrameId(1)];
        let root = interner.intern(&trace(Stop::Root, 0), ab.into_iter());
        let deep = interner.intern(&trace(Stop::TooDeep, 3), ab.into_iter());
        let other = interner.intern(&trace(Stop::Root, 0), ab.into_iter().rev());
        let empty = interner.intern(&trace(Stop::Root, 0), [].into_iter());
        assert_eq!([root, deep, other, empty], [0, 1, 2, 3].map(TraceId));
        assert_eq!(interner.intern(&trace(Stop::TooDeep, 3), ab.into_iter()), deep);

        let traces = interner.finish();
        assert_eq!((traces.len(), traces.stacks()), (4, 3));
        assert_eq!(traces.get(root).stack, traces.get(deep).stack);
        assert_eq!(traces.frames(traces.get(deep).stack), ab);
        assert_eq!(traces.frames(traces.get(other).stack), [FrameId(1), FrameId(0)]);
        assert_eq!(traces.frames(traces.get(empty).stack), []);
    }
}
