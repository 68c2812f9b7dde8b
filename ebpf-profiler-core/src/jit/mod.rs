//! Names of JIT-compiled code that runtimes write to files: perf maps and jitdump.
//!
//! ```text
//!   /tmp/perf-PID.map    start size name, one line per function             PerfMap ──┐
//!   jit-PID.dump         {code load: address, size, name}, {lines}, ...     Dump ─────┴─► CodeMap ──► function, line
//! ```
//!
//! | runtime | writes them with |
//! | --- | --- |
//! | Node.js | `--perf-basic-prof`, `--perf-prof` |
//! | JVM | a perf map agent, or `jcmd PID Compiler.perfmap` |
//! | .NET | `DOTNET_PerfMapEnabled=1` |
//! | Erlang/OTP | `+JPperf true` |
//! | Ruby | `--yjit-perf` |
//! | PHP | `opcache.jit_debug` |
//! | wasmtime | `--profile perfmap`, `--profile jitdump` |
//!
//! They name code that lies in no file and that no [language](crate::language) claims. A perf map
//! is found in the `/tmp` of the process's own mount namespace under its number in its own PID
//! namespace, a dump by the page of it that its runtime maps as code. Both are read as they grow,
//! at most every 20 ms and before an address is looked up, so code that replaces other code at the
//! same address takes over its name.
//!
//! A file does not say when code was freed. Where memory was unmapped, and code without an entry was mapped there later, the
//! former entry names it: a runtime that makes its code executable, writable and executable again looks the same from outside.
//!
//! # Untrusted input
//!
//! A map is read only if it is a regular file of the process's user or of root. At most 64 MiB are
//! read of a file and 262,144 functions kept for a process; what exceeds them is dropped and
//! counted.

mod code;

mod dump;

mod perf_map;

use std::sync::Arc;

use hashbrown::HashMap;

use crate::elf::ReadAt;
use crate::trace::ScriptId;
use code::CodeMap;
use dump::Dump;
use perf_map::PerfMap;

/// Minimum time between two looks at the files of a process, in nanoseconds.
const INTERVAL: u64 = 20_000_000;

/// Delay until a process without files is looked at again, in nanoseconds; doubles with each
/// attempt.
const RETRY: u64 = 250_000_000;

/// Maximum number of times that [`RETRY`] doubles.
const MAX_DOUBLINGS: u32 = 8;

/// Maximum number of bytes read of one file.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of bytes read of one file at a time.
const CHUNK: u64 = 1 << 20;

/// Bytes before the end of a file by which its reader notices that it was written again.
const TAIL: usize = 64;

/// Maximum number of functions kept for one process.
pub(crate) const MAX_FUNCTIONS: usize = 1 << 18;

/// Maximum number of addresses whose frames are cached for one process.
const MAX_CACHED: usize = 1 << 14;

/// Counters of perf maps and jitdump files.
#[doc(alias("perf map", "jitdump"))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JitStats {
    /// Processes with a perf map or a jitdump file.
    pub processes: u64,
    /// Functions read.
    pub functions: u64,
    /// Lines and records that could not be parsed.
    pub malformed: u64,
    /// Functions dropped because a limit was reached.
    pub dropped: u64,
}

/// The files of a process that name its JIT-compiled code.
pub(crate) struct JitFiles {
    pub(crate) perf_map: Option<Box<dyn ReadAt>>,
    pub(crate) dump: Option<Box<dyn ReadAt>>,
}

/// A function of JIT-compiled code at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JitFunction {
    pub(crate) name: Arc<str>,
    /// Empty if unknown.
    pub(crate) file: Arc<str>,
    /// 0 if unknown.
    pub(crate) line: u32,
}

/// The named JIT-compiled code of one process.
#[derive(Default)]
pub(crate) struct JitNames {
    code: Arc<CodeMap>,
    perf_map: Option<PerfMap>,
    dump: Option<Dump>,
    /// Time of the last look at the files; 0 before the first.
    looked: u64,
    /// Number of looks that found no file.
    misses: u32,
    cached: HashMap<u64, Option<(ScriptId, u32)>>,
}

