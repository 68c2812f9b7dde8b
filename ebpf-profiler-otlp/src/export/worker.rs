//! The thread that sends.
//!
//! ```text
//!   queue ──► attempt ──► delivered, refused: done
//!   spool ──┘    │
//!                ├─ too large ──► two parts, handled like the message
//!                └─ retry ──► with a spool: to disk, and so are messages that come in during the wait
//!                             without: the same message after the wait, until its time is over
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::answer::Verdict;
use super::compression::{Coding, Compression};
use super::divide::divide;
use super::error::ExportError;
use super::queue::{Pause, Queue};
use super::retry::Backoff;
use super::settings::Settings;
use super::spool::{Spool, Spooled};
use super::stats::Counters;
use super::transport::Transport;

/// Sends the messages of the queue and the spool one after the other.
#[derive(Debug)]
pub(super) struct Worker {
    transport: Transport,
    compression: Compression,
    timeout: Duration,
    hard_limit: usize,
    backoff: Backoff,
    /// Messages in memory that are sent before the queue: one, or the parts of one.
    held: VecDeque<Job>,
    spool: Option<Spool>,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
}

/// A compressed message.
#[derive(Debug)]
struct Job {
    body: Bytes,
    coding: Coding,
    since: Instant,
    /// Its number in the spool; `None` if it came from the queue.
    spooled: Option<u64>,
}

/// Size in bytes below which a message is not divided: a collector with such a limit rejects the
/// halves, too.
const MIN_DIVIDED: usize = 32 << 10;

impl Worker {
    pub(super) fn new(
        settings: &Settings,
        queue: Arc<Queue>,
        counters: Arc<Counters>,
    ) -> Result<Worker, ExportError> {
        let spool = settings.spool.as_ref().map(|(path, max_bytes)| {
            Spool::open(path, *max_bytes, settings.hard_limit as u64)
                .map_err(|source| ExportError::Spool { path: path.clone(), source })
        });
        let worker = Worker {
            transport: Transport::new(settings)?,
            compression: settings.compression,
            timeout: settings.timeout,
            hard_limit: settings.hard_limit,
            backoff: Backoff::new(settings.policy),
            held: VecDeque::new(),
            spool: spool.transpose()?,
            queue,
            counters,
        };
        worker.count_spooled();
        if let Some(skipped) = worker.spool.as_ref().map(Spool::skipped).filter(|&skipped| skipped > 0) {
            worker.counters.set_error(format!(
                "{skipped} files of the spool skipped: not regular, of another user, or too large"
            ));
        }
        Ok(worker)
    }

    /// Sends until the queue is closed and its messages are sent, saved, or past the deadline.
    pub(super) fn run(mut self) {
        let queue = self.queue.clone();
        let _end = OnDrop(|| queue.end());
        while let Some(job) = self.next() {
            match self.attempt(&job) {
                Verdict::Delivered { rejected, message } => self.delivered(&job, rejected, &message),
                Verdict::Refused { why } => self.refused(&job, why),
                Verdict::TooLarge { why } => self.too_large(&job, why),
                Verdict::Retry { after, why } => self.postpone(job, after, why),
            }
        }
        for _ in self.held.drain(..) {
            if self.queue.done() {
                self.counters.abandoned(1);
            }
        }
        self.save_queue();
    }

    fn next(&mut self) -> Option<Job> {
        if self.queue.is_over() {
            return None;
        }
        if let Some(job) = self.held.pop_front() {
            return Some(job);
        }
        if let Some(message) = self.queue.try_next() {
            return Some(self.compress(message));
        }
        match self.next_spooled() {
            Some(job) => Some(job),
            None => self.queue.next().map(|message| self.compress(message)),
        }
    }

    fn compress(&mut self, message: Bytes) -> Job {
        let (body, coding) = self.compression.encode(&message);
        Job { body, coding, since: Instant::now(), spooled: None }
    }

    fn next_spooled(&mut self) -> Option<Job> {
        loop {
            match self.spool.as_ref()?.oldest()? {
                Ok(Spooled { number, coding, body }) => {
                    return Some(Job { body, coding, since: Instant::now(), spooled: Some(number) });
                }
                Err((number, error)) => {
                    self.spool_failed("cannot read the spool", &error);
                    self.remove_spooled(number);
                }
            }
        }
    }

