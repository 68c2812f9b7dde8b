//! Numbers of bytes as text, such as `512KiB`.

use std::fmt;

/// A number of bytes, shown in the largest unit that divides it.
pub(super) struct Bytes(pub(super) u64);

/// Units, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl Bytes {
    /// Parses a number with or without a unit. Returns `None` for other texts, and for 0.
    pub(super) fn parse(text: &str) -> Option<Bytes> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
        let bytes = digits.parse::<u64>().ok()?.checked_mul(*unit)?;
        (bytes > 0 && digits.starts_with(|byte: char| byte.is_ascii_digit())).then_some(Bytes(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) =
            UNITS.into_iter().find(|&(_, unit)| self.0.is_multiple_of(unit)).unwrap_or(("", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for text in ["1", "1000", "1KiB", "1025", "512KiB", "3MiB", "2GiB"] {
            assert_eq!(Bytes::parse(text).map(|bytes| bytes.to_string()).as_deref(), Some(text));
        }
        for text in
            ["", "0", "KiB", "+1", "-1", "1kB", "1.5MiB", "0KiB", "99999999999GiB", "libc.so.6", "1KiB "]
        {
            assert!(Bytes::parse(text).is_none(), "{text}");
        }
    }
}
