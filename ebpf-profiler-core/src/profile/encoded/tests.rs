use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::profile::{
    Labels, Process, ProfileBuilder, SampleKind, SampleLabel, SamplingPeriod, Thread, ThreadId, Unit,
};
use crate::sink::folded;
use crate::symbol::{NoSymbols, Symbol, Symbolizer};
use crate::testing;
use crate::trace::{Found, Frame, ScriptId, Stop, Trace};

/// A sequence of numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn text(&mut self) -> String {
        ["", "a", "größer", "x\n;y", "/usr/lib/libc.so.6", "very::long::name<with, arguments>"]
            [self.below(6) as usize]
            .repeat(1 + self.below(3) as usize)
    }

    /// Returns a number of any size.
    fn any(&mut self) -> u64 {
        self.next() >> self.below(64)
    }

    fn frame(&mut self) -> Frame {
        let found = [Found::Exactly, Found::Uncalled, Found::Guessed, Found::Inlined, Found::Derived]
            [self.below(5) as usize];
        match self.below(4) {
            0 => Frame::Kernel { address: u64::MAX - self.below(9) },
            1 => Frame::Native { module: ModuleId(self.below(3) as u32), address: self.any(), found },
            2 => {
                Frame::Script { function: ScriptId(self.below(4) as u32), line: self.below(5) as u32, found }
            }
            _ => Frame::Anonymous { address: self.any(), found },
        }
    }

    fn thread(&mut self, builder: &mut ProfileBuilder) -> ThreadId {
        let mut process = Process::new(self.below(4) as u32);
        process.created = self.any();
        process.command_line = self.text().into();
        process.container = self.text().into();
        process.pod = self.text().into();
        process.cgroup = self.text().into();
        process.user = [None, Some(0), Some(u32::MAX)][self.below(3) as usize];
        process.namespace_pid = self.any() as u32;
        process.environment = (0..self.below(3)).map(|_| (self.text().into(), self.text().into())).collect();
        process.attributes = (0..self.below(3)).map(|_| (self.text().into(), self.text().into())).collect();
        let process = builder.process(process);
        let mut thread = Thread::new(process, self.any() as u32, self.text());
        for _ in 0..self.below(3) {
            let label = match self.below(2) {
                0 => SampleLabel::new(self.text(), self.text()),
                _ => SampleLabel::new(self.text(), self.any() as i64 - 5),
            };
            thread.labels = thread.labels.with(label);
        }
        builder.thread(thread)
    }

    fn profile(&mut self) -> Profile {
        let kinds = [SampleKind::cpu(Duration::from_nanos(self.any())), SampleKind::off_cpu()];
        let kinds = kinds.into_iter().chain([SampleKind::new(self.text(), Unit::Bytes)]);
        let mut builder = ProfileBuilder::of_kinds(kinds);
        builder.record_loss("ring full", self.below(2));
        let threads: Vec<ThreadId> = (0..4).map(|_| self.thread(&mut builder)).collect();
        for _ in 0..self.below(40) {
            let frames: Vec<Frame> = (0..self.below(6)).map(|_| self.frame()).collect();
            let gap = self.below(frames.len() as u64 + 1) as u32;
            let stop = Stop::ALL[self.below(Stop::ALL.len() as u64) as usize];
            let trace = Trace::new(frames.as_slice(), stop).with_gap(self.below(2) as u32, gap);
            let (thread, kind) = (threads[self.below(4) as usize], self.below(3) as usize);
            let cpu = [None, Some(self.below(300) as u32)][self.below(2) as usize];
            let value = if kind == 0 { 1 } else { self.any() };
            builder.add_value(kind, value, cpu, thread, &trace, self.any());
        }
        builder.add_scripts(|id| Some(Script::new("php", format!("f{}", id.0 % 3)).with_file("a.php", id.0)));
        let mut module = Module::new(self.text());
        module.build_id = self.next().to_le_bytes().into();
        (module.start, module.end) = (16, 16 + self.below(1 << 40));
        module.is_foreign = self.below(2) == 0;
        let start = UNIX_EPOCH + Duration::from_nanos(self.any());
        builder.finish(start, Duration::from_nanos(self.any()), |_| Some(module.clone()), &mut Odd)
    }
}

/// Names frames at odd addresses; the others of files have a start.
struct Odd;

