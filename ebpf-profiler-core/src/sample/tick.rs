//! One record of the ring.

use ebpf_programs::abi::reason::Stop;
use ebpf_programs::abi::record::{End, HEAD_WORDS, Head, LEAF_WORDS, MAX_WORDS, kind};
use ebpf_programs::abi::registers::{self, Registers};

use super::CopiedLabels;
use crate::trace::FrameWord;

/// Words of eight bytes in the registers.
const REGISTER_WORDS: usize = size_of::<Registers>() / 8;

/// A decoded sample, which borrows from the words of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRecord<'a> {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
    /// The thread's name, ended by a zero byte.
    pub comm: [u8; 16],
    /// Number of the sample's kind in the run.
    pub event: u16,
    /// Value in the unit of that kind.
    pub value: u64,
    /// `true` if its value counts until a later record ends it.
    pub is_held: bool,
    /// Stop reason of the kernel side's walk.
    pub stop: Stop,
    /// Number of the published state that the kernel side used; 0 if unknown.
    pub epoch: u32,
    /// Kernel addresses, innermost first.
    pub kernel: &'a [u64],
    /// Labels that the program has set for the thread.
    pub labels: CopiedLabels<'a>,
    /// The user part.
    pub body: Body<'a>,
}

/// The user part of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, on the stack; a box would be made for every tick"
)]
pub enum Body<'a> {
    /// Unwound in the kernel.
    Walked {
        /// [Words of frames](ebpf_programs::abi::record), leaf first.
        leaf: &'a [u64],
        /// The root side in two pieces that follow each other, where `omitted` isn't 0.
        root: [&'a [u64]; 2],
        /// Number of frames dropped between the two sides.
        omitted: u32,
    },
    /// Registers and a copy of the stack, to be unwound in user space.
    Raw {
        /// The registers of the leaf.
        registers: Registers,
        /// The [words](ebpf_programs::abi::record) of the calls in a script, innermost first.
        calls: &'a [u64],
        /// The stack from the stack pointer upwards.
        stack: &'a [u64],
    },
    /// No sample, but the end of one that was held: from now on it has this record's value, or none
    /// if that is 0.
    End {
        /// Time of the sample.
        time: u64,
        /// CPU of the sample.
        cpu: u32,
    },
}

/// A record is inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> TickRecord<'a> {
    /// Decodes one record.
    ///
    /// # Errors
    ///
    /// Fails if its parts exceed its length, or a number is out of range.
    pub fn decode(words: &'a [u64]) -> Result<TickRecord<'a>, Malformed> {
        let (head, rest) = split_head(words).ok_or(Malformed)?;
        let (kernel, rest) = rest.split_at_checked(head.kernel.into()).ok_or(Malformed)?;
        let (labels, rest) = rest.split_at_checked(head.labels.into()).ok_or(Malformed)?;
        let body = match head.kind & !kind::HELD {
            kind::WALKED => walked(&head, rest)?,
            kind::RAW => raw(&head, rest)?,
            kind::END => end(rest)?,
            _ => return Err(Malformed),
        };
        Ok(TickRecord {
            time: head.time,
            pid: head.pid,
            tid: head.tid,
            cpu: head.cpu,
            comm: head.comm,
            event: head.event,
            value: head.value,
            is_held: head.kind & kind::HELD != 0,
            stop: Stop::from_number(head.stop).ok_or(Malformed)?,
            epoch: head.epoch,
            kernel,
            labels: CopiedLabels { words: labels, flags: head.label_flags },
            body,
        })
    }

    /// Returns the thread's name, with invalid UTF-8 replaced.
    pub fn name(&self) -> String {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end]).into_owned()
    }
}

/// Returns a raw record as one of a stack of which only the leaf is known; `None` for another
/// record.
#[cfg(feature = "live")]
pub(crate) fn without_stack(words: &[u64]) -> Option<Vec<u64>> {
    let (head, rest) = split_head(words)?;
    if head.kind & !kind::HELD != kind::RAW {
        return None;
    }
    let (front, rest) = rest.split_at_checked(usize::from(head.kernel) + usize::from(head.labels))?;
    let pc = rest.first()?;
    let reduced = Head {
        kind: kind::WALKED | head.kind & kind::HELD,
        stop: Stop::Late as u8,
        length: HEAD_WORDS as u8,
        user: 1,
        omitted: 0,
        copied: 0,
        taken: 1,
        ..head
    };
    let mut words = encode_head(&reduced).to_vec();
    words.extend(front);
    words.push(FrameWord::leaf(*pc).0);
    Some(words)
}

/// Splits the words of a ring record behind its head; `None` if it is truncated.
pub(crate) fn split_head(words: &[u64]) -> Option<(Head, &[u64])> {
    let head = decode_head(words.first_chunk()?);
    let rest = words.get(usize::from(head.length)..).filter(|_| usize::from(head.length) >= HEAD_WORDS)?;
    Some((head, rest))
}

