//! Compression of message bodies.
//!
//! | compression | gRPC `grpc-encoding`, HTTP `Content-Encoding` | accepted by |
//! | --- | --- | --- |
//! | none | `identity`, no header | all consumers |
//! | gzip | `gzip` | all consumers |
//! | zstd | `zstd` | collectors; Pyroscope over HTTP does not |
//!
//! zstd at level 1 is smaller and takes half the time of gzip at level 1.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

/// The compression of messages.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::Compression;
///
/// assert_eq!("none".parse(), Ok(Compression::None));
/// # #[cfg(feature = "gzip")]
/// assert_eq!("gzip:6".parse(), Ok(Compression::Gzip(6)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// gzip with a level from 1 to 9.
    #[cfg(feature = "gzip")]
    Gzip(u32),
    /// zstd with a level from 1 to 19. The Collector accepts it; it is not in the OTLP
    /// specification.
    #[cfg(feature = "zstd")]
    Zstd(i32),
}

/// gzip at level 1, or none without that feature. Higher levels cost more time than the bytes are
/// worth.
impl Default for Compression {
    fn default() -> Compression {
        #[cfg(feature = "gzip")]
        return Compression::Gzip(1);
        #[cfg(not(feature = "gzip"))]
        return Compression::None;
    }
}

/// Parses `none`, `gzip` or `zstd`, optionally with a level: `zstd:3`.
impl FromStr for Compression {
    type Err = ParseCompressionError;

    fn from_str(text: &str) -> Result<Compression, ParseCompressionError> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let level = level.map(str::parse::<u8>).transpose().map_err(|_| ParseCompressionError(()))?;
        match (name, level) {
            ("none", None) => Ok(Compression::None),
            #[cfg(feature = "gzip")]
            ("gzip", None | Some(1..=9)) => Ok(Compression::Gzip(level.unwrap_or(1).into())),
            #[cfg(feature = "zstd")]
            ("zstd", None | Some(1..=19)) => Ok(Compression::Zstd(level.unwrap_or(1).into())),
            _ => Err(ParseCompressionError(())),
        }
    }
}

/// The error of parsing a [`Compression`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCompressionError(());

impl ParseCompressionError {
    /// Returns the accepted values.
    pub(super) fn expected(&self) -> &'static str {
        EXPECTED
    }
}

impl fmt::Display for ParseCompressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown compression; expected {EXPECTED}")
    }
}

impl std::error::Error for ParseCompressionError {}

const EXPECTED: &str = match (cfg!(feature = "gzip"), cfg!(feature = "zstd")) {
    (true, true) => "gzip, gzip:1 to gzip:9, zstd, zstd:1 to zstd:19, or none",
    (true, false) => "gzip, gzip:1 to gzip:9, or none; zstd needs the feature `zstd`",
    (false, true) => "zstd, zstd:1 to zstd:19, or none; gzip needs the feature `gzip`",
    (false, false) => "none; gzip and zstd need the features `gzip` and `zstd`",
};

/// The content coding of a body. A spool may hold codings of a program with other features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// Returns the name in headers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        }
    }

    /// Decompresses a body to at most `limit` bytes; `None` if it is malformed, larger, or the
    /// feature is not enabled.
    pub(super) fn decode(self, body: &Bytes, limit: usize) -> Option<Bytes> {
        match self {
            Coding::Identity => Some(body.clone()),
            #[cfg(feature = "gzip")]
            Coding::Gzip => crate::gzip::gunzip(body, limit),
            #[cfg(feature = "zstd")]
            Coding::Zstd => unzstd(body, limit),
            #[cfg(not(all(feature = "gzip", feature = "zstd")))]
            _ => None,
        }
        .filter(|message| message.len() <= limit)
    }
}

impl Compression {
    /// Compresses a message of an [`Encoder`](crate::Encoder), for programs that send it
    /// themselves.
    ///
    /// The result is an ordinary gzip or zstd stream.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "gzip")] {
    /// use ebpf_profiler_otlp::Compression;
    ///
    /// let message = bytes::Bytes::from(vec![7; 1_000]);
    /// assert!(Compression::Gzip(6).compress(&message).len() < 100);
    /// # }
    /// ```
    pub fn compress(self, message: &Bytes) -> Bytes {
        self.encode(message).0
    }

    /// Compresses a message and returns it with its content coding.
    pub(super) fn encode(self, message: &Bytes) -> (Bytes, Coding) {
        match self {
            Compression::None => (message.clone(), Coding::Identity),
            #[cfg(feature = "gzip")]
            Compression::Gzip(level) => {
                let level = flate2::Compression::new(level.clamp(1, 9));
                (crate::gzip::gzip(message, Some(DICTIONARY), level), Coding::Gzip)
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd(level) => match zstd(message, level) {
                Some(packed) => (packed, Coding::Zstd),
                None => (message.clone(), Coding::Identity),
            },
        }
    }
}

/// The tag of a message's dictionary field.
#[cfg(feature = "gzip")]
const DICTIONARY: u8 = crate::wire::bytes_tag(crate::encode::fields::DICTIONARY);

/// Compresses; `None` if zstd fails to allocate memory.
#[cfg(feature = "zstd")]
fn zstd(message: &[u8], level: i32) -> Option<Bytes> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(message.len()));
    zstd_safe::compress(&mut packed, message, level.clamp(1, 19)).ok()?;
    packed.shrink_to_fit();
    Some(packed.into())
}

#[cfg(feature = "zstd")]
fn unzstd(body: &[u8], limit: usize) -> Option<Bytes> {
    let len = usize::try_from(zstd_safe::get_frame_content_size(body).ok()??).ok()?;
    let mut message = Vec::with_capacity(Some(len).filter(|len| *len <= limit)?);
    zstd_safe::decompress(&mut message, body).ok()?;
    Some(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_levels_and_names_are_errors() {
        for text in ["", "brotli", "gzip:", "gzip:0", "gzip:10", "zstd:20", "none:1", "gzip:-1"] {
            assert_eq!(text.parse::<Compression>(), Err(ParseCompressionError(())), "{text}");
        }
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn zstd_makes_a_message_smaller() {
        let message = Bytes::from(vec![7; 100_000]);
        let (packed, coding) = "zstd:3".parse::<Compression>().unwrap().encode(&message);
        assert!(coding == Coding::Zstd && packed.len() < 100);
    }

    #[test]
    fn decoding_restores_a_message_up_to_a_limit() {
        let message = Bytes::from((0..10_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        for text in ["none", "gzip", "gzip:9", "zstd", "zstd:19"] {
            let Ok(compression) = text.parse::<Compression>() else { continue };
            let (packed, coding) = compression.encode(&message);
            assert_eq!(coding.decode(&packed, message.len()), Some(message.clone()), "{text}");
            assert_eq!(coding.decode(&packed, message.len() - 1), None, "{text}");
            let half = packed.slice(..packed.len() / 2);
            assert_ne!(coding.decode(&half, 1 << 20), Some(message.clone()), "{text}");
        }
        for coding in [Coding::Gzip, Coding::Zstd] {
            assert_eq!(coding.decode(&Bytes::from_static(b"neither"), 1 << 20), None);
        }
    }
}