impl Symbolizer for Odd {
    fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.kernel(addresses, name);
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (index, address) in addresses.iter().enumerate().filter(|(_, address)| *address % 2 == 1) {
            let outer = Symbol::new(format!("f{}", address % 5)).with_system_name("_Z1f").with_start_line(3);
            name(index, &[Symbol::new("inner").with_file("a.c").with_line(9).with_column(2), outer]);
        }
    }

    fn starts(&mut self, _: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        (0..addresses.len()).for_each(|index| begin(index, 1 + addresses[index] / 2));
    }

    fn calls(&mut self, _: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        (0..addresses.len()).step_by(3).for_each(doubt);
    }
}

/// Returns everything in a profile but its ids.
fn contents(profile: &Profile) -> Vec<String> {
    let head = (profile.start(), profile.duration(), profile.kinds(), profile.losses().collect::<Vec<_>>());
    let mut lines = vec![format!("{head:?} {:?}", profile.sampling_periods().collect::<Vec<_>>())];
    for sample in profile.samples() {
        let thread = Thread { process: Default::default(), ..sample.thread().clone() };
        let trace = sample.trace();
        let events: Vec<_> = sample.events().map(|event| (event.time, event.cpu, event.value)).collect();
        let owner = (sample.kind(), sample.process(), thread);
        lines.push(format!("{owner:?} {:?} {:?} {events:?}", trace.stop(), trace.omitted()));
        for frame in trace.frames() {
            let address = match frame.frame() {
                Frame::Kernel { address }
                | Frame::Native { address, .. }
                | Frame::Anonymous { address, .. } => address,
                Frame::Script { line, .. } => line.into(),
            };
            let marks = (address, frame.found(), frame.start(), frame.is_doubtful());
            let foreign = frame.module().map(|module| module.is_foreign);
            lines.push(format!(
                "  {marks:?} {:?} {foreign:?} {:?} {:?}",
                frame.module(),
                frame.script(),
                frame.symbols()
            ));
        }
    }
    lines
}

fn encoded(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    profile.encode(&mut bytes).unwrap();
    bytes
}

/// Replaces the checksum by the right one.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() - 8;
    let sum = checksum(&bytes[..length]);
    bytes[length..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Reads every part of a profile.
fn walk(profile: &Profile) {
    contents(profile);
    folded::write(profile, &mut Vec::new()).unwrap();
    let _ = (profile.total(), profile.summary().to_string());
    profile.diff(profile).by_function();
    profile.frames_by_place().for_each(|frame| drop(frame.to_string()));
    let _ = Profile::merge([profile, profile]).map(|merged| merged.count());
    encoded(profile);
}

#[test]
fn profile_is_the_same_after_a_round_trip() {
    for seed in 1..300u64 {
        let profile = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).profile();
        let bytes = encoded(&profile);
        let again = Profile::decode(&bytes[..]).unwrap();
        assert_eq!(contents(&again), contents(&profile), "seed {seed}");
        assert_eq!(encoded(&again), bytes, "seed {seed}");
    }
    let empty = testing::profile("");
    assert_eq!(contents(&Profile::decode(&encoded(&empty)[..]).unwrap()), contents(&empty));
}

#[test]
fn part_is_encoded_alone() {
    let profile = testing::profile("cat;main;secret 3\nls;main;read 1");
    let part = profile.filter(|sample| sample.process().executable.ends_with("ls"));
    let bytes = encoded(&part);
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    let off_cpu = Profile::decode(&encoded(&profile.of_kind(1))[..]).unwrap();
    assert_eq!((off_cpu.kinds().len(), off_cpu.modules().len(), off_cpu.count()), (0, 0, 0));
}

#[test]
fn encoding_is_compact() {
    let mut builder = ProfileBuilder::new(Duration::from_millis(10));
    let process = builder.process(Process::new(1));
    let thread = builder.thread(Thread::new(process, 1, "t"));
    for tick in 0..10_000u64 {
        let frames = [Frame::Kernel { address: u64::MAX - tick % 100 * 16 }; 20];
        builder.add_on_cpu(
            1,
            thread,
            &Trace::new(frames.as_slice(), Stop::Root),
            (1 << 60) + tick * 10_000_000,
        );
    }
    let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
    let size = encoded(&profile).len();
    assert!(size < 80_000, "{size} bytes for 10,000 events");
}

