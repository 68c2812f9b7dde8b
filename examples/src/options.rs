//! Long options, as many as an example needs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use crate::fail;

/// What a program takes.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Its name and what it does, in one line.
    pub about: &'static str,
    /// Its options: name, what stands for the value (empty for a switch), meaning.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// What stands for the words behind the options; empty where there are none.
    pub words: &'static str,
}

/// What a program was given.
#[derive(Debug, Default)]
pub struct Options {
    values: HashMap<&'static str, Vec<String>>,
    words: Vec<String>,
}

impl Options {
    /// Reads the command line; ends the program with a sentence where it makes no sense, or after `--help`.
    pub fn parse(usage: Usage) -> Options {
        Options::read(usage, std::env::args_os().skip(1)).unwrap_or_else(|problem| {
            if problem.is_empty() {
                print(usage);
                std::process::exit(0);
            }
            eprintln!("error: {problem}; see --help");
            std::process::exit(2);
        })
    }

    /// The value of an option, or `otherwise`.
    pub fn get<T: FromStr>(&self, name: &str, otherwise: T) -> T {
        self.one(name).unwrap_or(otherwise)
    }

    /// The value of an option, if it was given.
    pub fn one<T: FromStr>(&self, name: &str) -> Option<T> {
        self.all(name).pop()
    }

    /// The values of an option that may be given several times.
    pub fn all<T: FromStr>(&self, name: &str) -> Vec<T> {
        let parse = |value: &String| {
            value.parse().unwrap_or_else(|_| {
                eprintln!("error: --{name} can't be {value:?}; see --help");
                std::process::exit(2);
            })
        };
        self.values.get(name).into_iter().flatten().map(parse).collect()
    }

    /// The value of an option that is a time in seconds, if it was given.
    pub fn seconds(&self, name: &str) -> Option<Duration> {
        self.seconds_from(0.001, name)
    }

    /// The same where less than `least` makes no sense.
    pub fn seconds_from(&self, least: f64, name: &str) -> Option<Duration> {
        let seconds: f64 = self.one(name)?;
        let most = 1e6;
        if !(least..=most).contains(&seconds) {
            fail(format!("--{name} can't be {seconds}; give a number of seconds from {least} to {most}"));
        }
        Some(Duration::from_secs_f64(seconds))
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The words behind the options.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// An empty problem asks for help.
    fn read(usage: Usage, arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
        let mut options = Options::default();
        let text = |word: OsString| word.into_string().map_err(|word| format!("{word:?} is not UTF-8"));
        let mut arguments = arguments.map(text);
        while let Some(argument) = arguments.next().transpose()? {
            let Some(option) = argument.strip_prefix("--") else {
                if usage.words.is_empty() {
                    return Err(format!("{argument:?} is not expected here"));
                }
                options.words.push(argument);
                continue;
            };
            let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
            if name == "help" {
                return Err(String::new());
            }
            let known = usage.options.iter().find(|(known, ..)| *known == name);
            let (name, kind, _) = known.ok_or_else(|| format!("there is no option --{name}"))?;
            let value = match (kind.is_empty(), value) {
                (true, None) => String::new(),
                (true, Some(_)) => return Err(format!("--{name} takes no value")),
                (false, Some(value)) => value.to_owned(),
                (false, None) => arguments.next().ok_or_else(|| format!("--{name} wants {kind}"))??,
            };
            options.values.entry(name).or_default().push(value);
        }
        Ok(options)
    }
}

fn print(usage: Usage) {
    let line = |name: &str, meaning: &str| format!("  {name:<24} {meaning}\n");
    let options = usage.options.iter();
    let lines = options.map(|(name, value, meaning)| line(format!("--{name} {value}").trim_end(), meaning));
    let lines: String = lines.chain([line("--help", "print this")]).collect();
    crate::print(format_args!("{}\n\n{lines}", usage.about));
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        about: "",
        options: &[("seconds", "N", ""), ("pid", "PID", ""), ("quiet", "", "")],
        words: "",
    };

    fn read(line: &str) -> Result<Options, String> {
        Options::read(USAGE, line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        let options = read("--seconds 5 --pid=1 --pid 2 --quiet").unwrap();
        assert_eq!(options.get("seconds", 0), 5);
        assert_eq!(options.all::<u32>("pid"), [1, 2]);
        assert!(options.has("quiet"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert_eq!(read("--second 5").unwrap_err(), "there is no option --second");
        assert_eq!(read("--seconds").unwrap_err(), "--seconds wants N");
        assert_eq!(read("--quiet=yes").unwrap_err(), "--quiet takes no value");
        assert_eq!(read("five").unwrap_err(), "\"five\" is not expected here");
        assert_eq!(read("--help").unwrap_err(), "");
    }
}
