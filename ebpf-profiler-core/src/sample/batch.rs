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
    /// Number of the ticks that are the end of a sample.
    ends: usize,
    life: Vec<LifeEvent>,
    /// Bytes of the paths in the life events.
    paths: usize,
    /// Descriptions of processes that were read with the events.
    descriptions: Vec<(u32, Description)>,
    #[cfg(feature = "live")]
    shares: Option<Shares>,
}

/// Bytes that further raw samples of a process may have in a batch, see [`Batch::reduce`].
#[cfg(feature = "live")]
#[derive(Debug)]
struct Shares {
    /// Bytes of a process that has none yet.
    whole: usize,
    left: HashMap<u32, usize>,
}

#[cfg(feature = "live")]
impl Shares {
    /// Returns `true` if a raw sample is kept, and subtracts its size.
    fn take(&mut self, pid: u32, size: usize) -> bool {
        let left = self.left.entry(pid).or_insert(self.whole);
        let is_kept = size <= *left;
        *left = if is_kept { *left - size } else { 0 };
        is_kept
    }
}

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
struct Tick {
    /// The first word of the record; 0 if it has none. It and what follows are here too, because the
    /// records are large: each word that is read of one is fetched from memory.
    time: u64,
    piece: u32,
    start: u32,
    len: u32,
    /// The process; 0 if the record is malformed.
    pid: u32,
    /// The form, one of [`kind`]; `None` if the record is malformed.
    form: Option<u8>,
}

impl Tick {
    /// Adds a record to a piece, which is the one with this number.
    fn add(words: impl IntoIterator<Item = u64>, piece: &mut Vec<u64>, number: usize) -> Tick {
        let start = piece.len();
        piece.extend(words);
        let words = &piece[start..];
        Tick {
            time: words.first().copied().unwrap_or(0),
            piece: number as u32,
            start: start as u32,
            len: words.len() as u32,
            pid: pid(words),
            form: form(words),
        }
    }

    /// Returns its words.
    fn words(self, pieces: &[Vec<u64>]) -> &[u64] {
        &pieces[self.piece as usize][self.start as usize..][..self.len as usize]
    }

    /// Returns its size in bytes.
    #[cfg(feature = "live")]
    fn size(self) -> usize {
        self.len as usize * 8
    }

    fn is_end(self) -> bool {
        self.form == Some(kind::END)
    }

    fn is_raw(self) -> bool {
        self.form == Some(kind::RAW)
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
        self.ends = 0;
        self.life.clear();
        self.paths = 0;
        self.descriptions.clear();
        #[cfg(feature = "live")]
        {
            self.shares = None;
        }
    }

    /// Reduces samples that are still to be unwound to their innermost function, until the others have at
    /// most `bytes`. Each process keeps its first ones, up to an equal share: one that floods the
    /// profiler loses its own callers. Further samples are reduced when they are added.
    #[cfg(feature = "live")]
    pub(crate) fn reduce(&mut self, bytes: usize) {
        let mut demands = HashMap::<u32, usize>::new();
        for tick in self.ticks.iter().filter(|tick| tick.is_raw()) {
            *demands.entry(tick.pid).or_default() += tick.size();
        }
        if demands.is_empty() {
            return;
        }
        let whole = equal_share(demands.into_values().collect(), bytes);
        let mut shares = Shares { whole, left: HashMap::new() };
        let mut reduced = Vec::new();
        for tick in &mut self.ticks {
            let record = tick.words(&self.pieces);
            let is_kept = !tick.is_raw() || shares.take(tick.pid, tick.size());
            *tick = if is_kept {
                Tick::add(record.iter().copied(), &mut reduced, 0)
            } else {
                Tick::add(without_stack(record).unwrap_or_default(), &mut reduced, 0)
            };
        }
        self.pieces = vec![reduced];
        self.shares = Some(shares);
    }

    /// Reduces samples of a process that are added once they have this number of bytes.
    #[cfg(feature = "live")]
    pub(crate) fn limit(&mut self, whole: usize) {
        self.shares.get_or_insert_with(|| Shares { whole, left: HashMap::new() });
    }

    /// Returns a record without its stack if its process has used its share of the batch.
    #[cfg(feature = "live")]
    fn reduced(&mut self, record: &[[u8; 8]]) -> Option<Vec<u64>> {
        let shares = self.shares.as_mut()?;
        let front: Vec<u64> = record.iter().take(MAX_FRONT).map(|word| u64::from_ne_bytes(*word)).collect();
        let is_raw = form(&front) == Some(kind::RAW);
        let is_kept = !is_raw || shares.take(pid(&front), record.len() * 8);
        if is_kept { None } else { without_stack(&front) }
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
        #[cfg(feature = "live")]
        if let Some(reduced) = self.reduced(words) {
            return self.push(reduced);
        }
        self.push(words.iter().map(|word| u64::from_ne_bytes(*word)));
    }

