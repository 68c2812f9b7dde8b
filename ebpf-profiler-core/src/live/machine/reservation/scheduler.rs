//! Scheduling policies of threads, and the time that threads wait for a CPU.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::{clock, this_thread};

/// `struct sched_attr` of the kernel, in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHED_OTHER: u32 = 0;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const SCHED_DEADLINE: u32 = 6;

/// Threads and processes that such a thread starts get the default policy. Without it, the kernel
/// lets a thread with `SCHED_DEADLINE` start none.
const RESET_ON_FORK: u64 = 1;

/// Period of a reservation: a thread that has used its share of it waits for the next one.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// Shortest runtime that the kernel takes.
const SHORTEST_RUNTIME: Duration = Duration::from_nanos(1024);

/// Shortest period, in round numbers, in which the kernel counts [`SHORTEST_RUNTIME`] as nothing: it
/// rounds the quotient down to a multiple of 2^-20.
pub(super) const LONG_PERIOD: Duration = Duration::from_millis(1100);

/// Minimum runtime of a reservation. The kernel's own minimum is about 1 µs, but the kernel stops a
/// thread at the next timer interrupt, and the time until then is paid back in parts of this size.
const MIN_RUNTIME: Duration = Duration::from_micros(400);

/// Result of a change of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a deferred change is to be repeated"]
pub(super) enum Change {
    Made,
    /// Made, but the thread may not get a reservation again for [`LONG_PERIOD`]: the kernel could
    /// stop it.
    OfWoken,
    /// Not made, as the thread runs.
    Deferred,
}

impl Policy {
    /// Returns the reservation of a share of one CPU.
    pub(super) fn deadline(share: f64) -> Policy {
        let period = PERIOD.as_nanos() as u64;
        // Not a number is 0.
        let share = if share > 0.0 { share.min(MAX_SHARE) } else { 0.0 };
        let runtime = PERIOD.mul_f64(share).max(MIN_RUNTIME).as_nanos() as u64;
        let policy = Policy { policy: SCHED_DEADLINE, flags: RESET_ON_FORK, ..Policy::default() };
        Policy { runtime, deadline: period, period, ..policy }
    }

    /// Returns the lowest real-time priority.
    pub(super) fn round_robin() -> Policy {
        Policy { policy: SCHED_RR, flags: RESET_ON_FORK, priority: 1, ..Policy::default() }
    }

    /// Returns the policy of a thread of this process.
    pub(super) fn of(tid: u32) -> io::Result<Policy> {
        let mut policy = Policy::default();
        let size = size_of::<Policy>() as u32;
        // SAFETY: the call writes at most `size` bytes.
        let error = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut policy, size, 0) };
        if error < 0 { Err(io::Error::last_os_error()) } else { Ok(policy) }
    }

    /// Returns a reservation that is too small for the kernel to count.
    fn nothing() -> Policy {
        let (runtime, period) = (SHORTEST_RUNTIME.as_nanos() as u64, LONG_PERIOD.as_nanos() as u64);
        Policy { runtime, deadline: period, period, ..Policy::deadline(0.0) }
    }

    /// Sets this policy for a thread.
    ///
    /// The kernel keeps the reservation of a *sleeping* thread that gets another policy, for all
    /// time: after some of them no program of the machine can reserve anything (Linux 6.18,
    /// `switched_from_dl`). So a thread that loses its reservation is treated by its state:
    ///
    /// | thread | then |
    /// | --- | --- |
    /// | sleeps | its reservation is reduced to nothing before |
    /// | has used up its part, and is stopped | it gives its reservation back; with one of nothing it would stay stopped |
    /// | runs, and may fall asleep right now | nothing is changed: its part is enough |
    ///
    /// # Errors
    ///
    /// Fails without CAP_SYS_NICE, and if the kernel has no such share left.
    pub(super) fn set(self, thread: Thread) -> io::Result<Change> {
        let is_reserved = |policy: &Policy| policy.policy == SCHED_DEADLINE;
        let loses = !is_reserved(&self) && Policy::of(thread.tid).as_ref().is_ok_and(is_reserved);
        let sleeps = loses && !is_ready(thread);
        if sleeps {
            // Not permitted where the period may not be that long.
            let _ = Policy::nothing().change(thread.tid);
        } else if loses && thread.is_other() && thread.runs() {
            return Ok(Change::Deferred);
        }
        self.change(thread.tid)?;
        // It may have been woken in between.
        Ok(if sleeps && is_ready(thread) { Change::OfWoken } else { Change::Made })
    }

    /// Sets this policy, whatever the thread does.
    ///
    /// # Errors
    ///
    /// As for [`set`](Policy::set).
    pub(super) fn change(self, tid: u32) -> io::Result<()> {
        let policy = Policy { size: size_of::<Policy>() as u32, ..self };
        // SAFETY: the call reads as many bytes as `size` says.
        let error = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const policy, 0) };
        if error < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns `true` if it is none of real time.
    pub(super) fn is_ordinary(self) -> bool {
        matches!(self.policy, SCHED_OTHER | SCHED_BATCH | SCHED_IDLE)
    }
}

