//! Reads a recording record by record.

use std::io::{BufReader, Read, Seek};

use super::decode;
use super::record::{MAGIC, MAX_RECORD, OLDEST, Start, VERSION};
use crate::sample::SourceError;

/// An input that can be read twice.
pub(super) trait Input: Read + Seek + Send {}

impl<T: Read + Seek + Send> Input for T {}

/// Reads the records of a recording in their order.
pub(super) struct Reader<R> {
    input: BufReader<R>,
    body: Vec<u8>,
    /// Bytes of whole records so far, the head included.
    whole: u64,
    /// Bytes behind them in a truncated recording.
    partial: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the head and the start record.
    pub(super) fn open(input: R) -> Result<(Reader<R>, Start), SourceError> {
        let input = BufReader::with_capacity(64 << 10, input);
        let mut reader = Reader { input, body: Vec::new(), whole: 0, partial: 0 };
        reader.check_head()?;
        let (kind, body) = reader.next()?.ok_or(TRUNCATED)?;
        let start = decode::start(kind, body)?;
        Ok((reader, start))
    }

    /// Returns the kind and the body of the next record, or `None` at the end of a truncated
    /// recording: one that was completed has an end record.
    pub(super) fn next(&mut self) -> Result<Option<(u32, &[u8])>, SourceError> {
        if !self.fill(8)? {
            return Ok(None);
        }
        let (kind, size) = (self.word(0), self.word(4) as usize);
        if size > MAX_RECORD {
            return Err(SourceError::Format("a record exceeds the maximum size"));
        }
        if !self.fill(size)? {
            self.partial += 8;
            return Ok(None);
        }
        self.whole += 8 + size as u64;
        Ok(Some((kind, &self.body)))
    }

    /// Checks that the input ends here.
    pub(super) fn end(&mut self) -> Result<(), SourceError> {
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(SourceError::Format("bytes follow the end record")),
        }
    }

    /// Returns the number of bytes of whole records, and of those behind them, in a truncated
    /// recording.
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.whole, self.partial)
    }

    fn word(&self, at: usize) -> u32 {
        self.body[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
    }

    fn check_head(&mut self) -> Result<(), SourceError> {
        let is_whole = self.fill(HEAD)?;
        if !self.body.starts_with(&MAGIC) {
            return Err(SourceError::Format("it does not begin with the bytes of a recording"));
        }
        if !is_whole {
            return Err(TRUNCATED);
        }
        if !(OLDEST..=VERSION).contains(&self.word(MAGIC.len())) {
            return Err(SourceError::Format("it was written by another version of this library"));
        }
        self.whole = HEAD as u64;
        Ok(())
    }

    /// Reads `size` bytes into `body`, which grows with what is read. Returns `false` if the input
    /// ends before.
    fn fill(&mut self, size: usize) -> Result<bool, SourceError> {
        self.body.clear();
        let read = self.input.by_ref().take(size as u64).read_to_end(&mut self.body)?;
        self.partial = if read < size { read as u64 } else { 0 };
        Ok(read == size)
    }
}

/// Bytes before the first record.
const HEAD: usize = MAGIC.len() + 8;

const TRUNCATED: SourceError = SourceError::Format("it is truncated before its first record");
