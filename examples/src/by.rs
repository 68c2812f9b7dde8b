//! The option `--by`: parts of a profile.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ebpf_profiler_core::live::Builder;
use ebpf_profiler_core::profile::{Process, Profile, Sample};
use ebpf_profiler_core::sink::WriteError;

use crate::Options;
use crate::print::fail_with;

/// The key that divides a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The container, or the host.
    Container,
    /// The service that the environment or a hook names, or the program.
    Service,
    /// The name of the thread.
    Thread,
    /// Id and program of the process.
    Process,
    /// Id of the user.
    User,
    /// The value of a label.
    Label(String),
}

/// Forms of the option's value.
const FORMS: &str = "container, service, thread, process, user or label:KEY";

impl FromStr for By {
    type Err = ();

    fn from_str(text: &str) -> Result<By, ()> {
        Ok(match text {
            "container" => By::Container,
            "service" => By::Service,
            "thread" => By::Thread,
            "process" => By::Process,
            "user" => By::User,
            _ => By::Label(text.strip_prefix("label:").filter(|key| !key.is_empty()).ok_or(())?.to_owned()),
        })
    }
}

/// The environment variable that names the service of a process.
const SERVICE: &str = "OTEL_SERVICE_NAME";

impl By {
    /// Meaning of the option.
    pub const MEANING: &'static str =
        "what divides the profile: container, service, thread, process, user or label:KEY (nothing)";

    /// Returns the value of `--by`; `None` if it is not given. After an invalid one it ends the
    /// program.
    pub fn of(options: &Options) -> Option<By> {
        let text: String = options.one("by")?;
        Some(text.parse().unwrap_or_else(|()| fail_with(2, format!("--by cannot be {text:?}; give {FORMS}"))))
    }

    /// Lets a profiler collect what the key needs.
    pub fn prepare(by: Option<&By>, builder: Builder) -> Builder {
        match by {
            Some(By::Service) => builder.environment([SERVICE]).process_contexts(),
            Some(By::Label(_)) => builder.process_labels(ebpf_profiler_hll::labels()),
            _ => builder,
        }
    }

    /// Returns the part of a sample: `-` if it has none.
    pub fn key(&self, sample: Sample<'_>) -> String {
        let (process, thread) = (sample.process(), sample.thread());
        let name = match self {
            By::Container if process.container.is_empty() => "host".to_owned(),
            By::Container => process.container.to_string(),
            By::Service => service(process).to_owned(),
            By::Thread => thread.name.to_string(),
            By::Process => format!("{} {}", process.pid, file_name(process)),
            By::User => process.user.map_or(String::new(), |user| user.to_string()),
            By::Label(key) => sample.labels().get(key).map_or(String::new(), ToString::to_string),
        };
        if name.is_empty() { "-".to_owned() } else { name }
    }

    /// Returns a table of the largest parts, with the function in which each was most often.
    pub fn table(&self, profile: &Profile, rows: usize) -> String {
        let groups = profile.group_by_at_most(rows, |sample| self.key(sample));
        let all = profile.total().max(1) as f64;
        let mut table = String::new();
        let mut row = |name: &str, part: &Profile| {
            let share = 100.0 * part.total() as f64 / all;
            let name: String = printable(name).take(40).collect();
            let _ = writeln!(table, "{:>9} {share:5.1} %  {name:<40}  {}", part.count(), hottest(part));
        };
        groups.iter().for_each(|(name, part)| row(name, part));
        if let Some(other) = groups.other() {
            row(&format!("[{} others]", groups.other_keys()), other);
        }
        table
    }

    /// Writes a file for each of the largest parts, at most `most`, and one for all others. Returns
    /// their paths.
    ///
    /// # Errors
    ///
    /// Fails if a file can't be written.
    pub fn write(&self, profile: &Profile, most: usize, output: &Path) -> Result<Vec<PathBuf>, WriteError> {
        let groups = profile.group_by_at_most(most, |sample| self.key(sample));
        let mut paths = Vec::new();
        let named = groups.iter().map(|(name, part)| (name.as_str(), part));
        for (name, part) in named.chain(groups.other().map(|part| ("[other]", part))) {
            let path = path_of(output, name, &paths);
            part.write(&path)?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// Returns the service that the environment or a hook names, or the program.
fn service(process: &Process) -> &str {
    let is_named = |(key, _): &&(Box<str>, Box<str>)| &**key == "service.name" || &**key == SERVICE;
    let named = process.attributes.iter().chain(&process.environment).find(is_named);
    named.map_or(file_name(process), |(_, name)| name)
}

fn file_name(process: &Process) -> &str {
    process.executable.rsplit('/').next().unwrap_or_default()
}

/// Names are those of foreign programs.
fn printable(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().map(|character| if character.is_control() { '?' } else { character })
}

/// Returns the function in which most samples are.
fn hottest(profile: &Profile) -> String {
    let groups = profile.group_by_at_most(1, |sample| sample.trace().leaf().to_string());
    groups.into_iter().next().map_or(String::new(), |(name, _)| printable(&name).take(60).collect())
}

/// Returns a path with the name of a part before the ending of `output`, which is none of `others`.
fn path_of(output: &Path, name: &str, others: &[PathBuf]) -> PathBuf {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_@".contains(character);
    let name: String =
        name.chars().map(|character| if is_plain(character) { character } else { '_' }).take(64).collect();
    let file = output.file_name().unwrap_or_default().to_string_lossy();
    // Some endings have two parts.
    let (stem, ending) = file.split_once('.').unwrap_or((&file, "html"));
    let path = |number: String| output.with_file_name(format!("{stem}.{name}{number}.{ending}"));
    let numbered = (2..).map(|number| path(format!("-{number}")));
    [path(String::new())].into_iter().chain(numbered).find(|path| !others.contains(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::testing;

    use super::*;

    #[test]
    fn parts_are_bounded_and_the_rest_is_counted() {
        let text: String = (0..50).map(|index| format!("p{index};main;f{index} {}\n", index + 1)).collect();
        let profile = testing::profile(&text);
        let table = By::Service.table(&profile, 2);
        let lines: Vec<&str> = table.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("50") && lines[0].ends_with("f49"), "{table}");
        assert!(lines[2].contains("[48 others]"), "{table}");
    }

    #[test]
    fn keys_are_of_process_thread_and_user() {
        let profile = testing::profile("cat`worker;main 1").map_processes(|process| {
            let mut process = process.clone();
            process.user = Some(33);
            process.environment = vec![(SERVICE.into(), "shop".into())];
            process
        });
        let sample = profile.samples().next().unwrap();
        let keys = ["container", "service", "thread", "user", "label:tenant"];
        let keys = keys.map(|by| by.parse::<By>().unwrap().key(sample));
        assert_eq!(keys, ["host", "shop", "worker", "33", "-"]);
        assert!(By::Process.key(sample).ends_with(" cat"));
        assert!(["", "label:", "pod"].iter().all(|text| text.parse::<By>().is_err()));
    }

    #[test]
    fn names_of_parts_are_plain_names_of_files() {
        let output = Path::new("/tmp/x.speedscope.json");
        let first = path_of(output, "../a b", &[]);
        assert_eq!(first, Path::new("/tmp/x.___a_b.speedscope.json"));
        let second = path_of(output, "../a/b", &[first]);
        assert_eq!(second, Path::new("/tmp/x.___a_b-2.speedscope.json"));
    }
}
