//! Snapshots: what the readers of a language read of one process and of its files, and the names
//! that they returned.
//!
//! Lines of words; numbers are hexadecimal, except lines of source. Bytes that no line gives are 0.
//!
//! ```text
//! snapshot 1
//! about recursion in Ruby 3.4.7
//! language ruby
//! file 7f95242c6000 3a1c08 /usr/bin/ruby     load bias, size, path; the first one holds the runtime
//! bytes 40 06000000…                         of the file above, at an offset
//! mapped 7ffcb4879000 2000                   memory that was read: address and size
//! bytes 7ffcb4879208 5599ed1f53f2…           of the memory above
//! frame 7f95241c6a30 1f53f2 2c               function, check, position; then function and position of the caller, if
//!                                            the name depends on it
//! name 12 /a.rb Object#fib                   line, file and name of the frame above, then of what is inlined there
//! ```
//!
//! `cargo test -p live-suite --test snapshots` records them; parts of files that make no difference
//! are left out.
#![allow(dead_code, reason = "each user needs a part")]

pub(crate) mod lies;

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{
    Attached, Attachment, Language, LoadedFile, Memory, Reason, Runtime, Target, Unreadable,
};
use ebpf_profiler_core::process::LoadBias;

/// A recorded process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) about: String,
    /// [`Language::name`].
    pub(crate) language: String,
    /// The file of the runtime, and others that were read.
    pub(crate) files: Vec<SnapshotFile>,
    pub(crate) memory: Sparse,
    pub(crate) frames: Vec<SnapshotFrame>,
}

/// A file of which parts are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotFile {
    pub(crate) path: String,
    pub(crate) bias: u64,
    pub(crate) size: u64,
    pub(crate) contents: Arc<Sparse>,
}

/// Pieces of bytes by address: sorted, and not adjacent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse(pub(crate) Vec<(u64, Vec<u8>)>);

/// A frame and its names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFrame {
    pub(crate) function: u64,
    pub(crate) check: u32,
    pub(crate) position: u32,
    pub(crate) caller: Option<(u64, u32)>,
    pub(crate) names: Vec<String>,
}

/// The shortest run of zeros that is left out.
const ZEROS: usize = 12;

/// Bytes in a line of text.
const LINE: usize = 48;

impl Snapshot {
    /// Returns the language of the runtime.
    pub(crate) fn language(&self) -> Box<dyn Language> {
        let mut all = ebpf_profiler_hll::all().into_iter();
        all.find(|language| language.name() == self.language).expect("a known language")
    }

    /// Recognizes the runtime in the first file.
    pub(crate) fn find(&self) -> Option<Box<dyn Runtime>> {
        self.language().find(&self.files.first()?.open()?)
    }

    /// Attaches to the process with this memory.
    pub(crate) fn attach(&self, runtime: &dyn Runtime, memory: &dyn Memory) -> Result<Attachment, Reason> {
        let bias = self.files.first().map_or(0, |file| file.bias);
        let bias = LoadBias::new(bias);
        runtime.attach(&Target::new(memory, bias, self.files.iter().map(SnapshotFile::loaded).collect()))
    }

    /// Returns what the readers find, as text: ranges, walker, and the names of all frames.
    pub(crate) fn outcome(&self) -> String {
        let mut text = String::new();
        let Some(runtime) = self.find() else { return "no runtime".to_owned() };
        let _ = writeln!(text, "loops {:x?}", runtime.loops());
        match self.attach(&*runtime, &self.memory) {
            Ok(mut attachment) => {
                let _ = writeln!(text, "walker {}\ncode {:x?}", attachment.walker(), attachment.code());
                for frame in &self.frames {
                    let _ = writeln!(text, "{:?}", frame.read(attachment.names(), &self.memory));
                }
            }
            Err(reason) => text += reason.text(),
        }
        text
    }
}

impl SnapshotFrame {
    /// Returns the names: of the function, then of those that are inlined at the position.
    pub(crate) fn read(&self, names: &mut dyn Attached, memory: &dyn Memory) -> Result<Vec<String>, Reason> {
        let function = match self.caller {
            Some(caller) => names.called_function(self.function, self.check, caller, memory)?,
            None => names.function(self.function, self.check, memory)?,
        };
        let own = (&function, function.lines.at(self.position));
        let all = std::iter::once(own).chain(function.inlines.at(self.position));
        Ok(all.map(|(function, line)| format!("{line} {} {}", function.file, function.name)).collect())
    }
}

impl SnapshotFile {
    pub(crate) fn open(&self) -> Option<Elf> {
        Elf::open(self.clone()).ok()
    }

    fn loaded(&self) -> LoadedFile {
        let file = Arc::new(self.clone());
        let opener = move || Ok(Box::new(SnapshotFile::clone(&file)) as Box<dyn ReadAt>);
        LoadedFile::new(self.path.as_str(), LoadBias::new(self.bias), Arc::new(opener))
    }
}

impl ReadAt for SnapshotFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.contents.fill(offset, buffer);
        Ok(())
    }
}

