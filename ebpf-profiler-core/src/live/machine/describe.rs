//! Descriptions of processes from `/proc`.

use std::fs::{self, File};
use std::io::{self, Read as _};

use super::other_thread;
use crate::process::{Cgroup, Description};

/// Returns the description of a process, without what is in its memory. What cannot be read is
/// unknown.
pub(in crate::live) fn describe(pid: u32) -> Description {
    let mut description = Description::default();
    let by_thread = || executable(other_thread::of(pid)?).ok();
    description.executable = executable(pid).ok().or_else(by_thread).unwrap_or_default();
    if let Some((parent, created)) = text(pid, "stat").as_deref().and_then(parse_stat) {
        (description.parent, description.created) = (parent, created);
    }
    if let Some(status) = text(pid, "status") {
        description.user = field(&status, "Uid:").and_then(|mut ids| ids.nth(1)?.parse().ok());
        let innermost = field(&status, "NSpid:").and_then(|ids| ids.last()?.parse().ok());
        description.namespace_pid = innermost.unwrap_or_default();
    }
    if let Some(groups) = text(pid, "cgroup") {
        let Cgroup { path, container, pod } = Cgroup::parse(&groups);
        description.cgroup = ending(&path, MAX_CGROUP).into();
        description.container = ending(&container, MAX_NAME).into();
        description.pod = pod.into();
    }
    description
}

/// Bytes of a file in `/proc` that are read.
const MAX_FILE: u64 = 64 << 10;

/// Bytes of the path of an executable that are kept, from its end.
pub(super) const MAX_PATH: usize = 512;

/// Bytes of the path of a control group that are kept, from its end.
const MAX_CGROUP: usize = 1024;

/// Bytes of the name of a container that are kept, from its end.
const MAX_NAME: usize = 256;

/// Bytes of an environment that are read: with more of them, later variables are missing.
const MAX_ENVIRONMENT: u64 = 256 << 10;

/// Bytes of the value of an environment variable that are kept.
const MAX_VALUE: usize = 1024;

/// Returns the path of the executable of a process, from its end.
pub(super) fn executable(pid: u32) -> io::Result<Box<str>> {
    let path = fs::read_link(format!("/proc/{pid}/exe"))?;
    Ok(ending(&path.to_string_lossy(), MAX_PATH).into())
}

fn text(pid: u32, file: &str) -> Option<String> {
    let bytes = bytes(open(pid, file).ok()?, MAX_FILE).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn open(pid: u32, file: &str) -> io::Result<File> {
    File::open(format!("/proc/{pid}/{file}"))
}

fn bytes(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the parent and the creation time in nanoseconds since boot.
fn parse_stat(stat: &str) -> Option<(u32, u64)> {
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let start: u64 = fields.nth(17)?.parse().ok()?;
    let per_second = procfs::ticks_per_second().max(1);
    Some((parent, start.saturating_mul(1_000_000_000 / per_second)))
}

/// Returns the values of a field of `status`.
fn field<'s>(status: &'s str, name: &str) -> Option<std::str::SplitAsciiWhitespace<'s>> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::split_ascii_whitespace)
}

/// Returns the last bytes of a text, at most `length`.
fn ending(text: &str, length: usize) -> &str {
    let start = text.len().saturating_sub(length);
    (start..).find_map(|start| text.get(start..)).unwrap_or_default()
}

/// Returns the arguments of a process, which end with zero bytes, separated by spaces.
pub(super) fn command_line(pid: u32) -> io::Result<Box<str>> {
    const MAX: u64 = 1024;
    let bytes = bytes(open(pid, "cmdline")?, MAX)?;
    let arguments = bytes.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    let arguments: Vec<_> = arguments.map(String::from_utf8_lossy).collect();
    Ok(arguments.join(" ").into())
}

/// Returns the environment variables with these names from `/proc/PID/environ`, as they were when the
/// program of the process started.
pub(super) fn environment(environ: File, names: &[String]) -> io::Result<Vec<(Box<str>, Box<str>)>> {
    Ok(parse_environment(&bytes(environ, MAX_ENVIRONMENT)?, names))
}

/// Parses `NAME=VALUE` that end with zero bytes. The process can have replaced them by anything.
fn parse_environment(bytes: &[u8], names: &[String]) -> Vec<(Box<str>, Box<str>)> {
    let mut found = Vec::<(Box<str>, Box<str>)>::new();
    for variable in bytes.split(|&byte| byte == 0) {
        let Some(equals) = variable.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (&variable[..equals], &variable[equals + 1..]);
        let Some(name) = names.iter().find(|wanted| wanted.as_bytes() == name) else { continue };
        if found.iter().all(|(known, _)| **known != **name) {
            let value = String::from_utf8_lossy(&value[..value.len().min(MAX_VALUE)]).into();
            found.push((name.as_str().into(), value));
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn own_process_is_described() {
        let pid = std::process::id();
        let description = describe(pid);
        assert_eq!(description.parent, std::os::unix::process::parent_id());
        assert_eq!(description.user, Some(fs::metadata("/proc/self").unwrap().uid()));
        // The innermost namespace is that of the test, if it has one of its own.
        assert_eq!(description.namespace_pid, pid);
        assert!(description.created > 0 && description.cgroup.starts_with('/'));
        assert!(description.executable.ends_with(&*std::env::current_exe().unwrap().to_string_lossy()));
        assert!(description.command_line.is_empty() && description.environment.is_empty());
    }

    #[test]
    fn process_that_is_gone_has_no_description() {
        assert_eq!(describe(u32::MAX), Description::default());
        assert!(command_line(u32::MAX).is_err() && executable(u32::MAX).is_err());
    }

    #[test]
    fn command_line_is_that_of_the_start() {
        let line = command_line(std::process::id()).unwrap();
        let arguments: Vec<String> = std::env::args().collect();
        assert!(arguments.join(" ").starts_with(&*line) && line.starts_with(&arguments[0]));
    }

    #[test]
    fn requested_variables_are_found_in_any_bytes() {
        let names = ["OTEL_SERVICE_NAME", "EMPTY", "BYTES", "NONE"].map(String::from);
        let long = "x".repeat(5_000);
        let bytes = [
            b"SECRET=1\0BYTES=\xff=\0no variable\0=\0EMPTY=\0OTEL_SERVICE_NAME=".as_slice(),
            long.as_bytes(),
            b"\0EMPTY=second\0OTEL_SERVICE_NAMES=2",
        ];
        let found = parse_environment(&bytes.concat(), &names);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        let value = &long[..MAX_VALUE];
        assert_eq!(found, [("BYTES", "\u{fffd}="), ("EMPTY", ""), ("OTEL_SERVICE_NAME", value)]);
        let own = environment(File::open("/proc/self/environ").unwrap(), &["PATH".into()]).unwrap();
        assert_eq!(own.len(), usize::from(std::env::var_os("PATH").is_some()));
    }

    #[test]
    fn fields_after_any_name_are_parsed() {
        let stat = "7 (a) R 1 (b) S 5 1 1 0 -1 4194560 1 0 0 0 95 5 0 0 20 0 1 0 250 1 1";
        let second = 1_000_000_000 / procfs::ticks_per_second() * 250;
        assert_eq!(parse_stat(stat), Some((5, second)));
        assert_eq!((parse_stat(""), parse_stat("7 (a) S 5")), (None, None));
    }
}
