//! A section that is looked at here and there, read in stretches.

use super::data::Data;

/// Gives pieces of a section without holding it.
///
/// What is asked for next is often near: symbols that are neighbours in the code have names that are
/// neighbours, and lists of ranges follow each other as the functions do.
pub(super) struct Window<'e> {
    data: Data<'e>,
    step: u64,
    held: Vec<u8>,
    start: u64,
}

impl<'e> Window<'e> {
    /// Reads at least `step` bytes at once.
    pub(super) fn new(data: Data<'e>, step: u64) -> Window<'e> {
        Window { data, step, held: Vec::new(), start: 0 }
    }

    /// What follows `offset`: at least `size` bytes, or all up to the end of the section.
    pub(super) fn at(&mut self, offset: u64, size: u64) -> Option<&[u8]> {
        let size = size.min(self.data.size().checked_sub(offset)?);
        if self.held(offset).is_none_or(|held| (held.len() as u64) < size) {
            self.load(offset, size.max(self.step))?;
        }
        self.held(offset)
    }

    /// The text at `offset`, without its zero byte; nothing where there is none, or it is too long.
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

/// What is read at once of a string section.
pub(super) const TEXTS: u64 = 1 << 10;

/// The longest text; the names of some templates are that long.
const MAX_TEXT: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_wherever_the_window_is() {
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
