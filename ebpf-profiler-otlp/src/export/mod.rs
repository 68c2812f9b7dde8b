//! Sends profiles to a collector.
//!
//! ```text
//!   Profile ──► Encoder ──► queue ──► worker ──► OTLP/HTTP or OTLP/gRPC
//!               in take()   bounded   a thread   compressed, one connection a message
//!                                       │
//!                            spool ◄──► └─ answer ──► delivered · partly · retry · in halves · refused
//! ```
//!
//! The thread that calls [`take`](Sink::take) encodes and queues; everything that waits for the
//! network or the disk is in the worker.

mod answer;
mod compression;
mod connection;
mod dial;
mod divide;
mod endpoint;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "grpc")]
mod grpc;
mod http;
mod queue;
mod request;
mod retry;
#[cfg(feature = "tls")]
mod secure;
mod settings;
mod spool;
mod stats;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::{Sink, SinkError};

pub use compression::{Compression, ParseCompressionError};
pub use error::ExportError;
pub use settings::{Protocol, Settings};
pub use stats::Stats;

use crate::encode::Encoder;
use queue::Queue;
use stats::Counters;
use worker::Worker;

/// A [`Sink`] that sends profiles to a collector over OTLP/HTTP, or over OTLP/gRPC with the feature
/// `grpc`.
///
/// [`take`](Sink::take) encodes and queues a profile and never waits for the network; a thread of
/// the exporter sends it. Messages are retried as the OTLP specification says. A message that finds
/// no room in the queue, is refused, or is not delivered in time is dropped and counted in
/// [`Stats`].
///
/// [`flush`](Sink::flush) and dropping the exporter send the queue for at most
/// [`Settings::flush_timeout`]; the rest is dropped and counted.
///
/// # Examples
///
/// A collector that takes one request:
///
/// ```
/// use std::io::{BufRead, BufReader, Read, Write};
/// use std::net::TcpListener;
/// use ebpf_profiler_core::sink::Sink;
/// use ebpf_profiler_otlp::{Exporter, Settings};
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::{Process, ProfileBuilder, Thread}, symbol::NoSymbols};
/// # use ebpf_profiler_core::trace::{Frame, Stop, Trace};
/// # let mut builder = ProfileBuilder::new(Duration::from_millis(50));
/// # let process = builder.process(Process::new(7));
/// # let thread = builder.thread(Thread::new(process, 7, "worker"));
/// # let frames = vec![Frame::Kernel { address: 1 << 63 }];
/// # builder.add(thread, &Trace::new(frames, Stop::NoUserStack), 1_000);
/// # let profile = builder.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let endpoint = format!("http://{}/v1development/profiles", listener.local_addr()?);
/// let collector = std::thread::spawn(move || -> std::io::Result<usize> {
///     let mut request = BufReader::new(listener.accept()?.0);
///     let head: Vec<String> = request.by_ref().lines().map_while(Result::ok).take_while(|it| !it.is_empty()).collect();
///     let len = head.iter().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
///     let mut body = vec![0; len.unwrap_or(0)];
///     request.read_exact(&mut body)?;
///     request.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
///     Ok(body.len())
/// });
///
/// let mut exporter = Exporter::new(Settings::new(endpoint))?;
/// exporter.take(&profile)?;
/// exporter.flush()?;
/// assert_eq!(exporter.stats().delivered, 1);
/// assert!(collector.join().unwrap()? > 0);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    encoder: Encoder,
    settings: Settings,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    worker: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts an exporter with the settings of the environment; see [`Settings::from_env`].
    ///
    /// # Errors
    ///
    /// Fails if a variable has an invalid or unsupported value, and as [`new`](Exporter::new) does.
    pub fn from_env() -> Result<Exporter, ExportError> {
        Exporter::new(Settings::from_env()?)
    }

    /// Starts an exporter. The collector may be absent.
    ///
    /// # Errors
    ///
    /// Fails if the endpoint, a header, a certificate or the [spool](Settings::spool) directory is
    /// unusable, or if the thread cannot be started.
    pub fn new(settings: Settings) -> Result<Exporter, ExportError> {
        let queue = Arc::new(Queue::new(settings.queue_bytes));
        let counters = Arc::new(Counters::default());
        let worker = Worker::new(&settings, queue.clone(), counters.clone())?;
        let thread = std::thread::Builder::new().name("otlp-export".into());
        let worker = thread.spawn(move || worker.run()).map_err(|source| ExportError::Thread { source })?;
        let encoder = encoder(&settings);
        Ok(Exporter { encoder, settings, queue, counters, worker: Some(worker) })
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot(self.queue.len())
    }

    /// Returns a function that reads the counters after the exporter was moved into a profiler.
    pub fn watch(&self) -> impl Fn() -> Stats + Send + Sync + use<> {
        let (queue, counters) = (self.queue.clone(), self.counters.clone());
        move || counters.snapshot(queue.len())
    }

    /// Lowers the size limit of messages after the collector found one too large.
    fn update_limit(&mut self) {
        let limit = self.counters.limit();
        if limit < self.settings.limit {
            self.settings.limit = limit;
            self.encoder = encoder(&self.settings);
        }
    }

    /// Sends the queue until `timeout` passes, and counts the rest as abandoned.
    ///
    /// The worker stops sending earlier, so that it can leave a connection or write to the spool.
    /// If it is stuck in a system call nevertheless, its thread is left behind.
    fn close(&mut self, timeout: Duration) -> Result<(), ExportError> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        let start = Instant::now();
        let reserve = if self.settings.spool.is_some() { timeout / 2 } else { timeout / 10 };
        self.queue.close(start + (timeout - reserve));
        let has_ended = self.queue.wait_for_end(start + timeout);
        self.counters.abandoned(self.queue.abandon());
        let has_panicked = has_ended && worker.join().is_err();
        let stats = self.stats();
        match (has_panicked, stats.abandoned) {
            (true, _) => Err(ExportError::Panicked),
            (false, 0) => Ok(()),
            (false, left) => Err(ExportError::NotFlushed { left, last_error: stats.last_error }),
        }
    }
}

fn encoder(settings: &Settings) -> Encoder {
    Encoder::new(settings.resource.clone())
        .limit(settings.limit)
        .all_frame_types(settings.all_frame_types)
        .linker_names(settings.linker_names)
}

impl Sink for Exporter {
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        self.update_limit();
        let mut lost = 0;
        for message in self.encoder.encode(profile) {
            if message.len() > self.settings.hard_limit {
                self.counters.too_large();
                lost += 1;
            } else if !self.queue.push(message) {
                self.counters.queue_full();
                lost += 1;
            }
        }
        match lost {
            0 => Ok(()),
            lost => Err(ExportError::NotTaken { lost, last_error: self.stats().last_error }.into()),
        }
    }

    /// Sends the queue; profiles taken afterwards are dropped and counted.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(self.close(self.settings.flush_timeout)?)
    }

    /// Sends the queue until the flush timeout, or shortly before `deadline` if that is earlier.
    fn flush_until(&mut self, deadline: Instant) -> Result<(), SinkError> {
        // A tenth is for the profiler, which counts the losses.
        let left = deadline.saturating_duration_since(Instant::now()).mul_f64(0.9);
        Ok(self.close(self.settings.flush_timeout.min(left))?)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Only `flush` returns the error; the counters hold the losses in both cases.
        let _ = self.close(self.settings.flush_timeout);
    }
}
