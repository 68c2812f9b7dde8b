//! The frames of a profile that lie in copies.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{FrameView, Profile};

/// Maximum number of open descriptors.
const MAX_DESCRIPTORS: usize = 8_500;

/// Maximum resident memory in bytes.
const MAX_MEMORY: u64 = 300 << 20;

/// The frames of copies.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    frames: u64,
    named: u64,
    /// Of the named ones, those of `work.c` with line, and those of the loop with the function that
    /// is inlined.
    compiled: u64,
    lines: u64,
    in_loop: u64,
    inlined: u64,
    copies: BTreeSet<String>,
    unnamed: Vec<String>,
    descriptors: usize,
    memory: u64,
}

/// Profiles this machine while `work` runs, with profiles of `interval`. Returns the frames, and
/// the result of `work`.
pub(crate) fn profile<T>(interval: Duration, work: impl FnOnce() -> T) -> (Seen, T) {
    let (sender, receiver) = channel::<Profile>();
    let sender = Mutex::new(sender);
    let profiler = Profiler::builder()
        .frequency(199)
        .deadline(Duration::from_secs(60))
        .unwind(ebpf_profiler_unwind::tables())
        .every(interval)
        .sink(move |profile: &Profile| Ok(sender.lock().unwrap().send(profile.clone())?))
        .start()
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let is_over = is_over.clone();
        move || watch(&is_over)
    });
    let result = work();
    let health = profiler.stop().unwrap();
    is_over.store(true, Ordering::Relaxed);
    let (descriptors, memory) = watch.join().unwrap();
    eprintln!("{} ticks, {} lost; {:?}", health.ticks, health.lost, health.deadline);
    let mut seen = Seen { descriptors, memory, ..Seen::default() };
    receiver.iter().for_each(|profile| seen.add(&profile));
    (seen, result)
}

/// Returns the largest number of descriptors and resident bytes until `is_over`.
fn watch(is_over: &AtomicBool) -> (usize, u64) {
    let (mut descriptors, mut memory) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        descriptors = descriptors.max(std::fs::read_dir("/proc/self/fd").unwrap().count());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        memory = memory.max(resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10);
        std::thread::sleep(Duration::from_millis(100));
    }
    (descriptors, memory)
}

impl Seen {
    fn add(&mut self, profile: &Profile) {
        for sample in profile.samples() {
            for frame in sample.trace().frames() {
                if frame.module().is_some_and(|module| is_copy(&module.path)) {
                    self.frame(frame, sample.count());
                }
            }
        }
    }

    fn frame(&mut self, frame: FrameView<'_>, count: u64) {
        let symbols = frame.symbols();
        self.frames += count;
        let [.., outer] = symbols else { return self.unnamed.push(format!("{frame:#}")) };
        self.named += count;
        // Others, such as `_start`, have no lines.
        if !["run", "main", "inner_", "outer_"].iter().any(|name| outer.function.starts_with(name)) {
            return;
        }
        self.compiled += count;
        self.lines += if outer.line > 0 && outer.file.ends_with("work.c") { count } else { 0 };
        if let Some((function, number)) = outer.function.split_once('_') {
            self.copies.insert(number.to_owned());
            if function == "inner" {
                self.in_loop += count;
                self.inlined += if symbols.len() == 2 { count } else { 0 };
            }
        }
    }

    /// Requires names of 99 % of the frames, and samples of nearly all copies.
    pub(crate) fn require(&self, count: usize) {
        let Seen { frames, named, compiled, lines, in_loop, inlined, descriptors, memory, .. } = self;
        let copies = self.copies.len();
        eprintln!(
            "{named} of {frames} frames named, {lines} of {compiled} with line, {inlined} of {in_loop} with inlined function; \
             {copies} of {count} copies; {descriptors} descriptors, {} MiB",
            memory >> 20
        );
        let first = &self.unnamed[..self.unnamed.len().min(20)];
        assert!(*frames > count as u64, "too few samples");
        assert!(named * 100 >= frames * 99, "{first:?}");
        assert!(lines * 100 >= compiled * 99 && inlined * 100 >= in_loop * 95);
        // On a busy machine a program can end before it is looked at.
        assert!(copies * 100 >= count * 95);
        assert!(*descriptors < MAX_DESCRIPTORS && *memory < MAX_MEMORY);
    }
}

/// Returns `true` for the paths of copies.
fn is_copy(path: &str) -> bool {
    let name = path.strip_suffix(" (deleted)").unwrap_or(path).rsplit('/').next().unwrap_or_default();
    ["gone", "library", "plugin"].iter().any(|start| name.starts_with(start)) && path.contains("/gone-")
}