impl JitNames {
    /// Returns the names that a child has after `fork`: the code is at the same addresses.
    pub(crate) fn fork(&self) -> JitNames {
        JitNames { code: self.code.clone(), ..JitNames::default() }
    }

    /// Reads what the runtime has written since the last look. `open` is called until there is a
    /// file.
    pub(crate) fn refresh(&mut self, now: u64, open: impl FnOnce() -> JitFiles, stats: &mut JitStats) {
        let has_file = self.perf_map.is_some() || self.dump.is_some();
        let delay = if has_file { INTERVAL } else { RETRY << self.misses.min(MAX_DOUBLINGS) };
        if self.looked != 0 && now.saturating_sub(self.looked) < delay {
            return;
        }
        self.looked = now.max(1);
        if !has_file {
            let files = open();
            self.perf_map = files.perf_map.map(PerfMap::new);
            self.dump = files.dump.map(Dump::new);
            if self.perf_map.is_none() && self.dump.is_none() {
                self.misses += 1;
                return;
            }
            stats.processes += 1;
        }
        let mut read = Vec::new();
        if let Some(map) = &mut self.perf_map
            && map.read(&mut read, stats)
        {
            self.code = Arc::default();
        }
        if let Some(dump) = &mut self.dump {
            dump.read(&mut read, stats);
        }
        if read.is_empty() {
            return;
        }
        let code = Arc::make_mut(&mut self.code);
        for (start, end, new) in read {
            stats.functions += 1;
            stats.dropped += u64::from(!code.insert(start, end, new));
        }
        self.cached.clear();
    }

    /// Returns the function at `address`.
    pub(crate) fn function(&self, address: u64) -> Option<JitFunction> {
        let (start, code) = self.code.find(address)?;
        let (file, line) = code.line(address - start);
        Some(JitFunction { name: code.name.clone(), file, line })
    }

    /// Returns the cached frame of `address`, or caches the one that `name` returns.
    pub(crate) fn cached(
        &mut self,
        address: u64,
        name: impl FnOnce(&JitNames) -> Option<(ScriptId, u32)>,
    ) -> Option<(ScriptId, u32)> {
        if let Some(&frame) = self.cached.get(&address) {
            return frame;
        }
        let frame = name(self);
        if self.cached.len() >= MAX_CACHED {
            self.cached.clear();
        }
        self.cached.insert(address, frame);
        frame
    }

    /// Drops cached frames, whose functions are about to be forgotten.
    pub(crate) fn forget_frames(&mut self) {
        self.cached.clear();
    }
}

/// A file that grows while it is read.
struct Growing {
    source: Box<dyn ReadAt>,
    at: u64,
    /// Bytes that were read but not used: the beginning of a line or record.
    rest: Vec<u8>,
    /// The last bytes that were read, to notice that a file was written again.
    tail: Vec<u8>,
    restarted: bool,
}

impl Growing {
    fn new(source: Box<dyn ReadAt>) -> Growing {
        Growing { source, at: 0, rest: Vec::new(), tail: Vec::new(), restarted: false }
    }

    /// Appends the next new bytes to `rest`; returns `false` if there are none.
    ///
    /// A file that was written again is read from its beginning.
    fn advance(&mut self) -> bool {
        let Ok(size) = self.source.size() else { return false };
        if size != self.at && !self.is_continued(size) {
            self.at = 0;
            self.rest.clear();
            self.tail.clear();
            self.restarted = true;
        }
        let len = size.min(MAX_BYTES).saturating_sub(self.at).min(CHUNK) as usize;
        if len == 0 {
            return false;
        }
        let kept = self.rest.len();
        self.rest.resize(kept + len, 0);
        if self.source.read_at(self.at, &mut self.rest[kept..]).is_err() {
            self.rest.truncate(kept);
            return false;
        }
        self.at += len as u64;
        let read = &self.rest[kept..];
        self.tail = read[read.len().saturating_sub(TAIL)..].to_vec();
        true
    }