/// Returns the kernel's id of a thread, also before it has run for the first time; `None` if it has
/// ended.
pub(super) fn id<T>(thread: &JoinHandle<T>) -> Option<u32> {
    let mut clock = 0;
    // SAFETY: the handle keeps the thread's description, and the call writes one id of a clock.
    let error = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
    // The clock of a thread has the inverted bits of its id above three others.
    let id = !(clock >> 3) as u32;
    (error == 0 && id != 0).then_some(id)
}

/// Maximum share of one CPU in a reservation. The kernel leaves 5 % of each CPU to other threads.
const MAX_SHARE: f64 = 0.9;

/// Returns `true` if the kernel doesn't limit the time of threads with a real-time policy, by a
/// signal that ends the process.
pub(super) fn is_real_time_unlimited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one `rlimit`.
    let error = unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) };
    error == 0 && limit.rlim_cur == libc::RLIM_INFINITY
}

/// A thread of this or another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live::machine) struct Thread {
    /// `None` for this process.
    pub(super) process: Option<u32>,
    pub(super) tid: u32,
}

impl Thread {
    /// Returns a thread of this process.
    pub(in crate::live::machine) fn own(tid: u32) -> Thread {
        Thread { process: None, tid }
    }

    /// Returns the threads of another process; none if it has ended.
    pub(in crate::live::machine) fn all_of(process: u32) -> impl Iterator<Item = Thread> {
        let folder = std::fs::read_dir(format!("/proc/{process}/task"));
        let tids = folder.into_iter().flatten().filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        tids.map(move |tid| Thread { process: Some(process), tid })
    }

    fn is_other(self) -> bool {
        self.process.is_some() || self.tid != this_thread::id()
    }

    /// Returns `true` if it has a CPU; of another process, if any of its threads has one.
    fn runs(self) -> bool {
        let before = self.cpu_time();
        std::thread::sleep(RUN_CHECK);
        self.cpu_time() != before
    }

    /// Returns its CPU time up to now; 0 if it has ended. Of a thread of another process it is the time of
    /// that process: the kernel gives no other.
    fn cpu_time(self) -> u64 {
        clock::read(self.process.map_or(clock::of_thread(self.tid), clock::of_process))
    }

    /// Returns the path of a file about it.
    fn path(self, file: &str) -> String {
        let tid = self.tid;
        match self.process {
            None => format!("/proc/self/task/{tid}/{file}"),
            Some(process) => format!("/proc/{process}/task/{tid}/{file}"),
        }
    }
}

/// Time in which a ready thread with a reservation runs, unless it is stopped: after it was woken, a
/// few microseconds.
const RUN_CHECK: Duration = Duration::from_micros(250);

/// Times of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// CPU time.
    pub(super) run: Duration,
    /// Time ready to run, without a CPU.
    pub(super) wait: Duration,
}

impl Times {
    /// Opens the times of a thread.
    pub(super) fn open(thread: Thread) -> Option<File> {
        File::open(thread.path("schedstat")).ok()
    }

    /// Reads the times of a thread. `None` once it has ended, and on kernels that don't measure
    /// them.
    pub(super) fn read(file: &File) -> Option<Times> {
        read(file, parse_times)
    }
}

/// Returns `true` if a thread runs or waits for a CPU.
pub(in crate::live::machine) fn is_ready(thread: Thread) -> bool {
    std::fs::read_to_string(thread.path("stat")).is_ok_and(|text| parse_ready(&text))
}

/// Parses a line such as `12 (name) R 1 2 3`.
fn parse_ready(text: &str) -> bool {
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// Reads a file of the kernel that is open, which costs less than opening it.
fn read<T>(file: &File, parse: fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; 128];
    let count = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..count]).ok()?)
}

/// Parses a line such as `658053 403216 2`.
fn parse_times(text: &str) -> Option<Times> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok().map(Duration::from_nanos);
    Some(Times { run: next()?, wait: next()? })
}

/// Opens the number of threads of the machine that run or wait for a CPU.
pub(super) fn open_runnable() -> Option<File> {
    File::open("/proc/loadavg").ok()
}

/// Reads the number of threads of the machine that run or wait for a CPU.
pub(super) fn read_runnable(file: &File) -> Option<usize> {
    read(file, parse_runnable)
}

