//! A disk that fails or hangs ends the recording, and nothing else.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ebpf_profiler_core::pipeline::Clock;
use ebpf_profiler_core::replay::{RecordOptions, Recorder};
use ebpf_profiler_core::sample::{Batch, Counts};
use ebpf_profiler_core::testing::FakeTick;

/// Takes so many bytes, then none.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes nothing until it is let go.
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

/// Some 8 KiB.
fn batch() -> Batch {
    let mut batch = Batch::default();
    batch.push_tick(&FakeTick::walked(1, 7, "cat", &[0; 1000]).bytes());
    batch
}

#[test]
fn a_full_disk_is_said_and_what_came_later_is_counted() {
    let recorder = Recorder::new(Full(50_000), &options()).unwrap();
    // The first of these that doesn't fit ends it, a moment later.
    while recorder.stats().left_out < 100 {
        recorder.batch(&batch());
        recorder.flush(&Counts::default());
    }
    let stats = recorder.finish();
    assert!(stats.error.unwrap().contains("can't be written"));
    assert!((30_000..=50_000).contains(&stats.bytes), "{}", stats.bytes);
}

#[test]
fn a_disk_that_hangs_holds_nobody_up() {
    let (let_go, wait) = channel();
    let recorder = Recorder::new(Hanging(wait), &options()).unwrap();
    let batch = batch();
    while recorder.stats().error.is_none() {
        recorder.batch(&batch);
    }
    assert!(recorder.stats().error.unwrap().contains("as fast as events come"));
    recorder.batch(&batch);
    drop(let_go);
    assert!(recorder.finish().left_out >= 2);
}

#[test]
fn a_path_that_can_not_be_written_is_an_error_at_once() {
    assert!(Recorder::create("/proc/no/such/folder/run.ticks", &options()).is_err());
}
