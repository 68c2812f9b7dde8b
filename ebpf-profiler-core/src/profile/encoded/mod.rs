//! Profiles as bytes, to be read back by this crate, later or on another machine.
//!
//! ```text
//!   Profile::encode ──► bytes ──► Profile::decode ──► symbolize, merge, diff, any sink
//! ```
//!
//! # Format
//!
//! Version 2. Numbers are LEB128, seven bits a byte, the lowest first; signed ones zigzag. A text
//! is its length in bytes and UTF-8. A list is its length and its items. An id is the position in
//! its list.
//!
//! | part | contents |
//! | --- | --- |
//! | magic | the 8 bytes `EBPFPROF` |
//! | version | number |
//! | texts | list of texts that others refer to by id |
//! | time | start: seconds and nanoseconds since 1970; length: seconds and nanoseconds |
//! | kernel | text: its boot id, empty if unknown |
//! | kinds | list: name, unit (0 count, 1 nanoseconds, 2 bytes), period in seconds and nanoseconds |
//! | losses | list: cause as a text, count |
//! | sampling periods | list: kind id, time, period |
//! | modules | list: path, build id, start, end, offset, 1 if another user than root may write the file |
//! | scripts | list: language as a text, ids of name and file, first line, 1 if the name is a reason |
//! | processes | list: pid, created, parent; command line, executable, container as texts; since version 2 control group and pod as texts, user + 1 (0 if unknown), pid in its namespace, lists of name and value of environment variables and of attributes |
//! | threads | list: process id, tid, name as a text, list of labels: ids of key and text, or a signed number |
//! | functions | list: ids of name, linker's name and file; first line |
//! | frames | list in the order of their code, see below |
//! | stacks | list of lists of frame ids |
//! | traces | list: stack id, stop reason, frames left out, position of the gap |
//! | samples | list: kind id, thread id, trace id, events |
//! | checksum | FNV-1a of all bytes before, 64 bits, little endian |
//!
//! ```text
//!   frame     0  found  start?  doubtful?  kind   one byte: 2, 2, 1, 1, 2 bits from the top; then by kind
//!             kernel, anonymous: address · native: module id, address · script: script id, line
//!             start of its function if there is one, list of symbols: function id, line, column
//!   events    2 * count + 1 if they have values, then each: time, CPU + 1 (0 if unknown), value
//! ```
//!
//! An address is the signed difference to the frame before it, a time that to the event before it.
//! There is no memory of stacks and no contents of files. Command lines and environment variables
//! are included if the profile has them.

mod number;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read};

use super::Profile;

/// An error while decoding a profile.
#[derive(Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// The source cannot be read.
    Io(io::Error),
    /// The bytes are no encoded profile.
    Magic,
    /// The profile was written by a newer version of this crate.
    Version {
        /// Version of the format.
        found: u64,
    },
    /// The profile exceeds a limit: [`Profile::MAX_ENCODED`] bytes, 4,194,304 parts other than
    /// events, or 65,536 frames in a stack.
    TooLarge,
    /// The bytes end before the profile does.
    Truncated,
    /// The bytes are damaged.
    Damaged {
        /// The part and its fault.
        what: &'static str,
    },
}

impl Profile {
    /// Maximum size of an encoded profile in bytes.
    pub const MAX_ENCODED: usize = 64 << 20;

    /// Writes the profile as bytes for [`decode`](Profile::decode), with all frames, named or not,
    /// and without stack memory.
    ///
    /// Files are written by path and build id, so that [`symbolize`](Profile::symbolize) finds them
    /// later. The module header in the source describes the format. It has a version; later
    /// versions of this crate read it.
    ///
    /// # Errors
    ///
    /// Fails if `out` does, or with [`InvalidData`](io::ErrorKind::InvalidData) if the profile is
    /// too large to be decoded: [`filter`](Profile::filter) or [`group_by`](Profile::group_by)
    /// divide it.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::Profile;
    ///
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3\ncat;main 1");
    /// let mut bytes = Vec::new();
    /// profile.encode(&mut bytes)?;
    /// let again = Profile::decode(&bytes[..])?;
    /// assert_eq!((again.count(), again.start()), (4, profile.start()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let too_large = || io::Error::new(io::ErrorKind::InvalidData, DecodeError::TooLarge);
        out.write_all(&write::profile(&self.part(self.samples())).ok_or_else(too_large)?)
    }

    /// Reads a profile that [`encode`](Profile::encode) wrote.
    ///
    /// The bytes are not trusted: lengths, ids and texts are checked, and memory is bounded by a
    /// multiple of the size. Languages that this crate doesn't know are `script`.
    ///
    /// # Errors
    ///
    /// Fails if the source does, and if the bytes are not a whole and valid profile of a known
    /// version.
    pub fn decode(source: impl Read) -> Result<Profile, DecodeError> {
        let mut bytes = Vec::new();
        source.take(Profile::MAX_ENCODED as u64 + 1).read_to_end(&mut bytes).map_err(DecodeError::Io)?;
        match bytes.len() > Profile::MAX_ENCODED {
            true => Err(DecodeError::TooLarge),
            false => read::profile(&bytes),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Io(error) => write!(f, "cannot read the profile: {error}"),
            DecodeError::Magic => f.write_str("not an encoded profile"),
            DecodeError::Version { found } => {
                write!(f, "encoded profile of version {found}, this program reads {VERSION}; update it")
            }
            DecodeError::TooLarge => {
                write!(
                    f,
                    "encoded profile of more than {} bytes, {MAX_PARTS} parts or {MAX_FRAMES} frames in a stack",
                    Profile::MAX_ENCODED
                )
            }
            DecodeError::Truncated => f.write_str("encoded profile is truncated"),
            DecodeError::Damaged { what } => write!(f, "encoded profile is damaged: {what}"),
        }
    }
}

impl std::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DecodeError::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// First bytes of an encoded profile.
const MAGIC: &[u8; 8] = b"EBPFPROF";

/// Version of the format.
const VERSION: u64 = 2;

/// Maximum number of parts other than events.
const MAX_PARTS: usize = 4 << 20;

/// Maximum number of frames of a stack.
const MAX_FRAMES: usize = 1 << 16;

/// Returns the FNV-1a checksum.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