/// Decodes the fields of the head of a ring record.
fn decode_head(words: &[u64; HEAD_WORDS]) -> Head {
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let (pid, tid) = halves(words[1]);
    let (cpu, kinds) = halves(words[2]);
    let (user, omitted) = halves(words[3]);
    let (copied, taken) = halves(words[4]);
    let (copied, event) = (copied as u16, (copied >> 16) as u16);
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&words[5].to_ne_bytes());
    comm[8..].copy_from_slice(&words[6].to_ne_bytes());
    let [kind, stop, kernel, length] = kinds.to_ne_bytes();
    let (time, value) = (words[0], words[7]);
    let (epoch, flags) = halves(words[8]);
    let [labels, label_flags, ..] = flags.to_ne_bytes();
    Head {
        time,
        pid,
        tid,
        cpu,
        kind,
        stop,
        kernel,
        length,
        user,
        omitted,
        copied,
        event,
        taken,
        comm,
        value,
        epoch,
        labels,
        label_flags,
        reserved: 0,
    }
}

/// Encodes the head of a ring record.
pub(crate) fn encode_head(head: &Head) -> [u64; HEAD_WORDS] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let kinds = u32::from_ne_bytes([head.kind, head.stop, head.kernel, head.length]);
    let [first, second] = [0, 8].map(|at| {
        let half = head.comm[at..].first_chunk().copied().unwrap_or_default();
        u64::from_ne_bytes(half)
    });
    [
        head.time,
        pair(head.pid, head.tid),
        pair(head.cpu, kinds),
        pair(head.user, head.omitted),
        pair(u32::from(head.copied) | u32::from(head.event) << 16, head.taken),
        first,
        second,
        head.value,
        pair(head.epoch, u32::from_ne_bytes([head.labels, head.label_flags, 0, 0])),
    ]
}

fn walked<'a>(head: &Head, rest: &'a [u64]) -> Result<Body<'a>, Malformed> {
    let frames = rest.get(..head.user as usize).ok_or(Malformed)?;
    if head.omitted == 0 {
        return Ok(Body::Walked { leaf: frames, root: [&[]; 2], omitted: 0 });
    }
    // The second half of the buffer goes round: its oldest frame stands where the next would be
    // written.
    let (leaf, round) = frames.split_at_checked(LEAF_WORDS).ok_or(Malformed)?;
    let turn = (MAX_WORDS + head.omitted as usize) % (MAX_WORDS - LEAF_WORDS);
    let (newer, older) = round.split_at_checked(turn).ok_or(Malformed)?;
    // The second word of a call may be all that is left of it, or the first.
    let kept = frames.iter().filter(|&&word| !FrameWord(word).is_detail()).count() as u32;
    Ok(Body::Walked { leaf, root: [older, newer], omitted: head.taken.saturating_sub(kept).max(1) })
}

fn raw<'a>(head: &Head, rest: &'a [u64]) -> Result<Body<'a>, Malformed> {
    let (words, rest) = rest.split_at_checked(REGISTER_WORDS).ok_or(Malformed)?;
    let (calls, rest) = rest.split_at_checked(head.user as usize).ok_or(Malformed)?;
    let stack = rest.get(..head.copied.into()).ok_or(Malformed)?;
    let mut values = [0; registers::COUNT];
    values.copy_from_slice(&words[2..2 + registers::COUNT]);
    let thread = words[2 + registers::COUNT];
    Ok(Body::Raw { registers: Registers { pc: words[0], known: words[1], values, thread }, calls, stack })
}

fn end<'a>(rest: &[u64]) -> Result<Body<'a>, Malformed> {
    let words = rest.first_chunk().ok_or(Malformed)?;
    let End { time, cpu, .. } = decode_end(words);
    Ok(Body::End { time, cpu })
}

/// Words of eight bytes in the rest of the record of an end.
pub(crate) const END_WORDS: usize = size_of::<End>() / 8;