#[test]
fn every_truncated_profile_is_an_error() {
    let bytes = encoded(&Random(77).profile());
    for length in 0..bytes.len() {
        let error = Profile::decode(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, DecodeError::Magic | DecodeError::Truncated | DecodeError::Damaged { .. }),
            "{length}: {error}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(Profile::decode(&longer[..]), Err(DecodeError::Damaged { .. })));
}

#[test]
fn changed_bytes_never_panic() {
    let bytes = encoded(&Random(78).profile());
    let mut valid = 0;
    for index in 0..bytes.len() - 8 {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[index] ^= change;
            assert!(Profile::decode(&changed[..]).is_err(), "a checksum of byte {index}");
            if let Ok(profile) = Profile::decode(&sealed(changed)[..]) {
                walk(&profile);
                valid += 1;
            }
        }
    }
    assert!(valid > 0);
}

#[test]
fn errors_name_the_fault() {
    let error = |bytes: &[u8]| Profile::decode(bytes).unwrap_err();
    let bytes = encoded(&testing::profile("cat;main 1"));
    assert!(matches!(error(b"perf.data"), DecodeError::Magic));
    let mut later = bytes.clone();
    later[8] = 3;
    assert!(matches!(error(&later), DecodeError::Version { found: 3 }));
    assert!(error(&later).to_string().contains("version 3"));
    let huge = vec![0; Profile::MAX_ENCODED + 1];
    assert!(matches!(error(&huge), DecodeError::TooLarge));
    // The length of the first list says 2^62.
    let mut lie = bytes[..9].to_vec();
    lie.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0]);
    assert!(matches!(error(&lie), DecodeError::Truncated));
    // Ten bytes of a number that has 64 bits at most.
    let mut long = bytes[..9].to_vec();
    long.extend([0xff; 11]);
    assert!(matches!(error(&long), DecodeError::Damaged { .. }));
}

/// Version 1 had neither control group nor user of a process.
#[test]
fn former_version_is_read() {
    let profile = testing::profile("cat;main 1");
    let mut bytes = encoded(&profile);
    let path = b"/usr/bin/cat";
    let found = bytes.windows(path.len()).rposition(|window| window == path).unwrap();
    let container = found + path.len();
    let added = bytes.drain(container + 1..container + 7);
    assert!(added.eq([0; 6]));
    bytes[8] = 1;
    let end = bytes.len() - 8;
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    let again = Profile::decode(&bytes[..]).unwrap();
    assert_eq!(again.processes(), profile.processes());
    assert_eq!(again.count(), 1);
}

#[test]
fn many_small_parts_are_an_error() {
    let mut bytes = MAGIC.to_vec();
    let mut writer = number::Writer::default();
    writer.number(VERSION);
    writer.length(MAX_PARTS + 1);
    bytes.append(&mut writer.bytes);
    bytes.resize(bytes.len() + MAX_PARTS + 100, 0);
    assert!(matches!(Profile::decode(&bytes[..]), Err(DecodeError::TooLarge)));
}

#[test]
fn sampling_periods_and_labels_stay() {
    let mut builder = ProfileBuilder::of_kinds([SampleKind::new("malloc", Unit::Bytes)]);
    let process = builder.process(Process::new(1));
    let labels = Labels::default().with(SampleLabel::new("k".repeat(64), "ä".repeat(128)));
    let thread = builder.thread(Thread { labels: labels.clone(), ..Thread::new(process, 1, "t") });
    builder.add_value(0, 512, None, thread, &Trace::new([].as_slice(), Stop::Root), 9);
    let period = SamplingPeriod { kind: 0, since: UNIX_EPOCH + Duration::from_secs(5), period: 512 };
    builder.set_sampling_periods(vec![period.clone()]);
    let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
    let again = Profile::decode(&encoded(&profile)[..]).unwrap();
    assert_eq!(again.sampling_periods().collect::<Vec<_>>(), [period]);
    assert_eq!(*again.samples().next().unwrap().labels(), labels);
}

#[test]
fn what_cannot_be_decoded_is_not_encoded() {
    let mut builder = ProfileBuilder::new(Duration::ZERO);
    let process = builder.process(Process::new(1));
    let thread = builder.thread(Thread::new(process, 1, "t"));
    let frames = vec![Frame::Kernel { address: 1 }; MAX_FRAMES + 1];
    builder.add(thread, &Trace::new(frames.as_slice(), Stop::Root), 0);
    let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
    assert_eq!(profile.encode(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::InvalidData);
}
