//! Levels of privacy: the facts about processes and threads that leave the machine.

use std::str::FromStr;
use std::time::Instant;

use ebpf_profiler_core::profile::{Process, Profile, Thread};
use ebpf_profiler_core::sink::{Sink, SinkError};

/// The facts about processes and threads in a profile that is sent. Functions and files are in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    /// Containers and pods; of other processes the file name of the program. No ids, paths and
    /// threads.
    #[default]
    Containers,
    /// Processes and threads, with ids and paths of programs.
    Processes,
    /// Command lines, too, and environment variables that were asked for.
    All,
}

impl FromStr for Privacy {
    type Err = ();

    fn from_str(text: &str) -> Result<Privacy, ()> {
        match text {
            "containers" => Ok(Privacy::Containers),
            "processes" => Ok(Privacy::Processes),
            "all" => Ok(Privacy::All),
            _ => Err(()),
        }
    }
}

/// A sink that gets of each profile what a level of privacy permits.
#[derive(Debug)]
pub struct Redacted<S> {
    sink: S,
    privacy: Privacy,
    /// Maximum number of resources in a profile.
    limit: usize,
}

/// Attribute of the resource of all others: their number.
const OTHERS: &str = "ebpf_profiler.resources.other";

impl<S> Redacted<S> {
    /// Returns a sink with at most `limit` resources in a profile; smaller ones are one.
    pub fn new(sink: S, privacy: Privacy, limit: usize) -> Redacted<S> {
        Redacted { sink, privacy, limit }
    }
}

impl<S: Sink> Sink for Redacted<S> {
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        self.sink.take(&limited(&redacted(profile, self.privacy), self.limit))
    }

    fn flush_until(&mut self, deadline: Instant) -> Result<(), SinkError> {
        self.sink.flush_until(deadline)
    }
}

fn redacted(profile: &Profile, privacy: Privacy) -> Profile {
    match privacy {
        Privacy::Containers => profile.map_processes(container).map_threads(labels_alone),
        Privacy::Processes => profile.clone(),
        Privacy::All => profile.map_processes(with_command_line),
    }
}

/// Returns a thread without id and name.
fn labels_alone(thread: &Thread) -> Thread {
    let mut unnamed = Thread::new(thread.process, 0, "");
    unnamed.labels.clone_from(&thread.labels);
    unnamed
}

/// Returns the container of a process, or its program.
fn container(process: &Process) -> Process {
    let mut container = Process::new(0);
    container.container.clone_from(&process.container);
    container.pod.clone_from(&process.pod);
    container.attributes.clone_from(&process.attributes);
    if process.container.is_empty() {
        container.executable = process.executable.rsplit('/').next().unwrap_or_default().into();
    }
    container
}

fn with_command_line(process: &Process) -> Process {
    let mut process = process.clone();
    let line = (!process.command_line.is_empty())
        .then(|| ("process.command_line".into(), process.command_line.clone()));
    let variable = |(name, value): &(Box<str>, Box<str>)| {
        (format!("process.environment_variable.{name}").into(), value.clone())
    };
    let added: Vec<_> = line.into_iter().chain(process.environment.iter().map(variable)).collect();
    process.attributes.extend(added);
    process
}

/// Returns a profile in which all but the `limit` resources with the most samples are one.
fn limited(profile: &Profile, limit: usize) -> Profile {
    if profile.processes().len() <= limit {
        return profile.clone();
    }
    let groups = profile.group_by_at_most(limit.saturating_sub(1), |sample| sample.process());
    let mut others = Process::new(0);
    others.attributes = vec![(OTHERS.into(), groups.other_keys().to_string().into())];
    let kept: std::collections::HashSet<&Process> = groups.iter().map(|(process, _)| *process).collect();
    profile.map_processes(|process| if kept.contains(process) { process.clone() } else { others.clone() })
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::testing;

    use super::*;

    fn profile() -> Profile {
        testing::profile("web`secret;main 3\nweb`two;main 2\ndb;main 4").map_processes(|process| {
            let mut process = process.clone();
            let is_web = process.executable.ends_with("web");
            process.container = if is_web { "c0ffee".into() } else { "".into() };
            process.command_line = "web --password=1234".into();
            process.environment = vec![("TOKEN".into(), "5678".into())];
            process.cgroup = "/home/alice".into();
            process.user = Some(1000);
            process
        })
    }

    #[test]
    fn least_is_containers_and_names_of_programs() {
        let least = redacted(&profile(), Privacy::default());
        let text = format!("{:?}{:?}", least.processes(), least.threads());
        for hidden in ["secret", "/usr/bin", "1234", "5678", "alice", "1000"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        let mut named: Vec<_> =
            least.processes().iter().map(|it| (&*it.container, &*it.executable, it.pid)).collect();
        named.sort_unstable();
        assert_eq!(named, [("", "db", 0), ("c0ffee", "", 0)]);
        assert_eq!((least.threads().len(), least.count()), (2, 9));
    }

    #[test]
    fn most_has_command_lines_and_variables() {
        let all = redacted(&profile(), Privacy::All);
        let attributes: Vec<&str> = all.processes()[0].attributes.iter().map(|(key, _)| &**key).collect();
        assert_eq!(attributes, ["process.command_line", "process.environment_variable.TOKEN"]);
        assert!(redacted(&profile(), Privacy::Processes).processes()[0].attributes.is_empty());
    }

    #[test]
    fn resources_beyond_the_limit_are_one_and_counted() {
        let text: String = (0..50).map(|index| format!("p{index};main {}\n", index + 1)).collect();
        let profile = testing::profile(&text);
        let limited = limited(&profile, 10);
        assert_eq!((limited.processes().len(), limited.count()), (10, profile.count()));
        let others: Vec<_> = limited.processes().iter().flat_map(|process| &process.attributes).collect();
        assert_eq!(others, [&(OTHERS.into(), "41".into())]);
        assert_eq!(super::limited(&profile, 50).processes().len(), 50);
    }
}
