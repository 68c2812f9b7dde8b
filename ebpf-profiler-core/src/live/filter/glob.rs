//! Patterns of names, from text to an [automaton](ebpf_programs::abi::filter).

use ebpf_programs::abi::filter::{NAME, Names, STATES};

use super::{FilterError, error};

/// Returns the automaton of all patterns.
pub(super) fn compile(patterns: &[String]) -> Result<Names, FilterError> {
    let mut names = Names::NONE;
    let mut state = 0;
    for pattern in patterns {
        state = add(&mut names, pattern.as_bytes(), state)
            .map_err(|what| error(format!("the pattern {pattern:?} cannot be used: {what}")))?;
    }
    Ok(names)
}

/// Adds a pattern whose first state is number `state`. Returns the number of the next free state.
fn add(names: &mut Names, pattern: &[u8], mut state: u32) -> Result<u32, &'static str> {
    if pattern.is_empty() {
        return Err("the pattern is empty");
    }
    let mut bytes = 0;
    let mut rest = pattern;
    names.first |= bit(state)?;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'*' {
            names.loops |= bit(state)?;
            continue;
        }
        let from = bit(state)?;
        let set = if byte == b'[' { set(&mut rest)? } else { Set::of(byte) };
        (1..=255u8).filter(|&byte| set.has(byte)).for_each(|byte| names.steps[usize::from(byte)] |= from);
        state += 1;
        bytes += 1;
    }
    if bytes >= NAME {
        return Err("names have at most 15 bytes; cut it, and end it with *");
    }
    names.last |= bit(state)?;
    Ok(state + 1)
}

fn bit(state: u32) -> Result<u64, &'static str> {
    if state < STATES {
        Ok(1 << state)
    } else {
        Err("all patterns together may have 64 bytes, each one more than its own")
    }
}

/// A set of bytes.
struct Set {
    ranges: Vec<(u8, u8)>,
    is_negated: bool,
}

impl Set {
    /// Returns the set of one byte; of all for `?`.
    fn of(byte: u8) -> Set {
        Set { ranges: vec![if byte == b'?' { (1, 255) } else { (byte, byte) }], is_negated: false }
    }

    fn has(&self, byte: u8) -> bool {
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

    fn matches(patterns: &[&str], name: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let mut bytes = [0; NAME];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        // What follows the first zero byte is of a former name.
        if name.len() < 12 {
            bytes[name.len() + 1..].fill(b'x');
        }
        compile(&patterns).unwrap().matches(&bytes)
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is_match) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx2", false),
            ("nginx", "ngin", false),
            ("nginx*", "nginx: worker", true),
            ("*", "", true),
            ("?*", "", false),
            ("*worker*", "nginx: worker p", true),
            ("*ab", "aab", true),
            ("*ab", "aba", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("worker-[0-9]", "worker-7", true),
            ("worker-[0-9]", "worker-x", false),
            ("worker-[!0-9]", "worker-x", true),
            ("[]x]", "]", true),
            ("0123456789abcd?", "0123456789abcde", true),
            ("***a", "bba", true),
            ("Web Content", "Web Content", true),
        ] {
            assert_eq!(matches(&[pattern], name), is_match, "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn patterns_do_not_run_into_one_another() {
        let patterns = ["ab", "cd*", "*ef"];
        for (name, is_match) in [
            ("ab", true),
            ("cdx", true),
            ("xef", true),
            ("abcd", false),
            ("abx", false),
            ("cef", true),
            ("d", false),
        ] {
            assert_eq!(matches(&patterns, name), is_match, "{name:?}");
        }
    }
}