    fn attempt(&mut self, job: &Job) -> Verdict {
        let end = Instant::now() + self.timeout;
        self.counters.sent(job.body.len());
        let queue = &self.queue;
        self.transport.attempt(&job.body, job.coding, &|| queue.shorten(end))
    }

    fn delivered(&mut self, job: &Job, rejected: u64, message: &str) {
        if rejected > 0 || !message.is_empty() {
            self.counters.set_error(format!("the collector rejected {rejected} samples: {message}"));
        }
        self.settle(job, |counters| counters.delivered(rejected));
    }

    fn refused(&mut self, job: &Job, why: String) {
        self.counters.set_error(why);
        self.settle(job, Counters::refused);
    }

    /// Divides a message, unless it is so small that its size cannot be the reason.
    fn too_large(&mut self, job: &Job, why: String) {
        self.counters.set_error(why);
        let message = job.coding.decode(&job.body, self.hard_limit).filter(|it| it.len() >= MIN_DIVIDED);
        let Some(parts) = message.as_deref().and_then(divide) else {
            return self.settle(job, Counters::too_large);
        };
        self.counters.refused_size(message.map_or(0, |message| message.len()));
        self.counters.divided();
        let [first, second] = parts.map(|part| Job { since: job.since, ..self.compress(part.into()) });
        if self.spool.is_none() {
            self.queue.divided();
            self.held.push_front(second);
            self.held.push_front(first);
            return;
        }
        self.add_to_spool(&first);
        self.add_to_spool(&second);
        match job.spooled {
            Some(number) => self.remove_spooled(number),
            None => drop(self.queue.done()),
        }
    }

    /// Counts the outcome of a message that needs no further attempt.
    fn settle(&mut self, job: &Job, count: impl FnOnce(&Counters)) {
        self.backoff.reset();
        if job.spooled.is_some() || self.queue.done() {
            count(&self.counters);
        }
        if let Some(number) = job.spooled {
            self.remove_spooled(number);
        }
    }

    fn postpone(&mut self, job: Job, after: Option<Duration>, why: String) {
        self.counters.set_error(why);
        if self.spool.is_some() {
            return self.postpone_on_disk(&job, after);
        }
        let Some(wait) = self.backoff.wait(job.since.elapsed(), after) else {
            return self.settle(&job, Counters::gave_up);
        };
        self.queue.pause(wait, false);
        self.counters.retry();
        self.held.push_front(job);
    }

    fn postpone_on_disk(&mut self, job: &Job, after: Option<Duration>) {
        if job.spooled.is_none() {
            self.save(job);
        }
        // On disk, the size of the spool is the limit and not the time.
        let wait = self.backoff.wait(Duration::ZERO, after).unwrap_or(self.backoff.longest());
        let until = Instant::now() + wait;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.queue.pause(rest, true) {
                Pause::Message => self.save_queue(),
                Pause::Over => return self.counters.retry(),
            }
        }
    }

    /// Moves the queue's messages to the spool, if there is one.
    fn save_queue(&mut self) {
        while self.spool.is_some() {
            let Some(message) = self.queue.pop() else { return };
            let job = self.compress(message);
            self.save(&job);
        }
    }

    fn save(&mut self, job: &Job) {
        self.add_to_spool(job);
        self.queue.done();
    }

    fn add_to_spool(&mut self, job: &Job) {
        let saved = self.spool.as_mut().map(|spool| spool.add(&job.body, job.coding));
        if let Some(Err(error)) = saved {
            self.spool_failed("cannot write to the spool", &error);
        }
        self.count_spooled();
    }

    fn remove_spooled(&mut self, number: u64) {
        if let Some(spool) = &mut self.spool {
            spool.remove(number);
        }
        self.count_spooled();
    }

    fn spool_failed(&self, doing: &str, error: &io::Error) {
        self.counters.set_error(format!("{doing}: {error}"));
        self.counters.spool_failed();
    }

    fn count_spooled(&self) {
        self.counters.spooled(self.spool.as_ref().map_or(0, Spool::len));
    }
}

/// Runs a function when it is dropped, also during a panic.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}
