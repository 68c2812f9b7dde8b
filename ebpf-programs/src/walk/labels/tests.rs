//! Sets of labels in constructed memory.

extern crate std;

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use super::*;
use crate::abi::arena::{BLOCK_WORDS, UNIT};
use crate::abi::interpreter::FRAME_BYTES;

/// Memory of a program, and the words that were copied.
struct World {
    arena: Vec<u32>,
    memory: BTreeMap<u64, u8>,
    object: [u64; FRAME_BYTES / 8],
    words: [u64; 4096],
    thread_pointer: u64,
    /// Number of reads of memory for pairs and texts.
    reads: u32,
}

impl Machine for World {
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        self.arena.get(word as usize..)
    }

    fn read_stack(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        Some(self.read_object(address, 8)?[0])
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        let bytes = self.bytes(address, size)?;
        for (word, bytes) in self.object.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Some(&self.object)
    }

    fn thread_pointer(&mut self) -> Option<u64> {
        Some(self.thread_pointer)
    }

    fn push_frame(&mut self, _: u64) {}

    fn read_words<const N: usize>(&mut self, to: &mut [u64; N], address: u64, size: u32) -> bool {
        assert!(size as usize <= N * 8);
        self.reads += 1;
        let Some(bytes) = self.bytes(address, size) else { return false };
        for (word, bytes) in to.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0xee; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        true
    }

    fn copy_label(&mut self, at: u32, address: u64, size: u32) -> bool {
        self.reads += 1;
        let Some(bytes) = self.bytes(address, size) else { return false };
        for (index, bytes) in bytes.chunks(8).enumerate() {
            let word = &mut self.words[at as usize + index];
            let mut padded = word.to_ne_bytes();
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        true
    }

    fn put_label_word(&mut self, at: u32, word: u64) {
        self.words[at as usize] = word;
    }
}

/// Arena offset of the label path.
const PLACE: u32 = 3;

const THREAD: u64 = 0x7000;

impl World {
    /// Returns a program whose thread pointer leads to a set at `set` by two hops.
    fn new(layout: u32, set: u64) -> World {
        let path = LabelPath { hops: 2, layout, offsets: [-8, 0x158, 0, 0, 0, 0, 0], ..LabelPath::default() };
        let mut arena = vec![0; BLOCK_WORDS];
        let (words, _) = path.to_bytes().as_chunks().0.iter().fold((vec![], 0), |(mut words, n), bytes| {
            words.push(u32::from_ne_bytes(*bytes));
            (words, n)
        });
        let at = PLACE as usize * UNIT / 4;
        arena[at..at + words.len()].copy_from_slice(&words);
        let (object, words) = ([0; FRAME_BYTES / 8], [!0; 4096]);
        let memory = BTreeMap::new();
        let mut world = World { arena, memory, object, words, thread_pointer: THREAD, reads: 0 };
        world.put(THREAD - 8, &[0x1000]);
        world.put(0x1158, &[set]);
        world
    }

    fn bytes(&self, address: u64, size: u32) -> Option<Vec<u8>> {
        (0..size as u64).map(|offset| self.memory.get(&address.wrapping_add(offset)).copied()).collect()
    }

    fn put(&mut self, address: u64, words: &[u64]) {
        self.put_bytes(address, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
    }

    fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        self.memory.extend((address..).zip(bytes.iter().copied()));
    }

    /// Stores a text. Returns its address and length.
    fn text(&mut self, text: &str) -> [u64; 2] {
        let address = self.memory.last_key_value().map_or(0, |(last, _)| last + 64).max(0x10_0000);
        self.put_bytes(address, text.as_bytes());
        [address, text.len() as u64]
    }

    /// Stores a slice of pairs at 0x2000, whose array is at 0x3000.
    fn slice(pairs: &[(&str, &str)]) -> World {
        let mut world = World::new(layout::SLICE, 0x2000);
        world.put(0x2000, &[0x3000, pairs.len() as u64, pairs.len() as u64]);
        for (at, (key, value)) in (0x3000..).step_by(32).zip(pairs) {
            let words = [world.text(key), world.text(value)].concat();
            world.put(at, &words);
        }
        world
    }

