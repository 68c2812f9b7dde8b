//! Events that were read from the kernel together.

use ebpf_programs::abi::record::kind;
#[cfg(feature = "live")]
use hashbrown::HashMap;

#[cfg(feature = "live")]
use super::tick::without_stack;
use super::{Life, LifeEvent, Malformed, TickRecord};
use crate::process::Description;

/// Samples and life events that were read together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Words of the records. The last piece grows; the others came with other batches.
    pieces: Vec<Vec<u64>>,
    ticks: Vec<Tick>,
    life: Vec<LifeEvent>,
    /// Bytes of the paths in the life events.
    paths: usize,
    /// Descriptions of processes that were read with the events.
    descriptions: Vec<(u32, Description)>,
}

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
struct Tick {
    /// The first word of the record, so that sorting doesn't read the records; 0 if it has none.
    time: u64,
    piece: u32,
    start: u32,
    len: u32,
}

impl Tick {
    /// Adds a record to a piece, which is the one with this number.
    fn add(words: impl IntoIterator<Item = u64>, piece: &mut Vec<u64>, number: usize) -> Tick {
        let start = piece.len();
        piece.extend(words);
        let time = piece.get(start).copied().unwrap_or(0);
        Tick { time, piece: number as u32, start: start as u32, len: (piece.len() - start) as u32 }
    }

    /// Returns its words.
    fn words(self, pieces: &[Vec<u64>]) -> &[u64] {
        &pieces[self.piece as usize][self.start as usize..][..self.len as usize]
    }
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
    /// Removes all events and keeps the memory of one piece.
    pub fn clear(&mut self) {
        self.pieces.truncate(1);
        self.pieces.iter_mut().for_each(Vec::clear);
        self.ticks.clear();
        self.life.clear();
        self.paths = 0;
        self.descriptions.clear();
    }

    /// Reduces samples that are still to be unwound to their innermost function, until the others have at
    /// most `bytes`. Each process keeps its first ones, up to an equal share: one that floods the
    /// profiler loses its own callers.
    #[cfg(feature = "live")]
    pub(crate) fn reduce(&mut self, bytes: usize) {
        let mut left = HashMap::<u32, usize>::new();
        for words in self.ticks().filter(|words| is_raw(words)) {
            *left.entry(pid(words)).or_default() += words.len() * 8;
        }
        let share = equal_share(left.values().copied().collect(), bytes);
        left.values_mut().for_each(|left| *left = share);
        let mut reduced = Vec::new();
        for tick in &mut self.ticks {
            let record = tick.words(&self.pieces);
            let left = left.get_mut(&pid(record)).filter(|_| is_raw(record));
            let is_kept = left.is_none_or(|left| {
                let is_kept = record.len() * 8 <= *left;
                *left = if is_kept { *left - record.len() * 8 } else { 0 };
                is_kept
            });
            *tick = if is_kept {
                Tick::add(record.iter().copied(), &mut reduced, 0)
            } else {
                Tick::add(without_stack(record).unwrap_or_default(), &mut reduced, 0)
            };
        }
        self.pieces = vec![reduced];
    }

    /// Returns `true` if there are no events.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty() && self.life.is_empty()
    }

    /// Returns the memory of its events in bytes.
    pub fn size(&self) -> usize {
        let words: usize = self.pieces.iter().map(Vec::len).sum();
        words * 8 + self.life.len() * size_of::<LifeEvent>() + self.paths
    }

    /// Adds one record. Its length is a multiple of eight bytes; a remainder is dropped.
    pub fn push_tick(&mut self, record: &[u8]) {
        let (words, _) = record.as_chunks::<8>();
        self.push(words.iter().map(|word| u64::from_ne_bytes(*word)));
    }

    /// Takes the words of one record of the ring.
    pub(crate) fn push_words(&mut self, record: &[u64]) {
        self.push(record.iter().copied());
    }

    fn push(&mut self, words: impl IntoIterator<Item = u64>) {
        if self.pieces.last().is_none_or(|last| last.len() >= MAX_PIECE) {
            self.pieces.push(Vec::new());
        }
        let number = self.pieces.len() - 1;
        if let Some(piece) = self.pieces.last_mut() {
            self.ticks.push(Tick::add(words, piece, number));
        }
    }

    /// Returns `true` if a sample is still to be unwound.
    pub fn has_raw(&self) -> bool {
        self.ticks().any(is_raw)
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
        let pieces = &self.pieces;
        self.ticks.retain(|tick| {
            let is_now = tick.time <= time;
            if !is_now {
                later.push_words(tick.words(pieces));
            }
            is_now
        });
        let life = self.life.extract_if(.., |event| event.time > time);
        life.for_each(|event| later.push_life(event));
    }

    /// Moves all events of another batch to the end of this one, without copying its records.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn append(&mut self, other: &mut Batch) {
        let before = self.pieces.len() as u32;
        self.pieces.append(&mut other.pieces);
        let ticks = other.ticks.drain(..);
        self.ticks.extend(ticks.map(|tick| Tick { piece: tick.piece + before, ..tick }));
        other.life.drain(..).for_each(|event| self.push_life(event));
        self.descriptions.append(&mut other.descriptions);
        other.clear();
    }

    /// Returns the words of each record.
    pub fn ticks(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.ticks.iter().map(|tick| tick.words(&self.pieces))
    }

    /// Returns the processes of the ticks, also of malformed ones, in the order of arrival.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.ticks().filter(|words| words.len() > 1).map(pid)
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
        self.ticks.sort_by_key(|tick| tick.time);
        let mut life = self.life.iter().peekable();
        for tick in &self.ticks {
            let tick = TickRecord::decode(tick.words(&self.pieces));
            let time = tick.map_or(0, |tick| tick.time);
            while let Some(event) = life.next_if(|event| event.time <= time) {
                each(Event::Life(event));
            }
            each(Event::Tick(tick));
        }
        life.for_each(|event| each(Event::Life(event)));
    }
}

