//! Probes at functions of the kernel.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use super::call::Call;
use super::error::AttachError;
use super::place::{self, MAX_PLACES, Names, Place};
use crate::profile::SampleKind;

/// The trigger of calls or returns of a function of the kernel.
///
/// Functions that the kernel protects from probes cannot be sampled, nor those that the compiler
/// inlined. `/proc/kallsyms` lists the functions.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Kprobe};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .on(Kprobe::entry("vfs_fsync_range").time())
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// let profile = profiler.run_for(Duration::from_secs(10))?;
/// println!("{:?} until data was on the disk", Duration::from_nanos(profile.total()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "kretprobe")]
#[derive(Clone, Debug, PartialEq)]
pub struct Kprobe {
    pub(super) function: String,
    pub(super) call: Call,
}

impl Kprobe {
    /// Returns the trigger of calls of `function`: its name, or a pattern with `*`, `?` and
    /// `[a-z]`, such as `vfs_*`. A pattern samples at most 256 functions; those that cannot be
    /// probed do not match.
    pub fn entry(function: impl Into<String>) -> Kprobe {
        Kprobe { function: function.into(), call: Call::ENTRY }
    }

    /// Returns the trigger of returns of `function`; as [`entry`](Kprobe::entry).
    pub fn exit(function: impl Into<String>) -> Kprobe {
        Kprobe { call: Call::EXIT, ..Kprobe::entry(function) }
    }

    /// Takes argument `index`, from 0 to 5, as the value of a call: an integer or pointer. Other
    /// indices leave the value at 1.
    #[must_use = "returns the changed trigger"]
    pub fn argument(self, index: u32) -> Kprobe {
        Kprobe { call: self.call.argument(index), ..self }
    }

    /// Takes the result of the function, a signed integer, as the value of a return. Negative ones
    /// count as 0.
    #[must_use = "returns the changed trigger"]
    pub fn result(self) -> Kprobe {
        Kprobe { call: self.call.result(), ..self }
    }

    /// Takes the time from a call to its return as the value, in nanoseconds. The sample is taken
    /// at the return. Calls that began before the profiler are not counted.
    #[must_use = "returns the changed trigger"]
    pub fn time(self) -> Kprobe {
        Kprobe { call: self.call.time(), ..self }
    }

    pub(super) fn kind(&self) -> SampleKind {
        SampleKind::new(super::Trigger::from(self.clone()).to_string(), self.call.unit())
    }

    /// Returns the places of its functions, and `true` if those that the kernel rejects are to be
    /// skipped.
    pub(super) fn places(&self) -> Result<(Vec<Place>, bool), AttachError> {
        let names = Names::new(&self.function)?;
        let file = File::open(SYMBOLS).map_err(|error| AttachError::unreadable(SYMBOLS, error))?;
        let found = functions(BufReader::new(file), &names);
        let place = |function: &String| Ok(self.call.place(Place::new(function.as_bytes(), 0)?));
        match (&names, found.as_slice()) {
            (Names::One(name), []) => {
                Err(AttachError::not_found(format!("the kernel has no function {name}")))
            }
            (Names::One(_), [(function, 1)]) => Ok((vec![place(function)?], false)),
            (Names::One(name), _) => {
                Err(AttachError::invalid(format!("the kernel has several functions {name}")))
            }
            (Names::All(_), _) => {
                let unique =
                    found.iter().filter(|(_, count)| *count == 1).map(|(function, _)| place(function));
                let places = place::bounded(
                    unique.collect::<Result<Vec<_>, AttachError>>()?,
                    MAX_PLACES,
                    "functions",
                )?;
                if places.is_empty() {
                    return Err(AttachError::not_found(format!(
                        "no function of the kernel matches {}",
                        self.function
                    )));
                }
                Ok((places, true))
            }
        }
    }
}

/// The kernel's list of its symbols.
pub(super) const SYMBOLS: &str = "/proc/kallsyms";

/// Returns the functions in a list of the kernel's symbols, by their names, each with its number of
/// occurrences.
pub(super) fn functions(symbols: impl BufRead, names: &Names<'_>) -> Vec<(String, u32)> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for line in symbols.lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace();
        let (Some(_), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        let is_function = matches!(kind, "t" | "T" | "w" | "W") && !name.ends_with(".cold");
        if is_function && names.matches(name.as_bytes()) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let mut found: Vec<(String, u32)> = counts.into_iter().collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000000000 T vfs_read\n0000000000000000 t vfs_read.cold\n\
        0000000000000000 D vfs_data\n0000000000000000 t dup\n0000000000000000 t dup\t[module]\n\
        0000000000000000 W vfs_weak\n\nbroken\n";

    #[test]
    fn functions_are_those_of_the_text() {
        let of = |text: &str| functions(TEXT.as_bytes(), &Names::new(text).unwrap());
        assert_eq!(of("vfs_read"), [("vfs_read".to_owned(), 1)]);
        assert_eq!(of("dup"), [("dup".to_owned(), 2)]);
        assert_eq!(of("vfs_*"), [("vfs_read".to_owned(), 1), ("vfs_weak".to_owned(), 1)]);
        assert_eq!(of("vfs_data"), []);
        assert_eq!(of("broken"), []);
    }
}