    /// Returns `true` if the bytes that were read last are still at their place.
    fn is_continued(&self, size: u64) -> bool {
        let mut tail = vec![0; self.tail.len()];
        let at = self.at - tail.len() as u64;
        size >= self.at
            && (tail.is_empty() || self.source.read_at(at, &mut tail).is_ok_and(|()| tail == self.tail))
    }

    /// Returns `true` once after the file was written again.
    fn take_restarted(&mut self) -> bool {
        std::mem::take(&mut self.restarted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A file whose writer is the test.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl ReadAt for Written {
        fn size(&self) -> std::io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            std::io::Cursor::new(self.0.lock().unwrap().clone()).read_at(offset, buffer)
        }
    }

    fn files(map: &Written) -> JitFiles {
        JitFiles { perf_map: Some(Box::new(map.clone())), dump: None }
    }

    fn name(names: &JitNames, address: u64) -> Option<String> {
        names.function(address).map(|function| function.name.to_string())
    }

    #[test]
    fn code_at_reused_address_takes_over_its_name() {
        let map = Written::default();
        map.0.lock().unwrap().extend(b"1000 100 first\n1100 80 kept\n");
        let (mut names, mut stats) = (JitNames::default(), JitStats::default());
        names.refresh(1, || files(&map), &mut stats);
        assert_eq!(name(&names, 0x10ff).as_deref(), Some("first"));
        assert_eq!(name(&names, 0x1180), None);
        map.0.lock().unwrap().extend(b"1080 40 second\n");
        names.refresh(2, || files(&map), &mut stats);
        assert_eq!(name(&names, 0x1080).as_deref(), Some("first"), "not looked at yet");
        names.refresh(1 + INTERVAL, || files(&map), &mut stats);
        assert_eq!(name(&names, 0x1080).as_deref(), Some("second"));
        assert_eq!(name(&names, 0x107f), None, "the first function was freed");
        assert_eq!(name(&names, 0x1100).as_deref(), Some("kept"));
        assert_eq!((stats.processes, stats.functions), (1, 3));
    }

    #[test]
    fn half_written_line_is_read_when_it_is_whole() {
        let map = Written::default();
        map.0.lock().unwrap().extend(b"1000 100 ma");
        let (mut names, mut stats) = (JitNames::default(), JitStats::default());
        names.refresh(1, || files(&map), &mut stats);
        assert_eq!(name(&names, 0x1000), None);
        map.0.lock().unwrap().extend(b"in\n");
        names.refresh(1 + INTERVAL, || files(&map), &mut stats);
        assert_eq!(name(&names, 0x1000).as_deref(), Some("main"));
    }

    #[test]
    fn map_that_is_written_again_replaces_all_names() {
        let map = Written::default();
        map.0.lock().unwrap().extend(b"1000 100 first\n2000 100 gone\n");
        let (mut names, mut stats) = (JitNames::default(), JitStats::default());
        names.refresh(1, || files(&map), &mut stats);
        *map.0.lock().unwrap() = b"1000 100 other\n3000 100 third and more\n".to_vec();
        names.refresh(1 + INTERVAL, || files(&map), &mut stats);
        let found = [0x1000, 0x2000, 0x3000].map(|address| name(&names, address));
        assert_eq!(found, [Some("other".into()), None, Some("third and more".into())]);
    }

    #[test]
    fn missing_file_is_looked_for_less_and_less_often() {
        let (mut names, mut stats) = (JitNames::default(), JitStats::default());
        let mut opened = 0;
        for now in (0..60_000_000_000).step_by(10_000_000) {
            names.refresh(
                now,
                || {
                    opened += 1;
                    JitFiles { perf_map: None, dump: None }
                },
                &mut stats,
            );
        }
        assert!((6..=10).contains(&opened), "{opened}");
    }
}
