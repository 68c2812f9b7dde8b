//! Command lines, parsed by `lexopt`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::fail;
use crate::print::fail_with;

/// Command line of a program.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Name and purpose of the program, in one line.
    pub about: &'static str,
    /// Options: name, placeholder of the value (empty for a switch), meaning.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// Placeholder of the arguments; empty if there are none.
    pub arguments: &'static str,
}

/// Parsed command line.
#[derive(Debug, Default)]
pub struct Options {
    values: HashMap<&'static str, Vec<String>>,
    arguments: Vec<String>,
}

impl Options {
    /// Parses the command line. After an error or `--help` it ends the program.
    pub fn parse(usage: Usage) -> Options {
        match Options::read(usage, std::env::args_os().skip(1)) {
            Ok(Some(options)) => options,
            Ok(None) => {
                print(usage);
                std::process::exit(0);
            }
            Err(error) => fail_with(2, format!("{error}; see --help")),
        }
    }

    /// Returns the value of an option, or `default`.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> T {
        self.one(name).unwrap_or(default)
    }

    /// Returns the value of an option; `None` if it is not given.
    pub fn one<T: FromStr>(&self, name: &str) -> Option<T> {
        self.all(name).pop()
    }

    /// Returns all values of an option, in their order.
    pub fn all<T: FromStr>(&self, name: &str) -> Vec<T> {
        let parse = |value: &String| {
            value
                .parse()
                .unwrap_or_else(|_| fail_with(2, format!("--{name} cannot be {value:?}; see --help")))
        };
        self.values.get(name).into_iter().flatten().map(parse).collect()
    }

    /// Returns the value of an option in seconds, from 0.001 on; `None` if it is not given.
    pub fn seconds(&self, name: &str) -> Option<Duration> {
        self.seconds_from(0.001, name)
    }

    /// Returns the value of an option in seconds, from `least` on; `None` if it is not given.
    pub fn seconds_from(&self, least: f64, name: &str) -> Option<Duration> {
        let seconds: f64 = self.one(name)?;
        let most = 1e6;
        if !(least..=most).contains(&seconds) {
            fail(format!("--{name} cannot be {seconds}; give a number of seconds from {least} to {most}"));
        }
        Some(Duration::from_secs_f64(seconds))
    }

    /// Returns `true` if an option is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns the arguments that are no options.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Parses arguments; `None` for `--help`.
    fn read(
        usage: Usage,
        arguments: impl Iterator<Item = OsString>,
    ) -> Result<Option<Options>, lexopt::Error> {
        let mut options = Options::default();
        let mut parser = Parser::from_args(arguments.collect::<Vec<_>>());
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Long("help") => return Ok(None),
                Arg::Long(name) => {
                    let known = usage.options.iter().find(|(known, ..)| *known == name);
                    let &(name, kind, _) = known.ok_or_else(|| argument.unexpected())?;
                    let value = if kind.is_empty() { String::new() } else { parser.value()?.string()? };
                    options.values.entry(name).or_default().push(value);
                }
                Arg::Value(argument) if !usage.arguments.is_empty() => {
                    options.arguments.push(argument.string()?);
                }
                argument => return Err(argument.unexpected()),
            }
        }
        Ok(Some(options))
    }
}

fn print(usage: Usage) {
    let line = |name: &str, meaning: &str| format!("  {name:<24} {meaning}\n");
    let options = usage.options.iter();
    let lines = options.map(|(name, value, meaning)| line(format!("--{name} {value}").trim_end(), meaning));
    let lines: String = lines.chain([line("--help", "print this help")]).collect();
    let arguments = if usage.arguments.is_empty() { String::new() } else { format!(" {}", usage.arguments) };
    let name = usage.about.split(':').next().unwrap_or_default();
    crate::print(format_args!("{}\n\nUsage: {name} [OPTIONS]{arguments}\n\n{lines}", usage.about));
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        about: "",
        options: &[("seconds", "N", ""), ("pid", "PID", ""), ("quiet", "", "")],
        arguments: "",
    };

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(USAGE, line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn parses_both_spellings_of_options() {
        let options = read("--seconds 5 --pid=1 --pid 2 --quiet").unwrap().unwrap();
        assert_eq!(options.get("seconds", 0), 5);
        assert_eq!(options.all::<u32>("pid"), [1, 2]);
        assert!(options.has("quiet"));
        assert!(read("--help").unwrap().is_none());
    }

    #[test]
    fn rejects_invalid_command_lines() {
        for (line, error) in [
            ("--second 5", "invalid option '--second'"),
            ("--seconds", "missing argument for option '--seconds'"),
            ("--quiet=yes", "unexpected argument for option '--quiet': \"yes\""),
            ("five", "unexpected argument \"five\""),
            ("-q", "invalid option '-q'"),
        ] {
            assert_eq!(read(line).unwrap_err(), error);
        }
    }
}