    /// Stores a bucket with pairs in some of its slots.
    fn bucket(&mut self, at: u64, pairs: &[(u64, &str, &str)], further: u64) {
        self.put(at, &[0; BUCKET as usize / 8]);
        // Empty slots and those that were moved.
        self.put_bytes(at, &[0, 1, 2, 3, 4, 4, 0, 1]);
        for &(slot, key, value) in pairs {
            let (key, value) = (self.text(key), self.text(value));
            self.put_bytes(at + slot, &[5 + slot as u8]);
            self.put(at + 8 + slot * 16, &key);
            self.put(at + 136 + slot * 16, &value);
        }
        self.put(at + 264, &[further]);
    }

    /// Copies the labels. Returns them with the flags.
    fn read(&mut self) -> (Vec<(String, String)>, u32) {
        let mut reader = LabelReader::default();
        let process = Process { labels: PLACE + 1, ..Process::default() };
        assert!(reader.begin(self, &process));
        for index in 0..=LABEL_STEPS {
            assert!(index < LABEL_STEPS, "no end");
            if !reader.step(self, index) {
                break;
            }
        }
        assert!(reader.words <= MAX_WORDS as u32);
        (pairs(&self.words[..reader.words as usize]), reader.flags)
    }
}

/// Decodes pairs, and requires that they are padded with zeros.
fn pairs(mut words: &[u64]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((first, rest)) = words.split_first() {
        let mut rest = rest;
        let mut text = |size: u64| {
            let (words, behind) = rest.split_at(size.div_ceil(8) as usize);
            rest = behind;
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert!(bytes.drain(size as usize..).all(|byte| byte == 0));
            String::from_utf8(bytes).unwrap()
        };
        found.push((text(first & pair::SIZE), text(first >> pair::VALUE_SHIFT & pair::SIZE)));
        words = rest;
    }
    found
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

const UNREADABLE: (Vec<(String, String)>, u32) = (Vec::new(), flag::UNREADABLE as u32);

#[test]
fn slices_are_copied() {
    for count in 0..=8 {
        let all = [
            ("a", "1"),
            ("", "empty key"),
            ("empty value", ""),
            ("exactly8", "sixteen bytes ok"),
            ("e", "5"),
        ];
        let pairs: Vec<(&str, &str)> = all.into_iter().cycle().take(count).collect();
        assert_eq!(World::slice(&pairs).read(), (owned(&pairs), 0), "{count}");
    }
}

#[test]
fn pairs_beyond_the_limits_are_left_out_or_cut() {
    let many = [("k", "v"); 11];
    assert_eq!(World::slice(&many).read(), (owned(&many[..8]), flag::CUT as u32));
    let (key, value) = ("k".repeat(65), "v".repeat(1 << 20));
    let long = World::slice(&[(&key, &value), ("after", "it")]).read();
    assert_eq!(long, (owned(&[(&key[..64], &value[..256]), ("after", "it")]), flag::CUT as u32));
    // Words of a pair: 1 + 1 + 32.
    let large = [("k", &value[..256]); 5];
    assert_eq!(World::slice(&large).read(), (owned(&large[..3]), flag::CUT as u32));
    let fits = [("k", &value[..256]), ("k", &value[..256]), ("k", &value[..256]), ("k", &value[..192])];
    assert_eq!(World::slice(&fits).read(), (owned(&fits), 0));
}

#[test]
fn threads_without_labels_have_none() {
    assert_eq!(World::new(layout::SLICE, 0).read(), (vec![], 0));
    let mut world = World::slice(&[("a", "1")]);
    world.put(THREAD - 8, &[0]);
    assert_eq!(world.read(), (vec![], 0), "no g");
    let mut reader = LabelReader::default();
    assert!(!reader.begin(&world, &Process::default()));
}

#[test]
fn implausible_and_unreadable_slices_have_no_labels() {
    let mut world = World::slice(&[("a", "1"), ("b", "2")]);
    for header in [[0x3000, 3, 2], [0x3000, 2, u64::MAX], [0x3004, 2, 2], [0x9000, 2, 2]] {
        world.put(0x2000, &header);
        assert_eq!(world.read(), UNREADABLE, "{header:x?}");
    }
    world.put(0x2000, &[0x3000, 2, 2]);
    for (at, word) in [(0x3028, 1 << 40), (0x3038, u64::MAX), (0x3030, 0x9000), (0x3038, 0x1000)] {
        let before = world.read_memory(at).unwrap();
        world.put(at, &[word]);
        assert_eq!(world.read(), UNREADABLE, "{at:x}");
        world.put(at, &[before]);
    }
    assert_eq!(world.read().0.len(), 2);
    world.thread_pointer = 8;
    assert_eq!(world.read(), UNREADABLE);
}

/// Returns a map at 0x2000.
fn map(count: u64, log: u64, flags: u64, buckets: u64, old: u64) -> World {
    let mut world = World::new(layout::MAP, 0x2000);
    world.put(0x2000, &[count, flags | log << 8, buckets, old]);
    world
}

#[test]
fn maps_of_one_bucket_are_copied() {
    let mut world = map(2, 0, 0, 0x3000, 0);
    world.bucket(0x3000, &[(1, "a", "1"), (7, "tenant", "blue")], 0);
    assert_eq!(world.read(), (owned(&[("a", "1"), ("tenant", "blue")]), 0));
    assert_eq!(map(0, 0, 0, 0, 0).read(), (vec![], 0));
}

#[test]
fn growing_maps_have_pairs_in_old_and_in_further_buckets() {
    let mut world = map(5, 1, 0, 0x3000, 0x4000);
    world.bucket(0x3000, &[(0, "a", "1")], 0x5000);
    world.bucket(0x5000, &[(3, "b", "2")], 0);
    world.bucket(0x3000 + BUCKET, &[(0, "c", "3")], 0);
    world.bucket(0x4000, &[(2, "d", "4"), (5, "e", "5")], 0);
    let all = owned(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")]);
    assert_eq!(world.read(), (all, 0));
    // As many old buckets.
    let mut world = map(2, 1, GROWS_IN_SIZE, 0x3000, 0x4000);
    for (bucket, pairs) in [(0x3000, &[][..]), (0x3000 + BUCKET, &[]), (0x4000, &[(0, "a", "1")])] {
        world.bucket(bucket, pairs, 0);
    }
    world.bucket(0x4000 + BUCKET, &[(4, "b", "2")], 0);
    assert_eq!(world.read(), (owned(&[("a", "1"), ("b", "2")]), 0));
}

#[test]
fn maps_with_false_counts_and_cycles_have_no_labels() {
    let with = |mut world: World, further| {
        world.bucket(0x3000, &[(0, "a", "1"), (1, "b", "2")], further);
        world.read()
    };
    assert_eq!(with(map(3, 0, 0, 0x3000, 0), 0), UNREADABLE, "more than there are");
    assert_eq!(with(map(17, 2, 0, 0x3000, 0), 0), UNREADABLE);
    assert_eq!(with(map(2, 9, 0, 0x3000, 0), 0), UNREADABLE);
    assert_eq!(with(map(2, 0, 0xff, 0x3000, 0), 0), UNREADABLE);
    let (found, flags) = with(map(16, 0, 0, 0x3000, 0), 0x3000);
    assert!(found.len() <= 16 && (flags == 0 || found.is_empty()), "a cycle: {flags}");
}

#[test]
fn noise_is_bounded() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> (seed >> 58 & 63)
    };
    for round in 0..2_000u64 {
        let mut world = World::new(1 + (round % 4) as u32, 0x2000);
        let words: Vec<u64> =
            (0..512).map(|_| if random() % 2 == 0 { 0x2000 + random() % 2048 } else { random() }).collect();
        world.put(0x2000, &words);
        let mut reader = LabelReader::default();
        reader.begin(&world, &Process { labels: PLACE + 1, ..Process::default() });
        let steps = (0..).take_while(|&index| reader.step(&mut world, index)).count();
        assert!(
            steps < LABEL_STEPS as usize && reader.words <= MAX_WORDS as u32,
            "{}",
            format!("{reader:?}")
        );
    }
}

