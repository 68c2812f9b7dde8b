//! JSON and escaped text.

use std::fmt;
use std::io::{self, Write};

/// Writes a JSON string that neither opens nor closes an element, for use inside `<script>`.
pub(super) fn write_string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let mut escaped = String::with_capacity(text.len() + 2);
    escaped.push('"');
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '<' | '>' | '&' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => escaped.push(character),
        }
    }
    escaped.push('"');
    out.write_all(escaped.as_bytes())
}

/// Writes a JSON array of strings, one per line.
pub(super) fn write_strings<S: AsRef<str>>(
    out: &mut dyn Write,
    strings: impl IntoIterator<Item = S>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, text) in strings.into_iter().enumerate() {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        write_string(out, text.as_ref())?;
    }
    out.write_all(b"\n]")
}

/// Writes a JSON array.
pub(super) fn write_array<T: fmt::Display>(
    out: &mut dyn Write,
    items: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{item}")?;
    }
    out.write_all(b"]")
}

/// Writes text between tags.
pub(super) fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    out.write_all(escaped.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_do_not_close_their_element() {
        let mut out = Vec::new();
        write_string(&mut out, "</script><!--&\"\\\n\u{2028}ä").unwrap();
        let expected = r#""\u003c/script\u003e\u003c!--\u0026\"\\\u000a\u2028ä""#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
