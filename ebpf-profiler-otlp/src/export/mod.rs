//! Brings profiles to a collector.
//!
//! ```text
//!   Profile ──► Encoder ──► queue ──► worker ──► OTLP/HTTP or OTLP/gRPC
//!               in take()   bounded   a thread   packed, one connection a message
//!                                       │
//!                            spool ◄──► └─ answer ──► delivered · partly · again, later · in halves · refused
//! ```
//!
//! The pipeline's thread encodes and queues; all that can wait for the network waits in the worker.

mod answer;
mod compression;
mod connection;
mod divide;
mod endpoint;
mod error;
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
use std::time::Instant;

use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::{Sink, SinkError};

pub use compression::Compression;
pub use error::ExportError;
pub use settings::{Protocol, Settings};
pub use stats::Stats;

use crate::encode::Encoder;
use queue::Queue;
use stats::Counters;
use worker::Worker;

/// Sends profiles to a collector over OTLP/HTTP, or over OTLP/gRPC with the feature `grpc`.
///
/// Taking a profile never waits for the network: it is encoded and queued, and a thread of the exporter sends it.
/// What can't be delivered for some time is sent again, as the specification says; what doesn't fit into the queue,
/// is refused, or waits for too long is dropped and counted in the [`Stats`].
///
/// Flushing and dropping the exporter wait for what is queued, for as long as the
/// [timeout](Settings::flush_timeout) says.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::{Exporter, Settings};
///
/// let exporter = Exporter::new(Settings::new("http://localhost:4318/v1development/profiles"))?;
/// println!("{}", exporter.stats());
/// # Ok::<(), ebpf_profiler_otlp::ExportError>(())
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
    /// An exporter as the environment wants it, for this machine; see [`Settings::from_env`].
    ///
    /// # Errors
    ///
    /// When a variable can't be understood or asks for what isn't there.
    pub fn from_env() -> Result<Exporter, ExportError> {
        Exporter::new(Settings::from_env()?)
    }

    /// An exporter with these settings.
    ///
    /// # Errors
    ///
    /// When the endpoint can't be understood or isn't supported, or the thread can't be started. Whether somebody
    /// listens there isn't asked: collectors come and go. Also when there is to be a
    /// [spool](Settings::spool) and its directory can't be used.
    pub fn new(settings: Settings) -> Result<Exporter, ExportError> {
        let queue = Arc::new(Queue::new(settings.queue_bytes));
        let counters = Arc::new(Counters::default());
        let worker = Worker::new(&settings, queue.clone(), counters.clone())?;
        let thread = std::thread::Builder::new().name("otlp-export".into());
        let worker = thread.spawn(move || worker.run()).map_err(|error| ExportError::Thread(error.kind()))?;
        let encoder = encoder(&settings);
        Ok(Exporter { encoder, settings, queue, counters, worker: Some(worker) })
    }

    /// What became of the profiles so far.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot(self.queue.len())
    }

    /// A way to the numbers for when the exporter belongs to a profiler.
    pub fn watch(&self) -> impl Fn() -> Stats + Send + Sync + use<> {
        let (queue, counters) = (self.queue.clone(), self.counters.clone());
        move || counters.snapshot(queue.len())
    }

    /// Makes messages smaller from now on, if a collector found one too large.
    fn heed_limit(&mut self) {
        let limit = self.counters.limit();
        if limit < self.settings.limit {
            self.settings.limit = limit;
            self.encoder = encoder(&self.settings);
        }
    }

    /// Lets the worker send what is queued, and waits until that is done or given up.
    fn close(&mut self) -> Result<(), ExportError> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        self.queue.close(Instant::now() + self.settings.flush_timeout);
        let joined = worker.join();
        self.counters.abandoned(self.queue.abandon());
        let stats = self.stats();
        match (joined, stats.abandoned) {
            (Err(_), _) => Err(ExportError::Thread(std::io::ErrorKind::Other)),
            (Ok(()), 0) => Ok(()),
            (Ok(()), left) => Err(ExportError::NotFlushed { left, why: stats.last_error }),
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
        self.heed_limit();
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
            lost => Err(ExportError::NotTaken { lost, why: self.stats().last_error }.into()),
        }
    }

    /// Sends what is queued; nothing is taken any more afterwards.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(self.close()?)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Whoever wants to know calls `flush`; what is lost here is counted all the same.
        let _ = self.close();
    }
}
