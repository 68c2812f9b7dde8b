//! Reads a recording record by record.

use std::io::{BufReader, ErrorKind, Read};

use ebpf_programs::abi;

use super::decode;
use super::record::{MAGIC, MAX_RECORD, Start, VERSION};
use crate::sample::SourceError;

/// A recording from its beginning on.
pub(super) struct Reader<R> {
    input: BufReader<R>,
    body: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads how it begins.
    pub(super) fn open(input: R) -> Result<(Reader<R>, Start), SourceError> {
        let mut reader = Reader { input: BufReader::with_capacity(64 << 10, input), body: Vec::new() };
        reader.check_head()?;
        let (kind, body) = reader.next()?;
        let start = decode::start(kind, body)?;
        Ok((reader, start))
    }

    /// The kind and the body of the next record.
    ///
    /// The last record of a recording says that it is the last: one that ends without it was cut off.
    pub(super) fn next(&mut self) -> Result<(u32, &[u8]), SourceError> {
        let (kind, size) = (self.word()?, self.word()? as usize);
        if size > MAX_RECORD {
            return Err(SourceError::Format("a record is larger than any that can be"));
        }
        self.body.resize(size, 0);
        self.input.read_exact(&mut self.body).map_err(cut_off)?;
        Ok((kind, &self.body))
    }

    /// Makes sure that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), SourceError> {
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(SourceError::Format("something follows its end")),
        }
    }

    fn check_head(&mut self) -> Result<(), SourceError> {
        let mut magic = [0; MAGIC.len()];
        match self.input.read_exact(&mut magic) {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
            Ok(()) if magic == MAGIC => {}
            _ => return Err(SourceError::Format("it doesn't begin like one")),
        }
        if self.word()? != VERSION {
            return Err(SourceError::Format("it was written by another version of this library"));
        }
        if self.word()? != abi::VERSION {
            return Err(SourceError::Format("its ticks are from another version of the sampling program"));
        }
        Ok(())
    }

    fn word(&mut self) -> Result<u32, SourceError> {
        let mut word = [0; 4];
        self.input.read_exact(&mut word).map_err(cut_off)?;
        Ok(u32::from_le_bytes(word))
    }
}

fn cut_off(error: std::io::Error) -> SourceError {
    match error.kind() {
        ErrorKind::UnexpectedEof => CUT_OFF,
        _ => SourceError::Io(error),
    }
}

const CUT_OFF: SourceError = SourceError::Format("it was cut off before its end");
