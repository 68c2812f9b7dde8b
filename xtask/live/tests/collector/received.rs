//! Profiles as a collector prints them.
//!
//! ```text
//!     Profile #0
//!         Profile ID     :
//!         Start time     : 2026-11-21 16:24:37.314562219 +0000 UTC
//!         DurationNano   : 1023708085
//! ```

use std::collections::BTreeMap;

/// Output of the debug exporter.
pub(crate) struct Received(String);

impl Received {
    pub(crate) fn new(text: String) -> Received {
        Received(text)
    }

    /// Checks that the dictionary contains these names, each on its line.
    pub(crate) fn assert_has(&self, functions: &[&str]) {
        for function in functions {
            let found = self.0.lines().any(|line| line.trim() == *function);
            assert!(found, "{function} is not in {} lines", self.0.lines().count());
        }
    }

    /// Returns the number of profiles; one that was sent twice because an answer was lost counts
    /// once.
    pub(crate) fn profiles(&self) -> u64 {
        self.windows().len() as u64
    }

    /// Returns the number of profiles that begin later than the one before ends.
    pub(crate) fn gaps(&self) -> u64 {
        let windows: Vec<_> = self.windows().into_iter().collect();
        windows.windows(2).filter(|pair| pair[0].1 < pair[1].0).count() as u64
    }

    pub(crate) fn summary(&self) -> String {
        format!("{} profiles received, {} gaps between them", self.profiles(), self.gaps())
    }

    /// Returns start and end of each profile, in nanoseconds of the day.
    ///
    /// A message that a killed collector wrote in part is sent again: it ends anywhere, also
    /// between the two lines.
    fn windows(&self) -> BTreeMap<u64, u64> {
        let lines: Vec<&str> = self.0.lines().map(str::trim).collect();
        let windows = lines.windows(2).filter_map(|pair| {
            let start = nanoseconds(pair[0].strip_prefix("Start time     : ")?.strip_suffix(" UTC")?);
            let duration: u64 = pair[1].strip_prefix("DurationNano   : ")?.parse().ok()?;
            Some((start, start + duration))
        });
        // Of equal starts, the last one counts: it is whole.
        windows.collect()
    }
}

/// Parses `2026-11-21 16:24:37.3145 +0000 UTC`, whose fraction has no trailing zeros. Ignores the
/// date.
fn nanoseconds(time: &str) -> u64 {
    let clock = time.split(' ').nth(1).unwrap();
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let seconds = clock.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<u64>().unwrap()
}

#[test]
fn times_are_read() {
    assert_eq!(nanoseconds("2026-11-21 00:00:37.25 +0000 UTC"), 37_250_000_000);
    assert_eq!(nanoseconds("2026-11-21 01:01:01 +0000 UTC"), 3_661_000_000_000);
}

#[test]
fn finds_gaps_and_ignores_duplicates() {
    let profile = |second: u32, nanos: u32| {
        format!("Start time     : 2026-11-21 00:00:{second:02} +0000 UTC\nDurationNano   : {nanos}\n")
    };
    let all = [profile(1, 1_000_000_000), profile(2, 999_999_999), profile(1, 1_000_000_000), profile(3, 1)];
    let received = Received::new(all.concat());
    assert_eq!((received.profiles(), received.gaps()), (3, 1));
}

#[test]
fn ignores_what_a_killed_collector_wrote_in_part() {
    let first = "Start time     : 2026-11-21 00:00:01 +0000 UTC\nDurationNano   : 1000000000\n";
    let second = "Start time     : 2026-11-21 00:00:02 +0000 UTC\nDurationNano   : 1000000000\n";
    for end in 0..second.len() {
        let received = Received::new(format!("{first}{}\n{second}", &second[..end]));
        assert_eq!((received.profiles(), received.gaps()), (2, 0), "{end} bytes");
    }
}
