//! Display of numbers and percentages, and sanitized, shortened names.

use std::borrow::Cow;
use std::fmt;

/// A number with thousands separators: `12,345`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) u64);

/// A share in percent: `12.3 %`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) part: u64,
    pub(crate) all: u64,
}

impl Number {
    /// Formats the number with its noun: `1 sample`, `2 samples`.
    pub(crate) fn of(self, noun: &str) -> String {
        let plural = if self.0 == 1 { "" } else { "s" };
        format!("{self} {noun}{plural}")
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Nanoseconds as time with three digits: `1.23 ms`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, 1_000, &["ns", "µs", "ms", "s"]))
    }
}

/// A number of bytes with three digits: `1.23 MiB`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, 1_024, &["B", "KiB", "MiB", "GiB", "TiB"]))
    }
}

/// Formats a number in the largest unit in which it is at least 1.
fn scaled(number: u64, step: u64, units: &[&str]) -> String {
    let (mut value, mut unit) = (number as f64, 0);
    while value >= step as f64 && unit + 1 < units.len() {
        value /= step as f64;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 || value >= 100.0 => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", units[unit])
}

/// Never rounds up to 100 %, which would read as all.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (u128::from(self.part) * 2_000 + u128::from(self.all))
            .checked_div(u128::from(self.all) * 2)
            .unwrap_or(0);
        let tenths = if self.part < self.all { tenths.min(999) } else { tenths };
        f.pad(&format!("{}.{} %", tenths / 10, tenths % 10))
    }
}

/// Replaces control characters, line separators and changes of text direction by U+FFFD.
pub(crate) fn clean(name: &str) -> Cow<'_, str> {
    if !name.contains(is_unruly) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.replace(is_unruly, "\u{fffd}"))
}

fn is_unruly(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts the text to `most` characters; a cut text ends with `…`.
pub(crate) fn clip(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(most.saturating_sub(1));
    Cow::Owned(kept.chain((most > 0).then_some('…')).collect())
}

/// Shortens the name of a function to `most` characters. Dropped first are arguments and type
/// parameters, then the path in front, then the end.
pub(crate) fn fit(name: &str, most: usize) -> Cow<'_, str> {
    let fits = |name: &str| name.chars().nth(most).is_none();
    if fits(name) {
        return Cow::Borrowed(name);
    }
    if let Some(function) = without_folders(name) {
        return clip(function, most);
    }
    let Some(plain) = plain(name) else { return clip(name, most) };
    let last = plain.match_indices("::").map(|(at, _)| &plain[at + 2..]);
    let tails: Vec<&str> = std::iter::once(plain.as_str()).chain(last).collect();
    let best = tails.iter().find(|tail| fits(tail)).or(tails.last()).copied().unwrap_or(name);
    Cow::Owned(clip(best, most).into_owned())
}

/// Removes the folders of a Go function's package: `ssa.(*Func).NewBlock`.
fn without_folders(name: &str) -> Option<&str> {
    let path = name.find(['(', '[', '<', ' ', ':']).map_or(name, |end| &name[..end]);
    let (folders, _) = path.rsplit_once('/')?;
    Some(&name[folders.len() + 1..])
}

/// Removes bracketed parts of a name; `None` if brackets do not match or nothing is left.
fn plain(name: &str) -> Option<String> {
    let mut depth = 0_u32;
    let mut plain = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    // Removed types between two paths leave both separators.
    let plain = plain.trim().replace("::::", "::");
    let plain = plain.trim_start_matches("::").trim_end_matches("::");
    (depth == 0 && !plain.is_empty()).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_largest_unit_and_three_digits() {
        let times =
            [0, 999, 1_000, 1_234_567, 12_345_678_901, 9_000_000_000_000].map(|it| Seconds(it).to_string());
        assert_eq!(times, ["0 ns", "999 ns", "1 µs", "1.23 ms", "12.3 s", "9000 s"]);
        let bytes = [5, 1_536, 3 << 30].map(|it| Bytes(it).to_string());
        assert_eq!(bytes, ["5 B", "1.5 KiB", "3 GiB"]);
    }

    #[test]
    fn numbers_have_thousands() {
        let texts: Vec<_> = [0, 999, 1_000, 12_345_678].map(|number| Number(number).to_string()).into();
        assert_eq!(texts, ["0", "999", "1,000", "12,345,678"]);
        assert_eq!(Number(1).of("sample"), "1 sample");
    }

    #[test]
    fn shares_are_rounded_but_never_to_all() {
        let share = |part, all| Share { part, all }.to_string();
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(2, 3), "66.7 %");
        assert_eq!(share(99_999, 100_000), "99.9 %");
        assert_eq!(share(7, 7), "100.0 %");
        assert_eq!(share(0, 0), "0.0 %");
        assert_eq!(share(u64::MAX, u64::MAX), "100.0 %");
    }

    #[test]
    fn clean_removes_terminal_control() {
        assert_eq!(clean("main"), "main");
        assert_eq!(clean("a\x1b[2Jb\n\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
    }

    #[test]
    fn clipped_text_ends_with_ellipsis() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "ab…");
        assert_eq!(clip("äöüß", 3), "äö…");
        assert_eq!(clip("abc", 0), "");
    }

    #[test]
    fn fit_keeps_function_name() {
        let name = "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend";
        assert_eq!(fit(name, 100), name);
        assert_eq!(fit(name, 20), "extend");
        assert_eq!(
            fit("std::vector<int, std::allocator<int> >::push_back(int const&)", 30),
            "std::vector::push_back"
        );
        assert_eq!(fit("std::vector<int>::push_back(int)", 18), "vector::push_back");
        assert_eq!(fit("std::vector<int>::push_back(int)", 5), "push…");
        assert_eq!(fit("a::run::<(), b::{closure#0}>::{closure#1}", 21), "a::run::{closure#1}");
        assert_eq!(fit("tempfile::tempdir_in::<&str>", 25), "tempfile::tempdir_in");
        assert_eq!(fit("operator<<", 5), "oper…");
        assert_eq!(fit("cmd/compile/ssa.(*Func).NewBlock", 22), "ssa.(*Func).NewBlock");
        assert_eq!(fit("slices.Sort[go/types.T]", 15), "slices.Sort[go…");
    }
}
