//! Second runs of failed tests.

use crate::run::Outcome;

/// Failed tests of a program that are run once more; if more fail, the machine is not the reason.
const FAILED: usize = 2;

/// Begin of the line that names tests with a second run.
pub(crate) const SECOND_RUN: &str = "failed once, second run: ";

/// Runs a program's tests, and once more those that failed: beside other work on a machine, the
/// shares of a profile and the order of two processes vary by chance. Both results are printed, and
/// a test that fails twice has failed.
///
/// `run` runs the tests that its arguments select, and passes the printed lines on.
pub(crate) fn twice(
    first: &[&str],
    mut run: impl FnMut(&[&str], &mut dyn FnMut(&str)) -> Outcome,
    see: &mut dyn FnMut(&str),
) -> Outcome {
    let mut failures = Failures::default();
    let outcome = run(first, &mut |line| {
        failures.add(line);
        see(line);
    });
    if outcome.is_ok() || failures.names.is_empty() || failures.names.len() > FAILED {
        return outcome;
    }
    let names: Vec<&str> = failures.names.iter().map(String::as_str).collect();
    see(&format!("{SECOND_RUN}{}", names.join(", ")));
    run(&[&["--exact"], &names[..]].concat(), see)
}

/// The names in the last list of failed tests that a test runner printed.
#[derive(Debug, Default)]
struct Failures {
    names: Vec<String>,
    is_list: bool,
}

impl Failures {
    fn add(&mut self, line: &str) {
        if line == "failures:" {
            (self.names, self.is_list) = (Vec::new(), true);
        } else if let (true, Some(name)) = (self.is_list, line.strip_prefix("    ")) {
            self.names.push(name.to_owned());
        } else {
            self.is_list &= line.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_of_failed_tests() {
        let mut failures = Failures::default();
        let printed = "failures:\n\n---- a::b stdout ----\n    no name\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        printed.lines().for_each(|line| failures.add(line));
        assert_eq!(failures.names, ["a::b", "c"]);
    }

    #[test]
    fn runs_failed_tests_once_more() {
        let verdict = |failed: &[&str], again: bool| {
            let (mut runs, mut seen) = (Vec::new(), Vec::new());
            let run = |selected: &[&str], see: &mut dyn FnMut(&str)| {
                runs.push(selected.join(" "));
                see("failures:");
                failed.iter().for_each(|name| see(&format!("    {name}")));
                if runs.len() > 1 && !again { Ok(()) } else { Err("failed".to_owned()) }
            };
            let outcome = twice(&["--skip", "z"], run, &mut |line| seen.push(line.to_owned()));
            assert_eq!(runs[0], "--skip z");
            let named = seen.iter().any(|line| line.starts_with(SECOND_RUN));
            (outcome.is_ok(), runs.split_off(1), named)
        };
        assert_eq!(verdict(&["a", "b"], false), (true, vec!["--exact a b".to_owned()], true));
        assert_eq!(verdict(&["a"], true), (false, vec!["--exact a".to_owned()], true));
        // More failures than that, or an end without a list of them.
        assert_eq!(verdict(&["a", "b", "c"], false), (false, vec![], false));
        assert_eq!(verdict(&[], false), (false, vec![], false));
    }
}
