//! Records what the readers of a language read of a core file.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{LoadedFile, Target, Unreadable};
use ebpf_profiler_unwind::Frame;
use examples::{CoreFile, Stack};

use crate::snapshot::{Snapshot, SnapshotFile, SnapshotFrame, Sparse};

/// Finds the runtime among the files of a core file, attaches, and names the script frames of a
/// stack.
pub(crate) fn record(about: &str, language: &str, core: &CoreFile, stack: &Stack) -> Snapshot {
    let files: Vec<Recorded> = core.files().into_iter().map(Recorded::new).collect();
    let mut snapshot =
        Snapshot { about: about.to_owned(), language: language.to_owned(), ..Snapshot::default() };
    let reader = snapshot.language();
    let (own, runtime) = files
        .iter()
        .find_map(|file| Some((file, reader.find(&Elf::open(file.open().ok()?).ok()?)?)))
        .expect("a file with the runtime");
    let memory = RefCell::new((core.loaded.memory(), Sparse::default()));
    let read = |address: u64, buffer: &mut [u8]| {
        let (memory, read) = &mut *memory.borrow_mut();
        memory.fill(address, buffer).ok_or(Unreadable)?;
        read.insert(address, buffer);
        Ok(())
    };
    let loaded = files.iter().map(Recorded::loaded).collect();
    let mut attachment = runtime.attach(&Target::new(&read, own.file.bias, loaded)).unwrap();
    let frames: Vec<_> = stack.calls.iter().map(|call| &call.frame).collect();
    for (number, frame) in frames.iter().enumerate() {
        let Frame::Call(call) = frame else { continue };
        let caller = match frames.get(number + 1) {
            Some(Frame::Call(caller)) if call.is_named_by_caller => Some((caller.function, caller.position)),
            _ => None,
        };
        let (function, check, position) = (call.function, call.check, call.position);
        let mut frame = SnapshotFrame { function, check, position, caller, names: Vec::new() };
        frame.names = frame.read(attachment.names(), &read).unwrap();
        if !snapshot.frames.contains(&frame) {
            snapshot.frames.push(frame);
        }
    }
    let is_read = |file: &&Recorded| !file.pieces.lock().unwrap().0.is_empty();
    let others = files.iter().filter(|file| file.file.path != own.file.path);
    snapshot.files = std::iter::once(own).chain(others.filter(is_read)).map(Recorded::contents).collect();
    snapshot.memory = memory.into_inner().1;
    snapshot
}

/// A file whose reads are recorded.
#[derive(Clone)]
struct Recorded {
    file: LoadedFile,
    pieces: Arc<Mutex<Sparse>>,
}

impl Recorded {
    fn new(file: LoadedFile) -> Recorded {
        Recorded { file, pieces: Arc::default() }
    }

    fn open(&self) -> io::Result<Opened> {
        Ok(Opened { inner: self.file.opener.open()?, pieces: self.pieces.clone() })
    }

    fn loaded(&self) -> LoadedFile {
        let own = self.clone();
        let opener = move || Ok(Box::new(own.open()?) as Box<dyn ReadAt>);
        LoadedFile::new(self.file.path.clone(), self.file.bias, Arc::new(opener))
    }

    fn contents(&self) -> SnapshotFile {
        let size = self.file.opener.open().and_then(|file| file.size()).unwrap();
        let contents = Arc::new(self.pieces.lock().unwrap().clone());
        // No path of a machine.
        let path = self.file.path.rsplit('/').next().unwrap_or_default();
        SnapshotFile { path: path.to_owned(), bias: self.file.bias.in_process(0), size, contents }
    }
}

struct Opened {
    inner: Box<dyn ReadAt>,
    pieces: Arc<Mutex<Sparse>>,
}

impl ReadAt for Opened {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, buffer)?;
        self.pieces.lock().unwrap().insert(offset, buffer);
        Ok(())
    }
}
