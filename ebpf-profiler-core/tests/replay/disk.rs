//! A disk that fails or hangs ends the recording only.

use std::io::{self, Cursor, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ebpf_profiler_core::internal::pipeline::Clock;
use ebpf_profiler_core::internal::replay::{RecordOptions, Recorder};
use ebpf_profiler_core::internal::sample::{Batch, Counts};
use ebpf_profiler_core::internal::testing::FakeTick;
use ebpf_profiler_core::replay::{Incomplete, Replay};
use ebpf_profiler_core::symbol::NoSymbols;

use crate::world::Shared;

/// Accepts a number of bytes, then fails.
struct Full {
    room: usize,
    written: Shared,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = bytes.len().min(self.room);
        if accepted == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= accepted;
        self.written.write(&bytes[..accepted])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts nothing until its channel is closed.
struct Hanging(Receiver<()>);

impl Write for Hanging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> RecordOptions {
    RecordOptions::new(Clock::default(), Duration::from_millis(10))
}

/// Returns a batch of about 8 KiB.
fn batch() -> Batch {
    let mut batch = Batch::default();
    batch.push_tick(&FakeTick::walked(1, 7, "cat", &[0; 1000]).bytes());
    batch
}

#[test]
fn a_full_disk_is_an_error_and_later_events_are_counted() {
    let written = Shared::default();
    let recorder = Recorder::new(Full { room: 50_000, written: written.clone() }, &options()).unwrap();
    // The first write that does not fit ends the recording, on its thread.
    while recorder.stats().left_out < 100 {
        recorder.batch(&batch());
        recorder.flush(&Counts::default());
        // Slower than the thread writes: a queue that is full is another error.
        std::thread::sleep(Duration::from_millis(1));
    }
    let stats = recorder.finish();
    let error = stats.error.unwrap();
    assert!(error.contains("cannot be written"), "{error}");
    assert!((30_000..=50_000).contains(&stats.bytes), "{}", stats.bytes);

    let recording = written.0.lock().unwrap().clone();
    assert_eq!(recording.len(), 50_000);
    let replay = Replay::read(Cursor::new(recording)).unwrap().symbolizer(NoSymbols);
    let Some(Incomplete::Truncated { whole, partial }) = replay.incomplete() else { panic!("{replay:?}") };
    assert_eq!(whole + partial, 50_000);
    assert!((3..=6).contains(&replay.profile().unwrap().count()));
}

#[test]
fn a_disk_that_hangs_does_not_block() {
    let (release, wait) = channel();
    let recorder = Recorder::new(Hanging(wait), &options()).unwrap();
    let batch = batch();
    while recorder.stats().error.is_none() {
        recorder.batch(&batch);
    }
    assert!(recorder.stats().error.unwrap().contains("slower than the events"));
    recorder.batch(&batch);
    drop(release);
    assert!(recorder.finish().left_out >= 2);
}

#[test]
fn a_path_that_cannot_be_written_is_an_error_at_once() {
    assert!(Recorder::create("/proc/no/such/folder/run.ticks", &options()).is_err());
}
