//! What is the same for everything that one machine sends.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::semantic;

/// Attributes that go with every process of a profile, and what is known about the machine.
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
    /// A resource that says nothing.
    pub fn new() -> Resource {
        Resource::default()
    }

    /// Says what this machine is: `host.name`, `host.id`, the build id of its kernel, and when it was booted.
    ///
    /// What can't be found out is left out.
    pub fn of_this_machine() -> Resource {
        Resource::new()
            .with(semantic::HOST_NAME, read_line("/proc/sys/kernel/hostname"))
            .with(semantic::HOST_ID, read_line("/etc/machine-id"))
            .with_kernel_build_id(running_kernel().unwrap_or_default())
            .booted_at(boot_time())
    }

    /// Sets an attribute, in the place of an earlier one with the same key; an empty value removes it.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Resource {
        let (key, value) = (key.into(), value.into());
        self.attributes.retain(|(known, _)| *known != key);
        if !key.is_empty() && !value.is_empty() {
            self.attributes.push((key, value));
        }
        self
    }

    /// Adds what the environment says: `OTEL_RESOURCE_ATTRIBUTES`, and above it `OTEL_SERVICE_NAME`.
    ///
    /// Both hold for every process of the machine. Without a service name consumers name a process after its
    /// executable, which is what one wants of a profiler of the whole system.
    pub fn with_env(self) -> Resource {
        self.with_variables(|name| std::env::var(name).ok())
    }

    /// The same as [`with_env`](Resource::with_env) for variables from elsewhere.
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

    /// Sets the GNU build id of the kernel, which goes with the mapping of kernel frames.
    pub fn with_kernel_build_id(mut self, build_id: impl Into<Vec<u8>>) -> Resource {
        self.kernel_build_id = build_id.into();
        self
    }

    /// Sets when the machine was booted, from which follows when its processes were created.
    pub fn booted_at(mut self, time: Option<SystemTime>) -> Resource {
        self.boot_time = time;
        self
    }

    /// The attributes, in the order in which they were set.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(key, value)| (&**key, &**value))
    }

    pub(crate) fn kernel_build_id(&self) -> &[u8] {
        &self.kernel_build_id
    }

    /// The time that lies `since_boot` nanoseconds behind the boot, as in `2026-01-31T12:00:00.5Z`.
    pub(crate) fn time_of(&self, since_boot: u64) -> Option<String> {
        let time = self.boot_time?.checked_add(Duration::from_nanos(since_boot))?;
        (since_boot > 0).then(|| iso_8601(time.duration_since(UNIX_EPOCH).ok()?)).flatten()
    }
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The kernel's notes hold its build id as those of a file do: sizes of name and description, type, both padded.
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

/// `%20` becomes a space; what isn't valid stays as it is.
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

/// The year in which the day with this number since 1970 lies, and its number in there.
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
    fn the_environment_speaks_last() {
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
    fn an_empty_value_removes() {
        assert_eq!(Resource::new().with("a", "0").with("a", ""), Resource::new());
    }

    #[test]
    fn times_as_people_write_them() {
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
