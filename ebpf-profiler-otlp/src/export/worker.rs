//! The thread that sends.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use flate2::Compression;

use super::answer::{Verdict, verdict};
use super::endpoint::Endpoint;
use super::error::ExportError;
use super::http::exchange;
use super::queue::Queue;
use super::retry::{Backoff, Policy};
use super::settings::Settings;
use super::stats::Counters;
use crate::gzip::gzip;

/// Takes messages from the queue and sends one after the other.
#[derive(Debug)]
pub(super) struct Worker {
    endpoint: Endpoint,
    /// The request up to the length of its body.
    head: String,
    gzip: Option<Compression>,
    timeout: Duration,
    policy: Policy,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
}

impl Worker {
    pub(super) fn new(
        settings: &Settings,
        queue: Arc<Queue>,
        counters: Arc<Counters>,
    ) -> Result<Worker, ExportError> {
        let endpoint = Endpoint::parse(&settings.endpoint)?;
        Ok(Worker {
            head: head(&endpoint, settings)?,
            endpoint,
            gzip: settings.gzip.map(Compression::new),
            timeout: settings.timeout,
            policy: settings.policy,
            queue,
            counters,
        })
    }

    /// Sends until the queue is closed.
    pub(super) fn run(self) {
        while let Some(message) = self.queue.next() {
            self.deliver(&message);
            self.queue.done();
        }
    }

    fn deliver(&self, message: &Bytes) {
        let body = self.gzip.map_or_else(|| message.clone(), |level| gzip(message, level));
        let start = Instant::now();
        let mut backoff = Backoff::new(self.policy);
        loop {
            match self.attempt(&body) {
                Verdict::Delivered { rejected, message } => return self.delivered(rejected, message),
                Verdict::Refused { why } => return self.refused(why),
                Verdict::Later { after, why } => {
                    self.counters.went_wrong(why);
                    let Some(wait) = backoff.wait(start.elapsed(), after) else {
                        return self.counters.gave_up();
                    };
                    if !self.queue.pause(wait) {
                        return self.counters.abandoned(1);
                    }
                    self.counters.retry();
                }
            }
        }
    }

    fn attempt(&self, body: &[u8]) -> Verdict {
        let end = Instant::now() + self.timeout;
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head, body.len());
        self.counters.sent(body.len());
        verdict(exchange(&self.endpoint, &head, body, &|| self.queue.shorten(end)), SystemTime::now())
    }

    fn delivered(&self, rejected: u64, message: String) {
        if rejected > 0 || !message.is_empty() {
            self.counters.went_wrong(format!("the collector rejected {rejected} samples: {message}"));
        }
        self.counters.delivered(rejected);
    }

    fn refused(&self, why: String) {
        self.counters.went_wrong(why);
        self.counters.refused();
    }
}

fn head(endpoint: &Endpoint, settings: &Settings) -> Result<String, ExportError> {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\n\
         User-Agent: ebpf-profiler-otlp/{}\r\n",
        endpoint.path,
        endpoint.authority,
        env!("CARGO_PKG_VERSION"),
    );
    if settings.gzip.is_some() {
        head.push_str("Content-Encoding: gzip\r\n");
    }
    for (name, value) in &settings.headers {
        check_header(name, value)?;
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    Ok(head)
}

/// A line break in a header would be a header of its own, or the end of them.
fn check_header(name: &str, value: &str) -> Result<(), ExportError> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let line = |c: char| c == '\t' || !c.is_control();
    if !name.is_empty() && name.bytes().all(token) && value.chars().all(line) {
        return Ok(());
    }
    Err(ExportError::Header { name: name.to_owned() })
}