#[test]
fn texts_near_each_other_take_one_read() {
    let pairs =
        [("work", "shop"), ("request", "a request of the shop, not short"), ("empty", ""), ("k", "v")];
    let mut world = World::slice(&pairs);
    // Memory around them, as far as it is of the same page.
    for address in 0x10_0000..0x10_1000 {
        world.memory.entry(address).or_insert(0x55);
    }
    assert_eq!(world.read(), (owned(&pairs), 0));
    assert_eq!(world.reads, 2, "the pairs, and the window");
    // All lengths at all distances from a word, up to the end of the page.
    for length in 1..=SHORT + 2 {
        for end in 0x10_0ff0..=0x10_1000 {
            let text: String = (0..length).map(|index| (b'a' + (index % 26) as u8) as char).collect();
            world.put_bytes(end - length as u64, text.as_bytes());
            world.put(0x2000, &[0x3000, 1, 1]);
            world.put(0x3000, &[end - length as u64, length as u64, 0x10_0000, 4]);
            let (found, flags) = world.read();
            assert_eq!((&*found[0].0, flags), (&*text, 0), "{length} before {end:x}");
        }
    }
}

#[test]
fn constants_are_their_addresses() {
    let mut world = World::slice(&[("tenant", "blue"), ("request", "7")]);
    let key = world.read_memory(0x3000).unwrap();
    let at = PLACE as usize * UNIT / 4 + 2 + 2 * HOPS;
    world.arena[at..at + 4].copy_from_slice(&[key as u32, (key >> 32) as u32, 6, 0]);
    let mut reader = LabelReader::default();
    let process = Process { labels: PLACE + 1, ..Process::default() };
    assert!(reader.begin(&world, &process));
    let mut index = 0;
    while reader.step(&mut world, index) {
        index += 1;
    }
    let sizes = 6 | 4 << pair::VALUE_SHIFT;
    assert_eq!(world.words[..3], [sizes | pair::KEY_IS_CONSTANT, key, u64::from_ne_bytes(*b"blue\0\0\0\0")]);
    assert_eq!(pairs(&world.words[3..reader.words as usize]), owned(&[("request", "7")]));
    // One byte more than the constants have.
    world.put(0x3008, &[7]);
    world.put_bytes(key + 6, b"s");
    assert_eq!(world.read().0[0].0.len(), 7);
}