/// Parses a line such as `2.15 1.67 0.98 3/171 1234`.
fn parse_runnable(text: &str) -> Option<usize> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn reservation_is_a_share_of_its_period() {
        let runtime = |share| Duration::from_nanos(Policy::deadline(share).runtime);
        assert_eq!(runtime(0.5), Duration::from_millis(10));
        assert_eq!(runtime(0.0), MIN_RUNTIME);
        assert_eq!(runtime(7.0), PERIOD.mul_f64(MAX_SHARE));
        assert_eq!(runtime(f64::NAN), MIN_RUNTIME);
    }

    #[test]
    fn policy_of_thread_can_be_set_again() {
        let tid = this_thread::id();
        let policy = Policy::of(tid).unwrap();
        assert_eq!(policy.set(Thread::own(tid)).unwrap(), Change::Made);
        assert_eq!(Policy::of(tid).unwrap(), policy);
        assert!(policy.is_ordinary());
        assert!(!Policy::deadline(0.1).is_ordinary() && !Policy::round_robin().is_ordinary());
    }

    #[test]
    fn thread_loses_its_reservation_when_it_has_used_up_its_part() {
        // It is seen to run at first, unless this thread has no CPU then.
        let is_seen = || changes_of_busy_thread().is_none_or(|changes| changes.len() > 1);
        assert!((0..10).any(|_| is_seen()), "it is always stopped");
    }

    /// Returns the attempts to take the reservation from a thread that always works; `None` if it may
    /// have none.
    fn changes_of_busy_thread() -> Option<Vec<Change>> {
        let (is_over, (send_id, receive_id)) = (AtomicBool::new(false), sync_channel(1));
        std::thread::scope(|scope| {
            let is_over = &is_over;
            scope.spawn(move || {
                send_id.send(this_thread::id()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let thread = Thread::own(receive_id.recv().unwrap());
            let former = Policy::of(thread.tid).unwrap();
            let mut changes = Vec::new();
            let is_permitted = Policy::deadline(0.6).set(thread).is_ok();
            while is_permitted && changes.last() != Some(&Change::Made) && changes.len() < 1000 {
                changes.push(former.set(thread).unwrap());
                let is_reserved = !Policy::of(thread.tid).unwrap().is_ordinary();
                assert_eq!(is_reserved, changes.last() == Some(&Change::Deferred));
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(changes.len() < 1000, "it is never stopped");
            is_permitted.then_some(changes)
        })
    }

    #[test]
    fn running_threads_are_told_from_others() {
        let is_soon = |is_so: &dyn Fn() -> bool| {
            let begin = Instant::now();
            std::iter::repeat_with(is_so).take_while(|_| begin.elapsed() < PERIOD * 500).any(|it| it)
        };
        let programs = [(&["sleep", "60"][..], false), (&["sh", "-c", "while :; do :; done"], true)];
        for (program, runs) in programs {
            let mut child = std::process::Command::new(program[0]).args(&program[1..]).spawn().unwrap();
            let thread = Thread { process: Some(child.id()), tid: child.id() };
            let is_told = is_soon(&|| is_ready(thread) == runs && thread.runs() == runs);
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_told, "{program:?}");
        }
        let (own, is_over) = (Thread::own(this_thread::id()), AtomicBool::new(false));
        assert!(!own.is_other());
        let is_told = std::thread::scope(|scope| {
            let observer = scope.spawn(|| {
                let is_told = is_soon(&|| own.runs()) && is_soon(&|| !own.runs());
                is_over.store(true, Ordering::Relaxed);
                is_told
            });
            let mut sum = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                (0..1 << 20).for_each(|number| sum = std::hint::black_box(sum.wrapping_add(number)));
                std::thread::sleep(Duration::from_millis(2));
            }
            observer.join().unwrap()
        });
        assert!(is_told);
    }

    #[test]
    fn sleeping_threads_give_back_what_was_reserved() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let thread = Thread { process: Some(sleeper.id()), tid: sleeper.id() };
        while is_ready(thread) {
            std::thread::yield_now();
        }
        let former = Policy::of(thread.tid).unwrap();
        let is_permitted = Policy::deadline(0.3).set(thread).is_ok();
        assert_eq!(former.set(thread).unwrap(), Change::Made, "it sleeps");
        for _ in 0..20 {
            assert_eq!(Policy::deadline(0.3).set(thread).is_ok(), is_permitted);
            assert_eq!(former.set(thread).unwrap(), Change::Made, "it sleeps");
            assert_eq!(Policy::of(thread.tid).unwrap(), former);
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn thread_that_was_started_has_an_id() {
        let thread = std::thread::spawn(this_thread::id);
        let id = id(&thread);
        let own = thread.join().unwrap();
        assert!(id.is_none_or(|id| id == own), "{id:?}, {own}");
    }

    #[test]
    fn parses_files_of_the_scheduler() {
        let times = Times { run: Duration::from_nanos(658053), wait: Duration::from_nanos(403216) };
        assert_eq!(parse_times("658053 403216 2\n"), Some(times));
        assert_eq!((parse_times(""), parse_times("1"), parse_times("x 1")), (None, None, None));
        assert_eq!(parse_runnable("2.15 1.67 0.98 3/171 1234\n"), Some(3));
        assert_eq!((parse_runnable(""), parse_runnable("1 2 3 4")), (None, None));
        let ready = ["1 (a) R 2", "1 (b) S) R 2", "1 (R ) S 2", ""].map(parse_ready);
        assert_eq!(ready, [true, true, false, false]);
        let file = open_runnable().unwrap();
        assert!(read_runnable(&file).unwrap() > 0 && read_runnable(&file).unwrap() > 0);
        let times = Times::read(&Times::open(Thread::own(this_thread::id())).unwrap());
        assert!(times.is_some(), "the kernel measures the times of threads");
    }
}
