//! Compression.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), level);
    // Writing to memory doesn't fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}

/// Decompresses into at most so many bytes.
#[cfg(feature = "gzip")]
pub(crate) fn gunzip(bytes: &[u8], most: usize) -> Option<Bytes> {
    use std::io::Read;
    let mut message = Vec::new();
    // One more tells what is too large from what just fits.
    let limit = (most as u64).saturating_add(1);
    flate2::read::GzDecoder::new(bytes).take(limit).read_to_end(&mut message).ok()?;
    (message.len() <= most).then(|| message.into())
}