/// Returns a thread context at 0x2000.
fn context(valid: u8, attributes: &[u8], size: u16) -> World {
    let mut world = World::new(layout::CONTEXT, 0x2000);
    let ids: Vec<u8> = (1..=24).collect();
    let fields = [&[valid, 1][..], &size.to_ne_bytes()].concat();
    world.put_bytes(0x2000, &[ids, fields, attributes.to_vec()].concat());
    world
}

impl World {
    /// Copies a thread context. Returns its words and flags.
    fn read_context(&mut self) -> (Vec<u64>, u32) {
        let mut reader = LabelReader::default();
        assert!(reader.begin(self, &Process { labels: PLACE + 1, ..Process::default() }));
        assert!(!reader.step(self, 0));
        (self.words[..reader.words as usize].to_vec(), reader.flags)
    }
}

#[test]
fn contexts_are_copied_if_they_are_valid() {
    let attributes = b"\x00\x05/cart\x01\x03GET";
    let (words, flags) = context(1, attributes, 12).read_context();
    assert_eq!((words.len(), flags), (6, flag::CONTEXT as u32));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(bytes[..24], (1..=24).collect::<Vec<u8>>()[..]);
    assert_eq!((words[3], &bytes[32..]), (1 | 1 << 8 | 12 << 16, &b"\x00\x05/cart\x01\x03GET\0\0\0\0"[..]));
    let (words, flags) = context(1, b"", 0).read_context();
    assert_eq!((words.len(), flags), (4, flag::CONTEXT as u32));
    for valid in [0, 2, 255] {
        assert_eq!(context(valid, attributes, 12).read_context(), (vec![], 0), "{valid}");
    }
    for none in [0, u64::MAX] {
        assert_eq!(World::new(layout::CONTEXT, none).read_context(), (vec![], 0));
    }
}

#[test]
fn contexts_with_too_many_attributes_have_ids_alone() {
    let most = (MAX_WORDS - CONTEXT_WORDS) * 8;
    let attributes = vec![7; most + 1];
    let (words, flags) = context(1, &attributes, most as u16).read_context();
    assert_eq!((words.len(), flags), (MAX_WORDS, flag::CONTEXT as u32));
    for size in [most as u16 + 1, u16::MAX] {
        let (words, flags) = context(1, &attributes, size).read_context();
        assert_eq!((words.len(), flags), (4, (flag::CONTEXT | flag::CUT) as u32), "{size}");
    }
}

#[test]
fn contexts_that_are_not_readable_are_none() {
    let unreadable = (vec![], flag::UNREADABLE as u32);
    assert_eq!(context(1, b"\x00\x05/cart", 100).read_context(), unreadable);
    for nowhere in [0x2001, 0x9000, u64::MAX - 1, 1 << 63] {
        let mut world = context(1, b"", 0);
        world.put(0x1158, &[nowhere]);
        assert_eq!(world.read_context(), unreadable, "{nowhere:x}");
    }
}
