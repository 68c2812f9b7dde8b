//! The thread that sends.
//!
//! ```text
//!   queue ──► attempt ──► delivered, refused: done
//!   spool ──┘    │
//!                ├─ too large ──► in two parts, each as if it had been in the queue, or in the spool
//!                └─ later ──► with a spool: onto disk, and so is what comes in until the wait is over
//!                             without: the same again after the wait, until it is given up
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

/// Takes messages from the queue and sends one after the other.
#[derive(Debug)]
pub(super) struct Worker {
    transport: Transport,
    compression: Compression,
    timeout: Duration,
    hard_limit: usize,
    backoff: Backoff,
    /// Messages that are tried next, where they aren't on disk: one, or the parts of one.
    held: VecDeque<Job>,
    spool: Option<Spool>,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
}

/// A message, ready to be sent.
#[derive(Debug)]
struct Job {
    body: Bytes,
    coding: Coding,
    since: Instant,
    /// Its number, where it is on disk.
    spooled: Option<u64>,
}

impl Worker {
    pub(super) fn new(
        settings: &Settings,
        queue: Arc<Queue>,
        counters: Arc<Counters>,
    ) -> Result<Worker, ExportError> {
        let spool = settings.spool.clone().map(|(directory, most_bytes)| {
            let path = directory.clone();
            Spool::open(directory, most_bytes)
                .map_err(|error| ExportError::Spool { path, kind: error.kind() })
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
        Ok(worker)
    }

    /// Sends until the queue is closed, and what is in there sent, saved, or out of time.
    pub(super) fn run(mut self) {
        while let Some(job) = self.next() {
            match self.attempt(&job) {
                Verdict::Delivered { rejected, message } => self.delivered(job, rejected, &message),
                Verdict::Refused { why } => self.refused(job, why),
                Verdict::TooLarge { why } => self.too_large(job, why),
                Verdict::Later { after, why } => self.postpone(job, after, why),
            }
        }
        for _ in self.held.drain(..) {
            self.counters.abandoned(1);
            self.queue.done();
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
            return Some(self.pack(message));
        }
        match self.next_spooled() {
            Some(job) => Some(job),
            None => self.queue.next().map(|message| self.pack(message)),
        }
    }

    fn pack(&mut self, message: Bytes) -> Job {
        let (body, coding) = self.compression.pack(&message);
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
                    self.forget(number);
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

    fn delivered(&mut self, job: Job, rejected: u64, message: &str) {
        if rejected > 0 || !message.is_empty() {
            self.counters.went_wrong(format!("the collector rejected {rejected} samples: {message}"));
        }
        self.counters.delivered(rejected);
        self.settled(job);
    }

    fn refused(&mut self, job: Job, why: String) {
        self.counters.went_wrong(why);
        self.counters.refused();
        self.settled(job);
    }

    /// Divides a message, unless it is so small already that size can't be what is wrong.
    fn too_large(&mut self, job: Job, why: String) {
        self.counters.went_wrong(why);
        let message = job.coding.unpack(&job.body, self.hard_limit).filter(|it| it.len() >= SMALL);
        let Some(parts) = message.as_deref().and_then(divide) else {
            self.counters.too_large();
            return self.settled(job);
        };
        self.counters.refused_size(message.map_or(0, |message| message.len()));
        self.counters.divided();
        let [first, second] = parts.map(|part| Job { since: job.since, ..self.pack(part.into()) });
        match (&self.spool, job.spooled) {
            (None, _) => {
                self.queue.divided();
                self.held.push_front(second);
                self.held.push_front(first);
            }
            (Some(_), spooled) => {
                self.add_to_spool(&first);
                self.add_to_spool(&second);
                match spooled {
                    Some(number) => self.forget(number),
                    None => self.queue.done(),
                }
            }
        }
    }

    /// Nothing more is to be done for this message, and somebody is there.
    fn settled(&mut self, job: Job) {
        self.backoff.reset();
        match job.spooled {
            Some(number) => self.forget(number),
            None => self.queue.done(),
        }
    }

    fn postpone(&mut self, job: Job, after: Option<Duration>, why: String) {
        self.counters.went_wrong(why);
        if self.spool.is_some() {
            return self.postpone_on_disk(job, after);
        }
        let Some(wait) = self.backoff.wait(job.since.elapsed(), after) else {
            self.counters.gave_up();
            return self.settled(job);
        };
        self.queue.pause(wait, false);
        self.counters.retry();
        self.held.push_front(job);
    }

    fn postpone_on_disk(&mut self, job: Job, after: Option<Duration>) {
        if job.spooled.is_none() {
            self.save(&job);
        }
        // On disk there is time; the size of the spool is the limit.
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

    /// Brings what waits in memory onto disk, if there is one for it.
    fn save_queue(&mut self) {
        while self.spool.is_some() {
            let Some(message) = self.queue.take() else { return };
            let job = self.pack(message);
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

    fn forget(&mut self, number: u64) {
        if let Some(spool) = &mut self.spool {
            spool.remove(number);
        }
        self.count_spooled();
    }

    fn spool_failed(&self, doing: &str, error: &io::Error) {
        self.counters.went_wrong(format!("{doing}: {error}"));
        self.counters.spool_failed();
    }

    fn count_spooled(&self) {
        self.counters.spooled(self.spool.as_ref().map_or(0, Spool::len));
    }
}

/// Who finds a message of this size too large has no use for half of it either.
const SMALL: usize = 32 << 10;
