//! Packages of other Debian suites than the machine's own.
//!
//! apt keeps their lists in a folder under `target`, beside and not among those of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder;
use crate::run::{Outcome, command, output};

/// A Debian suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite(pub(crate) &'static str);

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

impl Suite {
    /// Fetches packages, each in this version, or in the suite's current one if that is gone or
    /// none is named, and unpacks them.
    pub(crate) fn unpack(self, packages: &[(&str, &str)], into: &Path) -> Outcome {
        let fetched = PathBuf::from(format!("{}.fetched", into.display()));
        // Left behind by an interrupted attempt.
        let _ = fs::remove_dir_all(&fetched);
        create(&fetched)?;
        let fetch =
            |names: &[String]| output(self.apt("apt-get")?.arg("download").args(names).current_dir(&fetched));
        let name = |(package, version): &(&str, &str)| match *version {
            "" => format!("{package}/{}", self.0),
            version => format!("{package}={version}"),
        };
        // apt reads its lists at each start: seconds.
        if fetch(&packages.iter().map(name).collect::<Vec<_>>()).is_err() {
            for package in packages {
                if fetch(&[name(package)]).is_err() {
                    eprintln!(
                        "      {} is no longer available, using the version in {}",
                        name(package),
                        self.0
                    );
                    fetch(&[name(&(package.0, ""))])?;
                }
            }
        }
        for file in files_in(&fetched, "deb") {
            output(command(&["dpkg-deb", "--extract"]).arg(&file).arg(into))?;
        }
        fs::remove_dir_all(&fetched).map_err(|error| error.to_string())
    }

    /// Fetches a package of another architecture, and unpacks it.
    pub(crate) fn unpack_foreign(self, architecture: &str, package: &str, into: &Path) -> Outcome {
        let fetched = PathBuf::from(format!("{}.fetched", into.display()));
        // Left behind by an interrupted attempt.
        let _ = fs::remove_dir_all(&fetched);
        create(&fetched)?;
        let name = format!("{package}/{}", self.0);
        output(self.apt_of(Some(architecture), "apt-get")?.args(["download", &name]).current_dir(&fetched))?;
        for file in files_in(&fetched, "deb") {
            output(command(&["dpkg-deb", "--extract"]).arg(&file).arg(into))?;
        }
        fs::remove_dir_all(&fetched).map_err(|error| error.to_string())
    }

    /// Returns the names of packages of another architecture that match a pattern.
    pub(crate) fn foreign_names(self, architecture: &str, pattern: &str) -> Result<Vec<String>, String> {
        let mut search = self.apt_of(Some(architecture), "apt-cache")?;
        let lines = output(search.args(["search", "--names-only", pattern]))?;
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        Ok(lines.lines().map(name).collect())
    }

    /// Fetches the upstream source of a package.
    pub(crate) fn source(self, package: &str, version: &str, into: &Path) -> Result<PathBuf, String> {
        create(into)?;
        let pinned = format!("{package}={version}");
        let options = ["source", "--download-only", "--tar-only", &pinned];
        output(self.apt("apt-get")?.args(options).current_dir(into))?;
        // Beside parts of the source.
        let files = files_in(into, "xz");
        let is_whole = |file: &&PathBuf| file.to_string_lossy().ends_with(".orig.tar.xz");
        files
            .iter()
            .find(is_whole)
            .or(files.first())
            .cloned()
            .ok_or_else(|| format!("apt-get fetched no file for {pinned}"))
    }

    /// Returns a command of apt with the lists of this suite alone, which it fetches if they are
    /// missing.
    fn apt(self, program: &str) -> Result<Command, String> {
        self.apt_of(None, program)
    }

    /// The same with the lists of an architecture; `None` is the machine's own.
    fn apt_of(self, architecture: Option<&str>, program: &str) -> Result<Command, String> {
        let suffix = architecture.map(|name| format!("-{name}")).unwrap_or_default();
        let state = folder().join("apt").join(format!("{}{suffix}", self.0));
        let sources = state.join("sources.list");
        let fresh = !sources.is_file();
        if fresh {
            create(&state.join("lists/partial"))?;
            create(&state.join("cache/archives/partial"))?;
            let line = |kind| format!("{kind} [signed-by={KEYS}] {MIRROR} {} main\n", self.0);
            let lines = line("deb") + &line("deb-src");
            fs::write(&sources, lines).map_err(|error| format!("{}: {error}", sources.display()))?;
        }
        let set = |name: &str, value: &Path| format!("{name}={}", value.display());
        let mut options = vec![
            set("Dir::Etc::sourcelist", &sources),
            "Dir::Etc::sourceparts=-".to_owned(),
            set("Dir::State::lists", &state.join("lists")),
            set("Dir::Cache", &state.join("cache")),
            "APT::Sandbox::User=root".to_owned(),
        ];
        if let Some(name) = architecture {
            options.extend([format!("APT::Architecture={name}"), format!("APT::Architectures={name}")]);
        }
        let with_options = |program: &str| {
            let mut apt = command(&[program]);
            apt.args(options.iter().flat_map(|option| ["-o", option]));
            apt
        };
        if fresh {
            let mut update = with_options("apt-get");
            output(update.args(["update", "--quiet"])).inspect_err(|_| _ = fs::remove_file(&sources))?;
        }
        Ok(with_options(program))
    }
}

fn create(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let ends = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    entries.map(|entry| entry.path()).filter(ends).collect()
}
