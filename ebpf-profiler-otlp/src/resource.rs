//! Attributes of the machine.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::semantic;

/// Attributes of all processes of a profile, and facts about the machine.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::Resource;
///
/// let resource = Resource::new().with("deployment.environment.name", "staging");
/// let this_machine = Resource::of_this_machine().with_env();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    attributes: Vec<(String, String)>,
    kernel_build_id: Vec<u8>,
    boot_time: Option<SystemTime>,
}

impl Resource {
    /// Creates a resource without attributes.
    pub fn new() -> Resource {
        Resource::default()
    }

    /// Creates a resource with this machine's `host.name`, `host.id`, kernel build id and boot
    /// time.
    ///
    /// Values that cannot be read are omitted.
    pub fn of_this_machine() -> Resource {
        Resource::new()
            .with(semantic::HOST_NAME, read_line("/proc/sys/kernel/hostname"))
            .with(semantic::HOST_ID, read_line("/etc/machine-id"))
            .with_kernel_build_id(running_kernel().unwrap_or_default())
            .booted_at(boot_time())
    }

    /// Sets an attribute, replacing an earlier one with the same key. An empty value removes it.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Resource {
        let (key, value) = (key.into(), value.into());
        self.attributes.retain(|(known, _)| *known != key);
        if !key.is_empty() && !value.is_empty() {
            self.attributes.push((key, value));
        }
        self
    }

    /// Adds the attributes of `OTEL_RESOURCE_ATTRIBUTES`, and `service.name` from
    /// `OTEL_SERVICE_NAME`, which takes precedence.
    ///
    /// Both apply to all processes of the machine. Set no service name for a whole machine: without
    /// one, consumers name each process after its executable.
    pub fn with_env(self) -> Resource {
        self.with_variables(|name| std::env::var(name).ok())
    }

    /// Adds attributes like [`with_env`](Resource::with_env), with the values that `variable`
    /// returns for names of environment variables.
    pub fn with_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Resource {
        let list = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (key, value) in list.split(',').filter_map(|pair| pair.split_once('=')) {
            self = self.with(key.trim(), percent_decoded(value.trim()));
        }
        match variable("OTEL_SERVICE_NAME") {
            Some(name) if !name.is_empty() => self.with(semantic::SERVICE_NAME, name),
            _ => self,
        }
    }

    /// Sets the kernel's GNU build id, an attribute of the mapping of kernel frames.
    pub fn with_kernel_build_id(mut self, build_id: impl Into<Vec<u8>>) -> Resource {
        self.kernel_build_id = build_id.into();
        self
    }

    /// Sets the boot time, from which the creation times of processes are computed.
    pub fn booted_at(mut self, time: Option<SystemTime>) -> Resource {
        self.boot_time = time;
        self
    }

    /// Returns keys and values in the order in which they were set.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(key, value)| (&**key, &**value))
    }

    pub(crate) fn kernel_build_id(&self) -> &[u8] {
        &self.kernel_build_id
    }

    /// Returns the time `since_boot` nanoseconds after the boot, as in `2026-01-31T12:00:00.500Z`.
    pub(crate) fn time_of(&self, since_boot: u64) -> Option<String> {
        let time = self.boot_time?.checked_add(Duration::from_nanos(since_boot))?;
        (since_boot > 0).then(|| iso_8601(time.duration_since(UNIX_EPOCH).ok()?)).flatten()
    }
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Reads the build id from the kernel's ELF notes: sizes of name and description, type, then both
/// with padding.
fn running_kernel() -> Option<Vec<u8>> {
    const GNU_BUILD_ID: u32 = 3;
    let notes = fs::read("/sys/kernel/notes").ok()?;
    let mut rest = &notes[..];
    loop {
        let (name, description, kind) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
        let start = 12 + (name as usize).next_multiple_of(4);
        if kind == GNU_BUILD_ID && rest.get(12..16)? == b"GNU\0" {
            return rest.get(start..start + description as usize).map(<[u8]>::to_vec);
        }
        rest = rest.get(start + (description as usize).next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|&word| u32::from_ne_bytes(word))
}

fn boot_time() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// Decodes percent-encoding; invalid sequences stay as they are.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%').then(|| tail.split_at_checked(2)).flatten();
        let decoded = escaped.and_then(|(digits, tail)| Some((hex_byte(digits)?, tail)));
        let (byte, tail) = decoded.unwrap_or((*first, tail));
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |&byte: &u8| char::from(byte).to_digit(16);
    Some((digit(digits.first()?)? << 4 | digit(digits.get(1)?)?) as u8)
}

fn iso_8601(since_1970: Duration) -> Option<String> {
    let seconds = since_1970.as_secs();
    let (year, day_of_year) = year_of(seconds / 86_400)?;
    let (month, day) = month_of(year, day_of_year);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
}

/// Returns the year of a day counted from 1970, and the day's number in that year.
fn year_of(mut days: u64) -> Option<(u64, u64)> {
    (1970..10_000).find_map(|year| {
        let length = if is_leap(year) { 366 } else { 365 };
        let day_of_year = days;
        days = days.saturating_sub(length);
        (day_of_year < length).then_some((year, day_of_year))
    })
}

fn month_of(year: u64, mut day: u64) -> (usize, u64) {
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (index, length) in lengths.into_iter().enumerate() {
        if day < length {
            return (index + 1, day + 1);
        }
        day -= length;
    }
    (12, 31)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_overrides_attributes() {
        let variables = |name: &str| match name {
            "OTEL_RESOURCE_ATTRIBUTES" => Some("a=1, b=x%20y%2Cz,service.name=low,bad,c=100%".into()),
            "OTEL_SERVICE_NAME" => Some("high".into()),
            _ => None,
        };
        let resource = Resource::new().with("a", "0").with_variables(variables);
        let attributes: Vec<_> = resource.attributes().collect();
        assert_eq!(attributes, [("a", "1"), ("b", "x y,z"), ("c", "100%"), ("service.name", "high")]);
    }

    #[test]
    fn empty_value_removes_an_attribute() {
        assert_eq!(Resource::new().with("a", "0").with("a", ""), Resource::new());
    }

    #[test]
    fn times_are_iso_8601() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.001Z"),
            (951_782_399, "2000-02-28T23:59:59.001Z"),
            (951_782_400, "2000-02-29T00:00:00.001Z"),
            (951_868_800, "2000-03-01T00:00:00.001Z"),
            (1_767_225_599, "2025-12-31T23:59:59.001Z"),
        ] {
            let boot = UNIX_EPOCH + Duration::from_secs(seconds);
            let resource = Resource::new().booted_at(Some(boot));
            assert_eq!(resource.time_of(1_000_000).as_deref(), Some(text));
        }
        assert_eq!(Resource::new().time_of(1), None);
    }
}
