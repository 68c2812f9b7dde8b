//! Buffered random access to a section.

use super::data::Data;

/// A window that is read of a section.
///
/// Consecutive requests are often near each other: neighbouring functions have neighbouring names
/// and range lists.
pub(super) struct Window<'e> {
    data: Data<'e>,
    step: u64,
    held: Vec<u8>,
    start: u64,
}

impl<'e> Window<'e> {
    /// Creates a window that reads at least `step` bytes at a time.
    pub(super) fn new(data: Data<'e>, step: u64) -> Window<'e> {
        Window { data, step, held: Vec::new(), start: 0 }
    }

    /// Returns the bytes from `offset` on: at least `size`, or all up to the end of the section.
    pub(super) fn at(&mut self, offset: u64, size: u64) -> Option<&[u8]> {
        let size = size.min(self.data.size().checked_sub(offset)?);
        if self.held(offset).is_none_or(|held| (held.len() as u64) < size) {
            self.load(offset, size.max(self.step))?;
        }
        self.held(offset)
    }

    /// Returns the text at `offset` without its zero byte; `None` if it is not terminated within 64
    /// KiB.
    pub(super) fn text(&mut self, offset: u64) -> Option<&[u8]> {
        let is_whole = self.at(offset, 1)?.contains(&0);
        let bytes = self.at(offset, if is_whole { 1 } else { MAX_TEXT })?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        Some(&bytes[..end])
    }

    fn held(&self, offset: u64) -> Option<&[u8]> {
        self.held.get(usize::try_from(offset.checked_sub(self.start)?).ok()?..)
    }

    fn load(&mut self, offset: u64, size: u64) -> Option<()> {
        let size = size.min(self.data.size().checked_sub(offset)?);
        self.held.clear();
        self.held.extend_from_slice(&self.data.range(offset, size).ok()?);
        self.start = offset;
        Some(())
    }
}

/// Bytes per read of a string section.
pub(super) const TEXTS: u64 = 1 << 10;

/// Maximum length of a text; names of some templates are that long.
const MAX_TEXT: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_texts_inside_and_across_windows() {
        let long = "x".repeat(TEXTS as usize * 2);
        let mut bytes = format!("\0first\0second\0{long}\0last\0").into_bytes();
        bytes.extend(b"open");
        let end = bytes.len() as u64;
        let mut strings = Window::new(Data::Held(&bytes), TEXTS);
        assert_eq!(strings.text(1), Some(&b"first"[..]));
        assert_eq!(strings.text(14), Some(long.as_bytes()));
        assert_eq!(strings.text(7), Some(&b"second"[..]));
        assert_eq!(strings.text(end - 9), Some(&b"last"[..]));
        assert_eq!(strings.text(0), Some(&b""[..]));
        assert_eq!(strings.text(end - 4), None, "no zero byte");
        assert_eq!(strings.text(end), None);
        assert_eq!(strings.text(u64::MAX), None);
    }
}
