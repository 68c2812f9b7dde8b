//! Numbers and texts of the format.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{DecodeError, MAX_PARTS};

/// Encodes numbers and texts.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// Number of items of all lists.
    pub(super) parts: usize,
}

impl Writer {
    pub(super) fn number(&mut self, number: impl Into<u64>) {
        let mut number = number.into();
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(super) fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    pub(super) fn length(&mut self, length: usize) {
        self.number(length as u64);
    }

    /// Encodes the length of a list of parts.
    pub(super) fn list(&mut self, length: usize) {
        self.parts += length;
        self.length(length);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(duration.subsec_nanos());
    }

    /// Encodes a time; one before 1970 as 1970.
    pub(super) fn time(&mut self, time: SystemTime) {
        self.duration(time.duration_since(UNIX_EPOCH).unwrap_or_default());
    }
}

/// Decodes numbers and texts.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
    /// Number of parts that may still come.
    parts: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes, parts: MAX_PARTS }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Damaged { what: "a number of more than 64 bits" })
    }

    pub(super) fn signed(&mut self) -> Result<i64, DecodeError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Decodes a number of 32 bits.
    pub(super) fn word(&mut self) -> Result<u32, DecodeError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| DecodeError::Damaged { what: "a number of more than 32 bits" })
    }

    /// Decodes an id in a list of `length` items.
    pub(super) fn id(&mut self, length: usize, what: &'static str) -> Result<u32, DecodeError> {
        let id = self.word()?;
        if id as usize >= length { Err(DecodeError::Damaged { what }) } else { Ok(id) }
    }

    /// Decodes the length of a list, whose items have at least `least` bytes.
    pub(super) fn length(&mut self, least: usize) -> Result<usize, DecodeError> {
        let length = self.number()?;
        if length > (self.rest.len() / least) as u64 {
            return Err(DecodeError::Truncated);
        }
        Ok(length as usize)
    }

    /// Decodes a list of parts, whose items have at least `least` bytes.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = self.length(least)?;
        self.parts = self.parts.checked_sub(length).ok_or(DecodeError::TooLarge)?;
        (0..length).map(|_| item(self)).collect()
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8], DecodeError> {
        let length = self.length(1)?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'b str, DecodeError> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| DecodeError::Damaged { what: "a text that is not UTF-8" })
    }

    pub(super) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Damaged { what: "a flag that is neither 0 nor 1" }),
        }
    }

    pub(super) fn duration(&mut self) -> Result<Duration, DecodeError> {
        let (seconds, nanoseconds) = (self.number()?, self.word()?);
        if seconds > MAX_SECONDS || nanoseconds >= 1_000_000_000 {
            return Err(DecodeError::Damaged { what: "a time that is out of range" });
        }
        Ok(Duration::new(seconds, nanoseconds))
    }

    pub(super) fn time(&mut self) -> Result<SystemTime, DecodeError> {
        Ok(UNIX_EPOCH + self.duration()?)
    }
}

/// Maximum of a time in seconds: 35,000 years.
const MAX_SECONDS: u64 = 1 << 40;
