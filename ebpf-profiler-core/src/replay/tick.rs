//! Samples in a recording: converts between the records of the kernel's ring and the format's own
//! fields.
//!
//! The kernel ABI may change without a new version of the format; then only this file converts
//! between the two.

use ebpf_programs::abi::record::{End, HEAD_WORDS, Head, kind};
use ebpf_programs::abi::registers::{COUNT, Registers};

use super::decode::{Fields, Result};
use super::encode::Encoder;
use crate::sample::{END_WORDS, SourceError, decode_end, encode_head, split_head};

/// Words of eight bytes in the registers of a ring record: pc, known, values, thread.
const REGISTER_WORDS: usize = size_of::<Registers>() / 8;

/// Kinds of samples.
mod sample {
    /// A ring record that cannot be decoded.
    pub(super) const MALFORMED: u32 = 0;
    /// A stack that the kernel side walked.
    pub(super) const WALKED: u32 = 1;
    /// Registers and a copy of the stack.
    pub(super) const RAW: u32 = 2;
    /// The end of a sample.
    pub(super) const END: u32 = 3;
    /// Flag of a sample that counts until its end.
    pub(super) const HELD: u32 = 1 << 7;
}

/// Writes the body of a sample, from the words of a ring record.
pub(super) fn encode(e: &mut Encoder<'_>, words: &[u64]) {
    if let Some((head, end)) = split_end(words) {
        return encode_end(e, &head, end);
    }
    let Some(parts) = Parts::split(words) else {
        e.u64(words.first().copied().unwrap_or(0));
        return e.u32(sample::MALFORMED);
    };
    let Parts { head, kernel, registers, user, stack } = parts;
    e.u64(head.time);
    let held = if head.kind & kind::HELD != 0 { sample::HELD } else { 0 };
    e.u32(held | if registers.is_some() { sample::RAW } else { sample::WALKED });
    for field in [head.pid, head.tid, head.cpu, head.stop.into(), head.taken, head.omitted] {
        e.u32(field);
    }
    e.bytes(&head.comm);
    e.words(kernel);
    e.words(user);
    if let Some([pc, known, values @ .., thread]) = registers {
        let stored = (0..).zip(values).filter(|(_, value)| **value != 0);
        let set = stored.clone().fold(0u64, |set, (number, _)| set | 1 << number);
        for word in [*pc, *known, *thread, set] {
            e.u64(word);
        }
        stored.for_each(|(_, &value)| e.u64(value));
        e.words(stack);
    }
    e.u32(head.event.into());
    e.u64(head.value);
}

/// Decodes the body of a sample to the words of a ring record; none for a malformed one.
pub(super) fn decode(fields: &mut Fields<'_>) -> Result<(u64, Vec<u64>)> {
    let (time, kind) = (fields.u64()?, fields.u32()?);
    if kind == sample::MALFORMED {
        return Ok((time, Vec::new()));
    }
    if kind == sample::END {
        return Ok((time, end(time, fields)?));
    }
    let held = if kind & sample::HELD != 0 { kind::HELD } else { 0 };
    let is_raw = match kind & !sample::HELD {
        sample::WALKED => false,
        sample::RAW => true,
        _ => return Err(SourceError::Format("a sample is of an unknown kind")),
    };
    let (pid, tid, cpu, stop) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let (taken, omitted) = (fields.u32()?, fields.u32()?);
    let comm = fields.bytes()?.first_chunk().copied();
    let kernel_frames = fields.words()?;
    let user_words = fields.words()?;
    let head = Head {
        time,
        pid,
        tid,
        cpu,
        kind: held | if is_raw { kind::RAW } else { kind::WALKED },
        stop: u8::try_from(stop).map_err(|_| RANGE)?,
        kernel: u8::try_from(kernel_frames.len()).map_err(|_| RANGE)?,
        length: HEAD_WORDS as u8,
        user: u32::try_from(user_words.len()).map_err(|_| RANGE)?,
        omitted,
        copied: 0,
        event: 0,
        taken,
        comm: comm.ok_or(SourceError::Format("the name of a thread is truncated"))?,
        value: 1,
        // The states of a replay have other numbers; the journal has the samples that used an outdated one.
        epoch: 0,
        // Recordings hold none.
        labels: 0,
        label_flags: 0,
        reserved: 0,
    };
    let mut words = vec![0; HEAD_WORDS];
    words.extend(kernel_frames);
    let mut copied = 0;
    if is_raw {
        let (pc, known, thread, set) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let mut values = [0; COUNT];
        for (_, value) in values.iter_mut().enumerate().filter(|(number, _)| set >> number & 1 != 0) {
            *value = fields.u64()?;
        }
        words.extend([pc, known]);
        words.extend(values);
        words.push(thread);
        words.extend(&user_words);
        let stack = fields.words()?;
        copied = u16::try_from(stack.len()).map_err(|_| RANGE)?;
        words.extend(stack);
    } else {
        words.extend(&user_words);
    }
    // Version 2 had CPU time only.
    let (event, value) = if fields.0.is_empty() { (0, 1) } else { (fields.u32()?, fields.u64()?) };
    let event = u16::try_from(event).map_err(|_| RANGE)?;
    words[..HEAD_WORDS].copy_from_slice(&encode_head(&Head { copied, event, value, ..head }));
    Ok((time, words))
}