/// Number of words from which on further records are in another piece: a tenth of a millisecond to
/// copy, when a piece grows.
const MAX_PIECE: usize = 64 << 10;

/// Returns the process of a record; 0 if the record is malformed.
fn pid(words: &[u64]) -> u32 {
    words.get(1).map_or(0, |&word| word as u32)
}

/// Returns `true` for the record of a sample that is still to be unwound.
fn is_raw(words: &[u64]) -> bool {
    words.get(2).is_some_and(|word| (word >> 32) as u8 & !kind::HELD == kind::RAW)
}

/// Returns the share that each of some demands may have of `total`, which is divided equally among
/// those that want more.
#[cfg(feature = "live")]
fn equal_share(mut demands: Vec<usize>, total: usize) -> usize {
    demands.sort_unstable();
    let (mut left, count) = (total, demands.len());
    for (index, demand) in demands.into_iter().enumerate() {
        let share = left / (count - index);
        if demand > share {
            return share;
        }
        left -= demand;
    }
    usize::MAX
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
    fn records_are_in_pieces() {
        let record = |number: u64| vec![number; MAX_PIECE / 2 + number as usize];
        let (mut batch, mut other) = (Batch::default(), Batch::default());
        (0..5).for_each(|number| batch.push_words(&record(number)));
        (5..8).for_each(|number| other.push_words(&record(number)));
        batch.append(&mut other);
        batch.push_words(&record(8));
        batch.push_words(&[]);
        assert!(other.is_empty() && batch.pieces.len() > 4);
        assert_eq!(batch.ticks().map(<[u64]>::to_vec).collect::<Vec<_>>(), {
            let records = (0..9).map(record);
            records.chain([Vec::new()]).collect::<Vec<_>>()
        });
        assert_eq!(batch.size(), (0..9).map(record).map(|words| words.len() * 8).sum());
        batch.clear();
        batch.push_words(&record(1));
        assert_eq!(batch.ticks().collect::<Vec<_>>(), [&record(1)[..]]);
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
        batch.reduce(0);
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
    #[cfg(feature = "live")]
    fn process_that_floods_a_batch_loses_its_own_callers() {
        use crate::testing::FakeTick;
        use ebpf_programs::abi::registers::Registers;
        let mut batch = Batch::default();
        for time in 0..1000 {
            let raw =
                |pid, words| FakeTick::raw(time, pid, "cat", &Registers::default(), &vec![9; words]).bytes();
            batch.push_tick(&raw(7, 1000));
            if time % 100 == 99 {
                batch.push_tick(&raw(8, 2000));
            }
        }
        let (before, bytes) = (batch.size(), 1 << 20);
        batch.reduce(bytes);
        let raw = |process| batch.ticks().filter(move |words| is_raw(words) && pid(words) == process);
        let times = |process| raw(process).map(|words| words[0]);
        assert!(times(8).eq((99..1000).step_by(100)), "all of the other process");
        assert!(times(7).eq(0..times(7).count() as u64), "the first ones");
        let kept: usize = [7, 8].into_iter().flat_map(raw).map(|words| words.len() * 8).sum();
        assert!((bytes - 10_000..=bytes).contains(&kept), "{kept}");
        assert!(batch.size() < bytes + before / 10 && batch.ticks().len() == 1010);
    }

    #[test]
    #[cfg(feature = "live")]
    fn shares_are_equal_among_those_that_want_more() {
        assert_eq!(equal_share(vec![], 10), usize::MAX);
        assert_eq!(equal_share(vec![4, 6], 10), usize::MAX);
        assert_eq!(equal_share(vec![90, 2, 50], 10), 4);
        assert_eq!(equal_share(vec![1; 100], 10), 0);
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
