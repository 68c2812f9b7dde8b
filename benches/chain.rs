//! The known calls of a program, compared with a stack.

/// A frame of a stack, by whichever profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Native code of a file.
    Native,
    /// A function of the program, by any form of its name.
    Script(String),
    /// Any other frame.
    Other,
}

/// Returns `true` if a stack, leaf first, has all calls at a depth of `depth`: `descend` as often
/// as it was called, without another function in between, called by a script, and that by native
/// code, which is the root.
pub fn holds(stack: &[Seen], depth: u32) -> bool {
    const MIDDLE: &str = "descend";
    let functions: Vec<&str> = stack
        .iter()
        .filter_map(|frame| match frame {
            Seen::Script(name) => Some(bare(name)),
            _ => None,
        })
        .collect();
    let first = functions.iter().position(|name| *name == MIDDLE).unwrap_or(functions.len());
    let calls = functions[first..].iter().take_while(|name| **name == MIDDLE).count();
    let callers = &functions[first + calls..];
    calls + 2 == depth as usize
        && !callers.is_empty()
        && !callers.contains(&MIDDLE)
        && stack.last() == Some(&Seen::Native)
}

/// Returns a function's name without its types, class and arguments, and without the number of its
/// level: `descend_7`.
fn bare(name: &str) -> &str {
    let name = name.split('(').next().unwrap_or(name);
    let name = name.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(name);
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &str) -> Vec<Seen> {
        let frame = |name: &str| match name {
            "native" => Seen::Native,
            "?" => Seen::Other,
            name => Seen::Script(name.to_owned()),
        };
        names.split(';').map(frame).collect()
    }

    #[test]
    fn whole_chains_hold() {
        assert!(holds(&stack("burn;descend;descend;main;native"), 4));
        assert!(holds(&stack("native;Spin.descend(int);int Spin.descend(int, long);Spin.main;?;native"), 4));
        assert!(holds(&stack("?;Object#descend;main;native"), 3));
        assert!(holds(&stack("burn;descend_1;descend_12;{main};native"), 4));
    }

    #[test]
    fn chains_with_gaps_do_not_hold() {
        assert!(!holds(&stack("burn;descend;main;native"), 4), "a call is missing");
        assert!(!holds(&stack("burn;descend;descend;descend;main;native"), 4), "a call too many");
        assert!(!holds(&stack("burn;descend;burn;descend;main;native"), 4), "another in between");
        assert!(!holds(&stack("burn;descend;descend;native"), 4), "no caller");
        assert!(!holds(&stack("burn;descend;descend;main;?"), 4), "no root");
        assert!(!holds(&[], 2));
    }
}