    /// Takes the words of one record of the ring.
    pub(crate) fn push_words(&mut self, record: &[u64]) {
        self.push(record.iter().copied());
    }

    fn push(&mut self, words: impl IntoIterator<Item = u64>) {
        match self.pieces.last() {
            None => self.pieces.push(Vec::new()),
            // Not copied while it grows.
            Some(last) if last.len() >= MAX_PIECE => self.pieces.push(Vec::with_capacity(MAX_PIECE)),
            Some(_) => {}
        }
        let number = self.pieces.len() - 1;
        if let Some(piece) = self.pieces.last_mut() {
            let tick = Tick::add(words, piece, number);
            self.ends += usize::from(tick.is_end());
            self.ticks.push(tick);
        }
    }

    /// Returns the number of samples. Records of the end of a sample are none.
    #[cfg(feature = "live")]
    pub(crate) fn samples(&self) -> u64 {
        (self.ticks.len() - self.ends) as u64
    }

    /// Returns `true` if a sample is still to be unwound.
    pub fn has_raw(&self) -> bool {
        self.ticks.iter().any(|tick| tick.is_raw())
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
        let Batch { pieces, ticks, ends, .. } = self;
        ticks.retain(|tick| {
            let is_now = tick.time <= time;
            if !is_now {
                *ends -= usize::from(tick.is_end());
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
        self.ends += other.ends;
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
        self.ticks.iter().filter(|tick| tick.len > 1).map(|tick| tick.pid)
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

/// Number of words in front of which a sample has everything but its stack: head, kernel frames, labels and
/// registers.
#[cfg(feature = "live")]
const MAX_FRONT: usize = 512;

/// Returns the process of a record; 0 if the record is malformed.
fn pid(words: &[u64]) -> u32 {
    words.get(1).map_or(0, |&word| word as u32)
}

/// Returns the form of a record, one of [`kind`]; `None` if it is malformed.
fn form(words: &[u64]) -> Option<u8> {
    words.get(2).map(|word| (word >> 32) as u8 & !kind::HELD)
}

/// Divides `total` among some demands: returns the most that each may have.
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
    #[cfg(feature = "live")]
    fn ends_are_no_samples() {
        let record = |time: u64, form: u8| [time, 0, u64::from(form) << 32];
        let (mut batch, mut later) = (Batch::default(), Batch::default());
        let forms = [kind::WALKED, kind::RAW | kind::HELD, kind::END, kind::END, kind::RAW];
        for (form, time) in forms.into_iter().zip(1..) {
            batch.push_words(&record(time, form));
        }
        assert_eq!(batch.samples(), 3);
        batch.hold_later(3, &mut later);
        assert_eq!((batch.samples(), later.samples()), (2, 1));
        batch.append(&mut later);
        assert_eq!((batch.samples(), later.samples()), (3, 0));
        batch.reduce(0);
        assert_eq!(batch.samples(), 3);
        batch.clear();
        assert_eq!(batch.samples(), 0);
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
        let raw = |process| batch.ticks.iter().filter(move |tick| tick.is_raw() && tick.pid == process);
        let times = |process| raw(process).map(|tick| tick.time);
        assert!(times(8).eq((99..1000).step_by(100)), "all of the other process");
        assert!(times(7).eq(0..times(7).count() as u64), "the first ones");
        let kept: usize = [7, 8].into_iter().flat_map(raw).map(|tick| tick.size()).sum();
        assert!((bytes - 10_000..=bytes).contains(&kept), "{kept}");
        assert!(batch.size() < bytes + before / 10 && batch.ticks().len() == 1010);

        // The shares apply to what comes then.
        let raw =
            |pid, words| FakeTick::raw(2000, pid, "cat", &Registers::default(), &vec![9; words]).bytes();
        let added = |batch: &mut Batch, pid, words| {
            let before = batch.size();
            batch.push_tick(&raw(pid, words));
            batch.size() - before
        };
        assert!(added(&mut batch, 7, 1000) < 1000);
        assert!(added(&mut batch, 8, 1000) > 8000 && added(&mut batch, 9, 1000) > 8000);
        let kept: usize = (0..1000).map(|_| added(&mut batch, 9, 1000)).sum();
        assert!(kept < before / 10 + bytes, "{kept}");
        batch.clear();
        assert!(added(&mut batch, 7, 1000) > 8000);
        batch.limit(10_000);
        assert!(added(&mut batch, 7, 1000) > 8000 && added(&mut batch, 7, 1000) < 1000);
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
