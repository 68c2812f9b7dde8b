//! How bodies are packed.
//!
//! | | gRPC `grpc-encoding`, HTTP `Content-Encoding` | taken by |
//! | --- | --- | --- |
//! | nothing | `identity`, no header | everybody |
//! | gzip | `gzip` | everybody |
//! | zstd | `zstd` | collectors; Pyroscope over HTTP does not |
//!
//! zstd at level 1 is smaller and takes half the time of gzip at level 1.

use std::str::FromStr;

use bytes::Bytes;

/// How messages are packed before they are sent.
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
    /// Not at all.
    None,
    /// gzip with a level, 1 to 9.
    #[cfg(feature = "gzip")]
    Gzip(u32),
    /// zstd with a level, 1 to 19. Collectors take it; it isn't in the specification.
    #[cfg(feature = "zstd")]
    Zstd(i32),
}

/// The lowest levels: more costs more than it saves.
impl Default for Compression {
    fn default() -> Compression {
        #[cfg(feature = "gzip")]
        return Compression::Gzip(1);
        #[cfg(not(feature = "gzip"))]
        return Compression::None;
    }
}

/// `none`, `gzip`, `zstd`; with a level behind a colon: `zstd:3`.
impl FromStr for Compression {
    /// What would be understood.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Compression, &'static str> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let level = level.map(str::parse::<u8>).transpose().map_err(|_| WANTED)?;
        match (name, level) {
            ("none", None) => Ok(Compression::None),
            #[cfg(feature = "gzip")]
            ("gzip", None | Some(1..=9)) => Ok(Compression::Gzip(level.unwrap_or(1).into())),
            #[cfg(feature = "zstd")]
            ("zstd", None | Some(1..=19)) => Ok(Compression::Zstd(level.unwrap_or(1).into())),
            _ => Err(WANTED),
        }
    }
}

const WANTED: &str = match (cfg!(feature = "gzip"), cfg!(feature = "zstd")) {
    (true, true) => "gzip, zstd or none, with a level if you like: gzip:1 to 9, zstd:1 to 19",
    (true, false) => "gzip, gzip:1 to gzip:9, or none; zstd needs the feature of that name",
    (false, true) => "zstd, zstd:1 to zstd:19, or none; gzip needs the feature of that name",
    (false, false) => "none; gzip and zstd need the features of these names",
};

/// How a body is packed, also one that another program has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// As headers have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        }
    }
}

impl Coding {
    /// Unpacks a body into at most so many bytes; none where that doesn't do, or isn't built in.
    pub(super) fn unpack(self, body: &Bytes, most: usize) -> Option<Bytes> {
        match self {
            Coding::Identity => Some(body.clone()),
            #[cfg(feature = "gzip")]
            Coding::Gzip => crate::gzip::gunzip(body, most),
            #[cfg(feature = "zstd")]
            Coding::Zstd => unzstd(body, most),
            #[cfg(not(all(feature = "gzip", feature = "zstd")))]
            _ => None,
        }
        .filter(|message| message.len() <= most)
    }
}

impl Compression {
    /// Packs a message of an [`Encoder`](crate::Encoder) as it is packed when it is sent; for other ways to send it.
    ///
    /// Any decoder of the format unpacks it.
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
        self.pack(message).0
    }

    /// The same, and how one says what it is.
    pub(super) fn pack(self, message: &Bytes) -> (Bytes, Coding) {
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

/// The tag of the tables in a message.
#[cfg(feature = "gzip")]
const DICTIONARY: u8 = crate::wire::bytes_tag(crate::encode::fields::DICTIONARY);

/// None when there is no memory for it.
#[cfg(feature = "zstd")]
fn zstd(message: &[u8], level: i32) -> Option<Bytes> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(message.len()));
    zstd_safe::compress(&mut packed, message, level.clamp(1, 19)).ok()?;
    packed.shrink_to_fit();
    Some(packed.into())
}

#[cfg(feature = "zstd")]
fn unzstd(body: &[u8], most: usize) -> Option<Bytes> {
    let len = usize::try_from(zstd_safe::get_frame_content_size(body).ok()??).ok()?;
    let mut message = Vec::with_capacity(Some(len).filter(|len| *len <= most)?);
    zstd_safe::decompress(&mut message, body).ok()?;
    Some(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_bounds() {
        for text in ["", "brotli", "gzip:", "gzip:0", "gzip:10", "zstd:20", "none:1", "gzip:-1"] {
            assert_eq!(text.parse::<Compression>(), Err(WANTED), "{text}");
        }
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn zstd_makes_it_smaller_and_back() {
        let message = Bytes::from(vec![7; 100_000]);
        let (packed, coding) = "zstd:3".parse::<Compression>().unwrap().pack(&message);
        assert!(coding == Coding::Zstd && packed.len() < 100);
    }

    #[test]
    fn what_is_packed_can_be_unpacked_and_has_a_bound() {
        let message = Bytes::from((0..10_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        for text in ["none", "gzip", "gzip:9", "zstd", "zstd:19"] {
            let Ok(compression) = text.parse::<Compression>() else { continue };
            let (packed, coding) = compression.pack(&message);
            assert_eq!(coding.unpack(&packed, message.len()), Some(message.clone()), "{text}");
            assert_eq!(coding.unpack(&packed, message.len() - 1), None, "{text}");
            let half = packed.slice(..packed.len() / 2);
            assert_ne!(coding.unpack(&half, 1 << 20), Some(message.clone()), "{text}");
        }
        for coding in [Coding::Gzip, Coding::Zstd] {
            assert_eq!(coding.unpack(&Bytes::from_static(b"neither"), 1 << 20), None);
        }
    }
}