/// Decodes the rest of the record of an end.
pub(crate) fn decode_end(&[time, cpu]: &[u64; END_WORDS]) -> End {
    End { time, cpu: cpu as u32, reserved: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, kernel: u8, user: u32, omitted: u32, copied: u32, rest: &[u64]) -> Vec<u64> {
        let taken = user + omitted;
        let kinds = u32::from_ne_bytes([kind, 0, kernel, HEAD_WORDS as u8]);
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let name = u64::from_ne_bytes(*b"cat\0\0\0\0\0");
        let mut words = vec![
            9,
            pair(1, 2),
            pair(3, kinds),
            pair(user, omitted),
            pair(copied | 3 << 16, taken),
            name,
            0,
            77,
            5,
        ];
        words.extend_from_slice(rest);
        words
    }

    #[test]
    fn walked_stacks_come_apart() {
        let words = record(kind::WALKED, 1, 2, 0, 0, &[0xffff, 10, 20]);
        let tick = TickRecord::decode(&words).unwrap();
        assert_eq!((tick.time, tick.pid, tick.tid, tick.cpu), (9, 1, 2, 3));
        assert_eq!((tick.name().as_str(), tick.event, tick.value, tick.epoch), ("cat", 3, 77, 5));
        assert_eq!(tick.kernel, &[0xffff]);
        assert_eq!(tick.body, Body::Walked { leaf: &[10, 20], root: [&[]; 2], omitted: 0 });
    }

    #[test]
    fn labels_follow_the_kernel_frames() {
        let mut words = record(kind::WALKED, 1, 2, 0, 0, &[0xffff, 70, 71, 10, 20]);
        words[8] |= u64::from(u32::from_ne_bytes([2, 1, 0, 0])) << 32;
        let tick = TickRecord::decode(&words).unwrap();
        assert_eq!((tick.kernel, tick.labels.words, tick.labels.flags), (&[0xffff][..], &[70, 71][..], 1));
        assert_eq!(tick.body, Body::Walked { leaf: &[10, 20], root: [&[]; 2], omitted: 0 });
        assert_eq!(encode_head(&split_head(&words).unwrap().0)[..], words[..HEAD_WORDS]);
        for len in HEAD_WORDS..words.len() {
            assert_eq!(TickRecord::decode(&words[..len]), Err(Malformed), "{len} words");
        }
    }

    #[test]
    fn words_behind_the_fields_of_the_head_are_skipped() {
        let mut words = record(kind::WALKED, 1, 1, 0, 0, &[1, 2, 0xffff, 10]);
        words[2] += 2 << 56;
        let tick = TickRecord::decode(&words).unwrap();
        assert_eq!(tick.kernel, &[0xffff]);
        assert_eq!(tick.body, Body::Walked { leaf: &[10], root: [&[]; 2], omitted: 0 });
        // A head that is shorter than its fields, or longer than the record.
        for length in [0, HEAD_WORDS as u64 - 1, 255] {
            words[2] = words[2] & u64::MAX >> 8 | length << 56;
            assert_eq!(TickRecord::decode(&words), Err(Malformed), "{length}");
        }
    }

    #[test]
    fn deep_stacks_come_in_order() {
        // The last six overwrote the first six of the second half.
        let (half, full) = (LEAF_WORDS as u64, MAX_WORDS as u64);
        let mut slots: Vec<u64> = (0..full).collect();
        for frame in full..full + 6 {
            slots[LEAF_WORDS + frame as usize % (MAX_WORDS - LEAF_WORDS)] = frame;
        }
        let words = record(kind::WALKED, 0, MAX_WORDS as u32, 6, 0, &slots);
        let Body::Walked { leaf: first, root, omitted } = TickRecord::decode(&words).unwrap().body else {
            panic!()
        };
        let all: Vec<u64> = first.iter().chain(root[0]).chain(root[1]).copied().collect();
        let expected: Vec<u64> = (0..half).chain(half + 6..full + 6).collect();
        assert_eq!((all, omitted), (expected, 6));
    }

    #[test]
    fn raw_ticks_come_apart() {
        let mut rest = vec![0x1234, 0xffff];
        rest.extend(100..133);
        rest.extend([5, 6, 7, 8, 9]);
        let words = record(kind::RAW, 0, 2, 0, 3, &rest);
        let Body::Raw { registers, calls, stack } = TickRecord::decode(&words).unwrap().body else {
            panic!()
        };
        assert_eq!(
            (registers.pc, registers.known, registers.values[7], registers.thread),
            (0x1234, 0xffff, 107, 132)
        );
        assert_eq!((calls, stack), (&[5, 6][..], &[7, 8, 9][..]));
    }

    #[test]
    fn every_truncation_is_malformed_and_never_a_panic() {
        let mut rest = vec![0; 35];
        rest.extend([1, 2, 3]);
        for whole in [record(kind::RAW, 0, 0, 0, 3, &rest), record(kind::WALKED, 1, 2, 0, 0, &[1, 2, 3])] {
            assert!(TickRecord::decode(&whole).is_ok());
            for len in 0..whole.len() {
                assert_eq!(TickRecord::decode(&whole[..len]), Err(Malformed), "{len} words");
            }
        }
    }

    #[test]
    fn noise_never_panics() {
        let mut seed = 1u64;
        let mut words = vec![0u64; 64];
        for _ in 0..20_000 {
            for word in &mut words {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *word = seed >> (seed & 63);
            }
            let _ = TickRecord::decode(&words);
        }
    }
}
