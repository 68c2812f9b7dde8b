//! Texts that end with a zero byte, read one by one.

use super::data::Data;

/// Gives the texts of a string section without holding it.
///
/// Symbols that are neighbours in the code often have names that are neighbours too, so a stretch is read at once.
pub(super) struct Strings<'e> {
    data: Data<'e>,
    window: Vec<u8>,
    start: u64,
}

/// What is read at once.
const WINDOW: u64 = 4 << 10;

/// The longest text; the names of some templates are that long.
const MAX_TEXT: u64 = 64 << 10;

impl<'e> Strings<'e> {
    pub(super) fn new(data: Data<'e>) -> Strings<'e> {
        Strings { data, window: Vec::new(), start: 0 }
    }

    /// The text at `offset`, without its zero byte; nothing where there is none, or it is too long.
    pub(super) fn get(&mut self, offset: u64) -> Option<&[u8]> {
        if self.held(offset).is_none() {
            self.load(offset, WINDOW)?;
            if self.held(offset).is_none() {
                self.load(offset, MAX_TEXT)?;
            }
        }
        self.held(offset)
    }

    fn held(&self, offset: u64) -> Option<&[u8]> {
        let rest = self.window.get(usize::try_from(offset.checked_sub(self.start)?).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(&rest[..end])
    }

    fn load(&mut self, offset: u64, size: u64) -> Option<()> {
        let size = size.min(self.data.size().checked_sub(offset)?);
        self.window.clear();
        self.window.extend_from_slice(&self.data.range(offset, size).ok()?);
        self.start = offset;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_wherever_the_window_is() {
        let long = "x".repeat(WINDOW as usize * 2);
        let mut bytes = format!("\0first\0second\0{long}\0last\0").into_bytes();
        bytes.extend(b"open");
        let end = bytes.len() as u64;
        let mut strings = Strings::new(Data::Owned(bytes));
        assert_eq!(strings.get(1), Some(&b"first"[..]));
        assert_eq!(strings.get(14), Some(long.as_bytes()));
        assert_eq!(strings.get(7), Some(&b"second"[..]));
        assert_eq!(strings.get(end - 9), Some(&b"last"[..]));
        assert_eq!(strings.get(0), Some(&b""[..]));
        assert_eq!(strings.get(end - 4), None, "no zero byte");
        assert_eq!(strings.get(end), None);
        assert_eq!(strings.get(u64::MAX), None);
    }
}
