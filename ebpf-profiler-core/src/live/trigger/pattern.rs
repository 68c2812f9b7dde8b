//! Patterns of names: `*` any bytes, `?` one byte, `[a-z]` and `[!a-z]` one byte of a set.

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern(pub(super) Vec<Piece>);

/// A piece of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// Any number of bytes.
    Any,
    /// One byte of a set.
    One(Set),
}

impl Pattern {
    /// Parses a pattern.
    pub(super) fn parse(text: &[u8]) -> Result<Pattern, &'static str> {
        let (mut rest, mut pieces) = (text, Vec::new());
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            pieces.push(match byte {
                b'*' => Piece::Any,
                b'[' => Piece::One(set(&mut rest)?),
                byte => Piece::One(Set::of(byte)),
            });
        }
        if pieces.is_empty() { Err("the pattern is empty") } else { Ok(Pattern(pieces)) }
    }

    /// Returns `true` if a text has characters with a meaning in patterns.
    pub(super) fn is_one(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// Returns `true` if the pattern matches the whole of `name`.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let (mut piece, mut at) = (0, 0);
        // Behind the last `*`, and the byte at which its match ends.
        let mut last: Option<(usize, usize)> = None;
        loop {
            match (self.0.get(piece), name.get(at)) {
                (None, None) => return true,
                (Some(Piece::Any), _) => {
                    piece += 1;
                    last = Some((piece, at));
                }
                (Some(Piece::One(set)), Some(&byte)) if set.has(byte) => (piece, at) = (piece + 1, at + 1),
                _ => match &mut last {
                    Some((behind, end)) if *end < name.len() => {
                        *end += 1;
                        (piece, at) = (*behind, *end);
                    }
                    _ => return false,
                },
            }
        }
    }
}

/// A set of bytes.
#[derive(Clone, Debug)]
pub(super) struct Set {
    ranges: Vec<(u8, u8)>,
    is_negated: bool,
}

impl Set {
    /// Returns the set of one byte; of all for `?`.
    fn of(byte: u8) -> Set {
        Set { ranges: vec![if byte == b'?' { (1, 255) } else { (byte, byte) }], is_negated: false }
    }

    /// Returns `true` if `byte` is in the set.
    pub(super) fn has(&self, byte: u8) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..=to).contains(&byte)) != self.is_negated
    }
}

/// Parses a set up to its `]`.
fn set(rest: &mut &[u8]) -> Result<Set, &'static str> {
    let end = rest.iter().skip(1).position(|&byte| byte == b']').ok_or("there is no ] for its [")? + 1;
    let (mut inner, behind) = rest.split_at(end);
    *rest = &behind[1..];
    let is_negated = matches!(inner.first(), Some(b'!' | b'^'));
    if is_negated {
        inner = &inner[1..];
    }
    let mut ranges = Vec::new();
    while let Some((&from, behind)) = inner.split_first() {
        let (to, behind) = match behind {
            [b'-', to, behind @ ..] => (*to, behind),
            behind => (from, behind),
        };
        ranges.push((from, to));
        inner = behind;
    }
    Ok(Set { ranges, is_negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_of_any_length() {
        let long = "a".repeat(10_000);
        let many = "*a".repeat(500) + "b";
        for (pattern, name, is_match) in [
            ("mem*", "memcpy", true),
            ("mem*", "wmemcpy", false),
            ("*cpy", "memcpy", true),
            ("m?m*y", "memcpy", true),
            ("a*b*c", "axxcyyb", false),
            ("*ab", "aab", true),
            ("lib[cm].so*", "libm.so.6", true),
            ("lib[!cm].so*", "libm.so.6", false),
            ("a*", &long, true),
            ("*", "", true),
            ("?", "", false),
            (&many, &long, false),
        ] {
            assert_eq!(
                Pattern::parse(pattern.as_bytes()).unwrap().matches(name.as_bytes()),
                is_match,
                "{pattern}"
            );
        }
        assert!(Pattern::parse(b"").is_err() && Pattern::parse(b"a[b").is_err());
    }
}