impl Sparse {
    /// Returns the piece that contains an address, and the offset in it.
    pub(crate) fn piece(&self, address: u64) -> Option<(usize, usize)> {
        let next = self.0.partition_point(|(start, _)| *start <= address);
        let index = next.checked_sub(1)?;
        let (start, bytes) = &self.0[index];
        let offset = usize::try_from(address - start).ok().filter(|&offset| offset < bytes.len())?;
        Some((index, offset))
    }

    /// Fills a buffer; bytes between the pieces are 0.
    fn fill(&self, address: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        let end = address.saturating_add(buffer.len() as u64);
        let first = self.0.partition_point(|(start, bytes)| start + bytes.len() as u64 <= address);
        for (start, bytes) in self.0[first..].iter().take_while(|(start, _)| *start < end) {
            let from = address.max(*start);
            let to = end.min(start + bytes.len() as u64);
            let part = &bytes[(from - start) as usize..(to - start) as usize];
            buffer[(from - address) as usize..(to - address) as usize].copy_from_slice(part);
        }
    }

    /// Adds bytes, and joins pieces that touch.
    pub(crate) fn insert(&mut self, address: u64, bytes: &[u8]) {
        let end = address + bytes.len() as u64;
        let first = self.0.partition_point(|(start, bytes)| start + (bytes.len() as u64) < address);
        let last = self.0.partition_point(|(start, _)| *start <= end);
        let start =
            self.0.get(first).filter(|_| first < last).map_or(address, |(start, _)| *start.min(&address));
        let mut joined = Vec::new();
        for (from, old) in self.0.drain(first..last) {
            joined.resize((from - start) as usize, 0);
            joined.extend(old);
        }
        joined.resize(joined.len().max((end - start) as usize), 0);
        joined[(address - start) as usize..(end - start) as usize].copy_from_slice(bytes);
        self.0.insert(first, (start, joined));
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (start, bytes) in &self.0 {
            let mut at = 0;
            while at < bytes.len() {
                let Some(first) = bytes[at..].iter().position(|&byte| byte != 0) else { break };
                let from = at + first;
                let zeros = bytes[from..].windows(ZEROS).position(|window| window == [0; ZEROS]);
                let to = zeros.map_or(bytes.len(), |length| from + length).min(from + LINE);
                write!(f, "bytes {:x} ", start + from as u64)?;
                bytes[from..to].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\n")?;
                at = to;
            }
        }
        Ok(())
    }
}

impl Memory for Sparse {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        if buffer.is_empty() {
            return Ok(());
        }
        let (index, offset) = self.piece(address).ok_or(Unreadable)?;
        let bytes = self.0[index].1.get(offset..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(Unreadable)?);
        Ok(())
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "snapshot 1\nabout {}\nlanguage {}", self.about, self.language)?;
        for file in &self.files {
            writeln!(f, "file {:x} {:x} {}", file.bias, file.size, file.path)?;
            file.contents.write(f)?;
        }
        for (start, bytes) in &self.memory.0 {
            writeln!(f, "mapped {start:x} {:x}", bytes.len())?;
        }
        self.memory.write(f)?;
        for frame in &self.frames {
            let caller = frame.caller.map_or(String::new(), |(at, position)| format!(" {at:x} {position:x}"));
            writeln!(f, "frame {:x} {:x} {:x}{caller}", frame.function, frame.check, frame.position)?;
            frame.names.iter().try_for_each(|name| writeln!(f, "name {name}"))?;
        }
        Ok(())
    }
}

impl FromStr for Snapshot {
    type Err = String;

    fn from_str(text: &str) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot::default();
        for (number, line) in text.lines().enumerate() {
            snapshot.line(line).ok_or_else(|| format!("line {}: {line}", number + 1))?;
        }
        Ok(snapshot)
    }
}

impl Snapshot {
    fn line(&mut self, line: &str) -> Option<()> {
        let (keyword, rest) = line.split_once(' ')?;
        let mut words = rest.split(' ');
        let mut number = || words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        match keyword {
            "snapshot" => (rest == "1").then_some(())?,
            "about" => self.about = rest.to_owned(),
            "language" => self.language = rest.to_owned(),
            "file" => {
                let (bias, size, path) = (number()?, number()?, rest.splitn(3, ' ').nth(2)?.to_owned());
                self.files.push(SnapshotFile { path, bias, size, contents: Arc::default() });
            }
            "mapped" => {
                let (start, size) = (number()?, usize::try_from(number()?).ok()?);
                self.memory.0.push((start, vec![0; size]));
            }
            "bytes" => {
                let at = number()?;
                let digits = words.next()?.as_bytes().as_chunks::<2>().0;
                let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
                let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
                // Files precede the memory.
                let into = match self.memory.0.is_empty() {
                    true => Arc::make_mut(&mut self.files.last_mut()?.contents),
                    false => &mut self.memory,
                };
                into.insert(at, &bytes?);
            }
            "frame" => {
                let (function, check, position) = (number()?, number()? as u32, number()? as u32);
                let caller = number().and_then(|caller| Some((caller, number()? as u32)));
                let names = Vec::new();
                self.frames.push(SnapshotFrame { function, check, position, caller, names });
            }
            "name" => self.frames.last_mut()?.names.push(rest.to_owned()),
            _ => return None,
        }
        Some(())
    }
}
