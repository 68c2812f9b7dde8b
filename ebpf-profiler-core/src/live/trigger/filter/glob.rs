//! Patterns of names, from text to an [automaton](ebpf_programs::abi::filter).

use ebpf_programs::abi::filter::{NAME, Names, STATES};

use super::super::pattern::{Pattern, Piece};
use super::FilterError;

/// Returns the automaton of all patterns.
pub(super) fn compile(patterns: &[String]) -> Result<Names, FilterError> {
    let mut names = Names::NONE;
    let mut state = 0;
    for pattern in patterns {
        state = add(&mut names, pattern.as_bytes(), state)
            .map_err(|what| FilterError::new(format!("the pattern {pattern:?} cannot be used: {what}")))?;
    }
    Ok(names)
}

/// Adds a pattern whose first state is number `state`. Returns the number of the next free state.
fn add(names: &mut Names, pattern: &[u8], mut state: u32) -> Result<u32, &'static str> {
    let mut bytes = 0;
    names.first |= bit(state)?;
    for piece in &Pattern::parse(pattern)?.0 {
        let from = bit(state)?;
        match piece {
            Piece::Any => names.loops |= from,
            Piece::One(set) => {
                (1..=255u8)
                    .filter(|&byte| set.has(byte))
                    .for_each(|byte| names.steps[usize::from(byte)] |= from);
                state += 1;
                bytes += 1;
            }
        }
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
