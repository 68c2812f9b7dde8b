//! Generated events: samples, and processes that begin and end.

use ebpf_profiler_core::internal::sample::{Batch, Life, LifeEvent};
use ebpf_profiler_core::internal::testing::FakeTick;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::registers::Registers;

use crate::machine::{Machine, WALKED, start};

/// Samples a second and CPU.
const HERTZ: u32 = 97;

/// Batches a second, as the profiler reads them.
pub(crate) const BATCHES: u32 = 4;

/// User frames of a stack.
const FRAMES: u64 = 30;

/// Different stacks of a program, and programs.
const STACKS: u64 = 20;
const PROGRAMS: u32 = 50;

/// Mappings that a short-lived process adds after its exec.
const LOADED: u32 = 6;

/// The events of a machine.
pub(crate) struct Stream {
    machine: Machine,
    random: u64,
    time: u64,
    next: u32,
    /// Processes that began in the previous batch.
    born: Vec<u32>,
    /// `true` if no stack repeats.
    pub(crate) is_unique: bool,
    /// Kinds of samples.
    pub(crate) kinds: u16,
}

impl Stream {
    pub(crate) fn new(machine: Machine) -> Stream {
        Stream {
            machine,
            random: 1,
            time: 1_000_000_000,
            next: 1 << 20,
            born: Vec::new(),
            is_unique: false,
            kinds: 1,
        }
    }

    /// Returns the events of a quarter of a second.
    pub(crate) fn next(&mut self) -> Batch {
        let mut batch = Batch::default();
        let ended = std::mem::take(&mut self.born);
        let samples = (self.machine.shape.cpus * HERTZ / BATCHES).max(1);
        let lives = self.machine.shape.lives / BATCHES;
        let (begin, length) = (self.time, 1_000_000_000 / u64::from(BATCHES));
        let mut live = 0;
        for at in 0..samples {
            self.time = begin + length * u64::from(at) / u64::from(samples);
            while live < lives && u64::from(live) * u64::from(samples) <= u64::from(at) * u64::from(lives) {
                self.live(&mut batch, ended.get(live as usize).copied());
                live += 1;
            }
            let pid = self.choose();
            let tick =
                self.sample(pid).cpu(at % self.machine.shape.cpus).value(at as u16 % self.kinds, 10_000_000);
            batch.push_tick(&tick.bytes());
        }
        self.time = begin + length;
        batch
    }

    /// Lets one process begin and another end.
    fn live(&mut self, batch: &mut Batch, ended: Option<u32>) {
        let (pid, parent) = (self.next, 1000 + self.random() as u32 % self.machine.shape.processes);
        self.next += 1;
        self.born.push(pid);
        self.machine.fork(pid, parent);
        self.push(batch, pid, Life::Forked { parent });
        self.machine.exec(pid);
        self.push(batch, pid, Life::Executed);
        for index in 0..LOADED {
            let map = self.machine.mapping(pid, index, true);
            self.push(batch, pid, Life::Mapped(map));
        }
        if let Some(pid) = ended {
            self.machine.exit(pid);
            self.push(batch, pid, Life::Exited);
        }
    }

    fn push(&mut self, batch: &mut Batch, pid: u32, life: Life) {
        batch.push_life(LifeEvent { time: self.time, pid, life });
    }

    /// Chooses a process: half of the samples are of the busiest quarter, a tenth of those that
    /// begin and end.
    fn choose(&mut self) -> u32 {
        let share = (self.random() >> 40) as f64 / (1u64 << 24) as f64;
        if !self.born.is_empty() && self.random().is_multiple_of(10) {
            let at = self.random() as usize % self.born.len();
            return self.born[at];
        }
        1000 + ((share * share * f64::from(self.machine.shape.processes)) as u32)
            .min(self.machine.shape.processes - 1)
    }

    /// Returns a sample as the kernel side sends it: walked if the process is published, raw
    /// otherwise.
    fn sample(&mut self, pid: u32) -> FakeTick {
        let stack = if self.is_unique { self.random() } else { self.random() % STACKS };
        let kernel = if stack.is_multiple_of(3) { 10 } else { 0 };
        let kernel: Vec<u64> =
            (0..kernel).map(|at| 0xffff_ffff_8100_0000 + (stack % STACKS) * 0x1000 + at * 64).collect();
        let user: Vec<u64> = (0..FRAMES).map(|depth| self.address(pid, stack, depth)).collect();
        let name = "worker";
        let tick = match self.machine.published(pid) {
            None => {
                let mut registers = Registers { pc: user[0], known: u64::MAX, ..Registers::default() };
                registers.values[7] = 0x7ffc_0000_0000;
                registers.values[6] = 0x7ffc_0000_0010;
                FakeTick::raw(self.time, pid, name, &registers, &frames_in_memory(&user))
            }
            Some(process) if process.count == 0 => {
                FakeTick::walked(self.time, pid, name, &user[..1]).stop(Stop::Unmapped)
            }
            Some(process) => FakeTick::walked(self.time, pid, name, &user).epoch(process.epoch),
        };
        tick.kernel(&kernel)
    }

    /// Returns the address of a frame. All stacks of a program have the same root half.
    fn address(&self, pid: u32, stack: u64, depth: u64) -> u64 {
        let stack = if depth < FRAMES / 2 { stack } else { 0 };
        let seed = (stack.wrapping_mul(FRAMES) + depth).wrapping_mul(97) + u64::from(pid % PROGRAMS);
        let hash =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let index = (hash >> 60) as u32 % WALKED;
        let code = &self.machine.code[index as usize % self.machine.code.len()];
        // Recurring calls of a library are at few addresses.
        start(pid, index) + (hash >> 20) % (code.len / 64) * 64
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Returns a copied stack whose frames are linked by frame pointers.
fn frames_in_memory(user: &[u64]) -> Vec<u64> {
    let mut words = vec![0, 0];
    for (depth, address) in user.iter().enumerate().skip(1) {
        let next = 0x7ffc_0000_0010 + 16 * depth as u64;
        words.extend([if depth + 1 == user.len() { 0 } else { next }, *address]);
    }
    words.extend([0; 200]);
    words
}
