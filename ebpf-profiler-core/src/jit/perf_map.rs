//! Perf maps: text files with one function per line.
//!
//! ```text
//!   7f39548c27a0 b8 LazyCompile:*fib /srv/a.js:3
//!   start        size (both hexadecimal, with or without 0x), and a name up to the end of the line
//! ```
//!
//! Format: [jit-interface.txt](https://github.com/torvalds/linux/blob/v6.12/tools/perf/Documentation/jit-interface.txt).

use super::code::Code;
use super::{Growing, JitStats};
use crate::elf::ReadAt;

/// Maximum length of a name, in bytes; longer ones are cut.
const MAX_NAME: usize = 1024;

/// Maximum length of a line, in bytes; longer ones are skipped.
const MAX_LINE: usize = 16 << 10;

/// A perf map that grows while it is read.
pub(super) struct PerfMap(Growing);

impl PerfMap {
    pub(super) fn new(source: Box<dyn ReadAt>) -> PerfMap {
        PerfMap(Growing::new(source))
    }

    /// Appends the functions that were written since the last call, as start, end and code.
    ///
    /// Returns `true` if the map was written again: what was read of it before is no longer so.
    pub(super) fn read(&mut self, functions: &mut Vec<(u64, u64, Code)>, stats: &mut JitStats) -> bool {
        let mut restarted = false;
        while self.0.advance() {
            restarted |= self.0.take_restarted();
            let mut lines = self.0.rest.split_inclusive(|&byte| byte == b'\n').peekable();
            let mut used = 0;
            while let Some(line) = lines.next_if(|line| line.ends_with(b"\n")) {
                used += line.len();
                match parse(line) {
                    Some(function) => functions.push(function),
                    None => stats.malformed += 1,
                }
            }
            self.0.rest.drain(..used);
            if self.0.rest.len() > MAX_LINE {
                stats.malformed += 1;
                self.0.rest.clear();
            }
        }
        restarted
    }
}

fn parse(line: &[u8]) -> Option<(u64, u64, Code)> {
    let line = line.trim_ascii_end();
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let start = number(parts.next()?)?;
    let size = number(parts.next()?)?;
    let name = parts.next().filter(|name| !name.is_empty())?;
    let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
    Some((start, start.checked_add(size)?, Code { name: (*name).into(), lines: Vec::new() }))
}

fn number(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn parses_lines_of_real_runtimes() {
        let name =
            |line: &str| parse(line.as_bytes()).map(|(start, end, code)| (start, end, code.name.to_string()));
        assert_eq!(
            name("7f39548c27a0 b8 LazyCompile:*fib /srv/a.js:3\n"),
            Some((0x7f39_548c_27a0, 0x7f39_548c_2858, "LazyCompile:*fib /srv/a.js:3".into()))
        );
        assert_eq!(name("0x1000 0x10 x\r\n"), Some((0x1000, 0x1010, "x".into())));
        for malformed in
            ["", "1000", "1000 10", "1000 10 ", "xyz 10 name", "ffffffffffffffff 2 wraps", "-1 2 n"]
        {
            assert_eq!(name(malformed), None, "{malformed}");
        }
    }
}
