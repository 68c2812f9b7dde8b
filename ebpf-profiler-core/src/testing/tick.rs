//! Records of samples with given contents.

use ebpf_programs::abi::reason::Stop;
use ebpf_programs::abi::record::{HEAD_WORDS, kind};
use ebpf_programs::abi::registers::Registers;

/// A sample of the clock, as the bytes of its record in the ring buffer.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::internal::sample::Batch;
/// use ebpf_profiler_core::internal::testing::FakeTick;
/// use ebpf_profiler_core::trace::Stop;
///
/// let tick = FakeTick::walked(1_000, 7, "cat", &[0x401000, 0x402000]).kernel(&[0xffffffff81000000]);
/// let mut batch = Batch::default();
/// batch.push_tick(&tick.stop(Stop::Unreadable).bytes());
/// ```
#[derive(Clone, Debug)]
pub struct FakeTick {
    time: u64,
    pid: u32,
    cpu: u32,
    name: [u8; 16],
    kind: u8,
    event: u16,
    value: u64,
    stop: Stop,
    epoch: u32,
    kernel: Vec<u64>,
    /// Words and flags.
    labels: (Vec<u64>, u8),
    /// Frames, or registers and stack.
    rest: Vec<u64>,
}

impl FakeTick {
    /// Creates a sample whose stack the kernel side walked to its root; frames may have
    /// [flags](ebpf_programs::abi::record::frame).
    pub fn walked(time: u64, pid: u32, name: &str, frames: &[u64]) -> FakeTick {
        FakeTick::new(time, pid, name, kind::WALKED, frames.to_vec())
    }

    /// Creates a raw sample: registers, and a copy of the stack from the stack pointer on.
    pub fn raw(time: u64, pid: u32, name: &str, registers: &Registers, stack: &[u64]) -> FakeTick {
        let mut rest = vec![registers.pc, registers.known];
        rest.extend(registers.values);
        rest.push(registers.thread);
        rest.extend(stack);
        FakeTick { stop: Stop::UnknownProcess, ..FakeTick::new(time, pid, name, kind::RAW, rest) }
    }

    /// Creates the end of the sample that was taken at a time on a CPU.
    pub fn end(time: u64, pid: u32, (of_time, of_cpu): (u64, u32)) -> FakeTick {
        FakeTick::new(time, pid, "", kind::END, vec![of_time, of_cpu.into()])
    }

    /// Holds the sample until its end.
    #[must_use = "returns the changed sample"]
    pub fn held(self) -> FakeTick {
        FakeTick { kind: self.kind | kind::HELD, ..self }
    }

    /// Sets the kernel frames, innermost first; at most 127.
    #[must_use = "returns the changed sample"]
    pub fn kernel(self, addresses: &[u64]) -> FakeTick {
        FakeTick { kernel: addresses.to_vec(), ..self }
    }

    /// Sets the words of labels, at most 255, and their flags.
    #[must_use = "returns the changed sample"]
    pub fn labels(self, words: &[u64], flags: u8) -> FakeTick {
        FakeTick { labels: (words.to_vec(), flags), ..self }
    }

    /// Sets the number of the sample's kind, and its value; 0 and 1 by default.
    #[must_use = "returns the changed sample"]
    pub fn value(self, event: u16, value: u64) -> FakeTick {
        FakeTick { event, value, ..self }
    }

    /// Sets the CPU; 0 by default.
    #[must_use = "returns the changed sample"]
    pub fn cpu(self, cpu: u32) -> FakeTick {
        FakeTick { cpu, ..self }
    }

    /// Sets the number of the published state by which it was walked; 0, unknown, by default.
    #[must_use = "returns the changed sample"]
    pub fn epoch(self, epoch: u32) -> FakeTick {
        FakeTick { epoch, ..self }
    }

    /// Sets the stop reason of the walk.
    #[must_use = "returns the changed sample"]
    pub fn stop(self, stop: Stop) -> FakeTick {
        FakeTick { stop, ..self }
    }

    /// Returns the bytes of the record.
    pub fn bytes(&self) -> Vec<u8> {
        self.words().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn new(time: u64, pid: u32, name: &str, kind: u8, rest: Vec<u64>) -> FakeTick {
        let mut comm = [0; 16];
        let len = name.len().min(15);
        comm[..len].copy_from_slice(&name.as_bytes()[..len]);
        let (cpu, kernel, event, value, epoch, stop) = (0, Vec::new(), 0, 1, 0, Stop::Root);
        let labels = (Vec::new(), 0);
        FakeTick { time, pid, cpu, name: comm, kind, event, value, stop, epoch, kernel, labels, rest }
    }

    fn words(&self) -> Vec<u64> {
        const REGISTERS: usize = size_of::<Registers>() / 8;
        let (user, copied) = match self.kind & !kind::HELD {
            kind::WALKED => (self.rest.len(), 0),
            kind::END => (0, 0),
            _ => (0, self.rest.len() - REGISTERS),
        };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let kernel = self.kernel.len() as u8;
        let kinds = u32::from_ne_bytes([self.kind, self.stop as u8, kernel, HEAD_WORDS as u8]);
        let (left, right) = self.name.split_at(8);
        let text = |half: &[u8]| half.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let mut words = vec![
            self.time,
            pair(self.pid, self.pid),
            pair(self.cpu, kinds),
            pair(user as u32, 0),
            pair(copied as u32 | u32::from(self.event) << 16, 0),
            text(left),
            text(right),
            self.value,
            pair(self.epoch, u32::from_ne_bytes([self.labels.0.len() as u8, self.labels.1, 0, 0])),
        ];
        words.extend(&self.kernel);
        words.extend(&self.labels.0);
        words.extend(&self.rest);
        words
    }
}