/// Splits the words of the end of a sample; `None` for other records.
fn split_end(words: &[u64]) -> Option<(Head, &[u64; END_WORDS])> {
    let (head, rest) = split_head(words).filter(|(head, _)| head.kind == kind::END)?;
    Some((head, rest.first_chunk()?))
}

fn encode_end(e: &mut Encoder<'_>, head: &Head, end: &[u64; END_WORDS]) {
    let End { time, cpu, .. } = decode_end(end);
    e.u64(head.time);
    e.u32(sample::END);
    for field in [head.pid, head.tid, head.cpu, head.event.into()] {
        e.u32(field);
    }
    e.u64(head.value);
    e.u64(time);
    e.u32(cpu);
}

/// Decodes the end of a sample to the words of a ring record.
fn end(time: u64, fields: &mut Fields<'_>) -> Result<Vec<u64>> {
    let (pid, tid, cpu, event) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let event = u16::try_from(event).map_err(|_| RANGE)?;
    let (value, of_time, of_cpu) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let (kind, length) = (kind::END, HEAD_WORDS as u8);
    let head = Head { time, pid, tid, cpu, kind, length, event, value, ..Head::default() };
    let mut words = encode_head(&head).to_vec();
    words.extend([of_time, of_cpu.into()]);
    Ok(words)
}

const RANGE: SourceError = SourceError::Format("a number of a sample is out of range");

/// The parts of a ring record.
struct Parts<'w> {
    head: Head,
    kernel: &'w [u64],
    registers: Option<&'w [u64; REGISTER_WORDS]>,
    user: &'w [u64],
    stack: &'w [u64],
}

impl<'w> Parts<'w> {
    /// Splits the words of a ring record; `None` if it is malformed.
    fn split(words: &'w [u64]) -> Option<Parts<'w>> {
        let (head, rest) = split_head(words)?;
        let (kernel, rest) = rest.split_at_checked(head.kernel.into())?;
        let (_labels, rest) = rest.split_at_checked(head.labels.into())?;
        let (registers, rest) = match head.kind & !kind::HELD {
            kind::WALKED => (None, rest),
            kind::RAW => rest.split_first_chunk().map(|(registers, rest)| (Some(registers), rest))?,
            _ => return None,
        };
        let (user, rest) = rest.split_at_checked(head.user as usize)?;
        let stack = rest.get(..if registers.is_some() { usize::from(head.copied) } else { 0 })?;
        Some(Parts { head, kernel, registers, user, stack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeTick;
    use crate::trace::Stop;

    fn words(tick: &FakeTick) -> Vec<u64> {
        tick.bytes().as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    fn round_trip(words: &[u64]) -> Vec<u64> {
        let mut bytes = Vec::new();
        encode(&mut Encoder(&mut bytes), words);
        let mut fields = Fields(&bytes);
        let (time, decoded) = decode(&mut fields).unwrap();
        assert_eq!((time, fields.0.len()), (words.first().copied().unwrap_or(0), 0));
        // The body of a sample of version 2 ends before kind and value.
        let old = if decoded.is_empty() { bytes.len() } else { bytes.len() - 12 };
        for len in (0..bytes.len()).filter(|&len| len != old) {
            assert!(decode(&mut Fields(&bytes[..len])).is_err(), "{len}");
        }
        decoded
    }

    #[test]
    fn samples_round_trip() {
        let walked = FakeTick::walked(7, 8, "cat", &[1, 2, 3]).kernel(&[9]).stop(Stop::Unreadable);
        assert_eq!(round_trip(&words(&walked)), words(&walked));
        assert_eq!(round_trip(&words(&walked.clone().labels(&[5, 6], 1))), words(&walked), "no labels");
        let mut registers = Registers { pc: 1, known: 1 << 7 | 1 << 16, thread: 5, ..Registers::default() };
        (registers.values[7], registers.values[16]) = (0x1000, 0x2000);
        let raw = FakeTick::raw(7, 8, "cat", &registers, &[4, 5]).kernel(&[9, 10]).value(3, u64::MAX);
        assert_eq!(round_trip(&words(&raw)), words(&raw));
    }

    #[test]
    fn held_samples_and_their_ends_round_trip() {
        let held = FakeTick::walked(7, 8, "cat", &[1, 2, 3]).held().value(1, 4096);
        assert_eq!(round_trip(&words(&held)), words(&held));
        let end = FakeTick::end(9, 8, (7, 3)).value(1, 5);
        let mut bytes = Vec::new();
        encode(&mut Encoder(&mut bytes), &words(&end));
        for len in 12..bytes.len() {
            assert!(decode(&mut Fields(&bytes[..len])).is_err(), "{len}");
        }
        assert_eq!(decode(&mut Fields(&bytes)).unwrap(), (9, words(&end)));
    }

    #[test]
    fn samples_without_kind_are_of_cpu_time() {
        let tick = FakeTick::walked(7, 8, "cat", &[1, 2, 3]);
        let mut bytes = Vec::new();
        encode(&mut Encoder(&mut bytes), &words(&tick.clone().value(5, 6)));
        let (_, decoded) = decode(&mut Fields(&bytes[..bytes.len() - 12])).unwrap();
        assert_eq!(decoded, words(&tick));
    }

    #[test]
    fn malformed_records_stay_malformed() {
        let walked = words(&FakeTick::walked(7, 8, "cat", &[1, 2, 3]));
        assert_eq!(round_trip(&walked[..walked.len() - 1]), []);
        assert_eq!(round_trip(&[]), []);
    }
}
