//! Events that were read from the kernel together.

use std::ops::Range;

use ebpf_programs::abi::record::kind;

#[cfg(feature = "live")]
use super::tick::without_stack;
use super::{Life, LifeEvent, Malformed, TickRecord};
use crate::process::Description;

/// Samples and life events that were read together.
#[derive(Debug, Default)]
pub struct Batch {
    words: Vec<u64>,
    ticks: Vec<Range<usize>>,
    life: Vec<LifeEvent>,
    /// Bytes of the paths in the life events.
    paths: usize,
    /// Descriptions of processes that were read with the events.
    descriptions: Vec<(u32, Description)>,
}

/// One event of a batch, in the order of time.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, on the stack; a box would be made for every tick"
)]
pub enum Event<'a> {
    /// A sample, or a malformed record.
    Tick(Result<TickRecord<'a>, Malformed>),
    /// A life event.
    Life(&'a LifeEvent),
}

impl Batch {
    /// Removes all events and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.ticks.clear();
        self.life.clear();
        self.paths = 0;
        self.descriptions.clear();
    }

    /// Reduces all samples that are still to be unwound to their innermost function.
    #[cfg(feature = "live")]
    pub(crate) fn reduce(&mut self) {
        let mut words = Vec::new();
        for range in &mut self.ticks {
            let (record, start) = (&self.words[range.clone()], words.len());
            match without_stack(record) {
                Some(reduced) => words.extend(reduced),
                None => words.extend(record),
            }
            *range = start..words.len();
        }
        self.words = words;
    }

    /// Returns `true` if there are no events.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty() && self.life.is_empty()
    }

    /// Returns the memory of its events in bytes.
    pub fn size(&self) -> usize {
        self.words.len() * 8 + self.life.len() * size_of::<LifeEvent>() + self.paths
    }

    /// Adds one record. Its length is a multiple of eight bytes; a remainder is dropped.
    pub fn push_tick(&mut self, record: &[u8]) {
        let start = self.words.len();
        let (words, _) = record.as_chunks::<8>();
        self.words.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        self.ticks.push(start..self.words.len());
    }

    /// Takes the words of one record of the ring.
    pub(crate) fn push_words(&mut self, record: &[u64]) {
        let start = self.words.len();
        self.words.extend(record);
        self.ticks.push(start..self.words.len());
    }

    /// Returns `true` if a sample is still to be unwound.
    pub fn has_raw(&self) -> bool {
        let kind = |words: &[u64]| words.get(2).map(|word| (word >> 32) as u8);
        self.ticks().any(|words| kind(words).is_some_and(|kind| kind & !kind::HELD == kind::RAW))
    }

    /// Adds a life event.
    pub fn push_life(&mut self, event: LifeEvent) {
        if let Life::Mapped(map) = &event.life {
            self.paths += map.path.len();
        }
        self.life.push(event);
    }

    /// Moves the events after `time` into `later`.
    ///
    /// The buffers are read one after another: what one has of the time of that may depend on what
    /// another one has got since.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn hold_later(&mut self, time: u64, later: &mut Batch) {
        let words = &self.words;
        self.ticks.retain(|range| {
            let is_now = words.get(range.start).is_none_or(|&at| at <= time);
            if !is_now {
                later.push_words(&words[range.clone()]);
            }
            is_now
        });
        let life = self.life.extract_if(.., |event| event.time > time);
        life.for_each(|event| later.push_life(event));
    }

    /// Moves all events of another batch to the end of this one.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn append(&mut self, other: &mut Batch) {
        for range in other.ticks.drain(..) {
            self.push_words(&other.words[range]);
        }
        other.life.drain(..).for_each(|event| self.push_life(event));
        self.descriptions.append(&mut other.descriptions);
        other.clear();
    }

    /// Returns the words of each record.
    pub fn ticks(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.ticks.iter().map(|range| &self.words[range.clone()])
    }

    /// Returns the processes of the ticks, also of malformed ones, in the order of arrival.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.ticks().filter_map(|words| words.get(1).map(|&word| word as u32))
    }

    /// Adds the description of a process.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn push_description(&mut self, pid: u32, description: Description) {
        self.descriptions.push((pid, description));
    }

    /// Takes the newest description of a process.
    pub(crate) fn take_description(&mut self, pid: u32) -> Option<Description> {
        let index = self.descriptions.iter().rposition(|&(described, _)| described == pid)?;
        Some(self.descriptions.remove(index).1)
    }

    /// Returns the life events in the order of arrival.
    pub fn life(&self) -> &[LifeEvent] {
        &self.life
    }

    /// Calls `each` for every event in the order of time; of a life event and a tick with one time
    /// the life event comes first.
    pub fn in_order<'a>(&'a mut self, mut each: impl FnMut(Event<'a>)) {
        // The events of each CPU are sorted, so this merges a few runs.
        self.life.sort_by_key(|event| event.time);
        let words = &self.words;
        self.ticks.sort_by_key(|range| words.get(range.start).copied().unwrap_or(0));
        let mut life = self.life.iter().peekable();
        for range in &self.ticks {
            let tick = TickRecord::decode(&words[range.clone()]);
            let time = tick.map_or(0, |tick| tick.time);
            while let Some(event) = life.next_if(|event| event.time <= time) {
                each(Event::Life(event));
            }
            each(Event::Tick(tick));
        }
        life.for_each(|event| each(Event::Life(event)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_after_a_time_are_in_a_later_batch() {
        let record = |time: u64| {
            let mut record = vec![0u8; 72];
            record[..8].copy_from_slice(&time.to_ne_bytes());
            record
        };
        let (mut batch, mut later) = (Batch::default(), Batch::default());
        for time in [5, 3, 9, 6] {
            batch.push_tick(&record(time));
            batch.push_life(LifeEvent { time, pid: 1, life: Life::Exited });
        }
        let times = |batch: &Batch| -> (Vec<u64>, Vec<u64>) {
            let life = batch.life().iter().map(|event| event.time);
            (batch.ticks().map(|words| words[0]).collect(), life.collect())
        };
        batch.hold_later(5, &mut later);
        assert_eq!(times(&batch), (vec![5, 3], vec![5, 3]));
        assert_eq!(times(&later), (vec![9, 6], vec![9, 6]));
        batch.clear();
        batch.append(&mut later);
        assert_eq!(times(&batch), (vec![9, 6], vec![9, 6]));
        assert!(later.is_empty() && later.size() == 0);
    }

    #[test]
    #[cfg(feature = "live")]
    fn reduced_samples_keep_their_leaf() {
        use crate::sample::Body;
        use crate::testing::FakeTick;
        use crate::trace::Stop;
        use ebpf_programs::abi::record::frame;
        use ebpf_programs::abi::registers::Registers;
        let registers = Registers { pc: 0x1234, ..Registers::default() };
        let mut batch = Batch::default();
        batch.push_tick(
            &FakeTick::raw(1, 7, "cat", &registers, &[9; 1000]).kernel(&[5, 6]).value(2, 30).bytes(),
        );
        batch.push_tick(&FakeTick::walked(2, 7, "cat", &[0x1800]).bytes());
        let before = batch.size();
        batch.reduce();
        assert!(batch.size() < before / 10 && !batch.has_raw());
        let ticks: Vec<_> = batch.ticks().map(|words| TickRecord::decode(words).unwrap()).collect();
        let leaf = |tick: &TickRecord<'_>| match tick.body {
            Body::Walked { leaf, .. } => leaf.to_vec(),
            _ => Vec::new(),
        };
        assert_eq!((leaf(&ticks[0]), ticks[0].stop), (vec![0x1234 | frame::EXACT], Stop::Late));
        assert_eq!((ticks[0].kernel, ticks[0].value, ticks[0].event), (&[5, 6][..], 30, 2));
        assert_eq!((leaf(&ticks[1]), ticks[1].stop), (vec![0x1800], Stop::Root));
    }

    #[test]
    fn events_come_in_the_order_of_time() {
        let mut batch = Batch::default();
        for time in [5u64, 3, 9] {
            let mut record = vec![0u8; 72];
            record[..8].copy_from_slice(&time.to_ne_bytes());
            (record[20], record[23]) = (1, 9);
            batch.push_tick(&record);
        }
        batch.push_life(LifeEvent { time: 4, pid: 1, life: Life::Exited });
        batch.push_life(LifeEvent { time: 3, pid: 1, life: Life::Executed });
        let mut times = Vec::new();
        batch.in_order(|event| {
            times.push(match event {
                Event::Tick(tick) => tick.unwrap().time * 10,
                Event::Life(life) => life.time * 10 + 1,
            });
        });
        assert_eq!(times, [31, 30, 41, 50, 90]);
    }
}
