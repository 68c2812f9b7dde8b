//! `cargo xtask fixtures`: kernels, the collector, Go and Java, which tests need and the repository doesn't hold.

mod beam;
mod dotnet;
mod folder;
pub(crate) mod go;
mod luajit;
mod perl;
pub(crate) mod php;
pub(crate) mod ruby;

pub(crate) mod v8;

mod hotspot;

use std::fs;
use std::path::PathBuf;

use crate::pythons::Suite;
use crate::run::{Outcome, fixtures};
use crate::{collector, debian};

/// A language whose runtimes are fetched by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language {
    /// The name of its tests, and of the argument.
    pub(crate) name: &'static str,
    /// Its name in the list of steps.
    pub(crate) title: &'static str,
    /// Fetches what is missing; `true` restricts it to what CI tests.
    pub(crate) fetch: fn(bool) -> Outcome,
}

/// The languages with fixtures: their runtimes, and programs of others.
pub(crate) const LANGUAGES: &[Language] = &[
    Language { name: "go", title: "Go", fetch: |_| go::fetch() },
    Language { name: "hotspot", title: "Java", fetch: hotspot::fetch },
    Language { name: "php", title: "PHP", fetch: php::fetch },
    Language { name: "ruby", title: "Ruby", fetch: ruby::fetch },
    Language { name: "perl", title: "Perl", fetch: perl::fetch },
    Language { name: "luajit", title: "LuaJIT", fetch: luajit::fetch },
    Language { name: "v8", title: "Node.js", fetch: v8::fetch },
    Language { name: "beam", title: "Erlang and Elixir", fetch: beam::fetch },
    Language { name: "dotnet", title: ".NET", fetch: dotnet::fetch },
];

/// The architecture of a kernel, and of the programs that run on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Architecture {
    #[default]
    Amd64,
    Arm64,
}

/// A Debian kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// The kernel series, with the architecture unless that is amd64, and the size of pages unless that is 4 KiB.
    pub(crate) version: &'static str,
    pub(crate) architecture: Architecture,
    /// The package that was tested last.
    package: &'static str,
    origin: Origin,
}

/// The suite that has a kernel.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// The machine's own, with a pattern of the names of later builds: Debian removes old ones.
    Machine { successors: &'static str },
    /// One that doesn't change any more.
    Other(Suite),
    /// One for arm64, with a pattern of the names of later builds.
    Arm64 { suite: Suite, successors: &'static str },
}

/// The kernels that programs are run on: the oldest supported one, the oldest with the features of all triggers, and a current one.
pub(crate) const KERNELS: &[Kernel] = &[
    Kernel {
        version: "5.10",
        architecture: Architecture::Amd64,
        package: "linux-image-5.10.0-32-cloud-amd64",
        origin: Origin::Other(Suite("bullseye")),
    },
    Kernel {
        version: "6.1",
        architecture: Architecture::Amd64,
        package: "linux-image-6.1.0-47-cloud-amd64",
        origin: Origin::Machine { successors: r"^linux-image-6\.1\.[0-9.-]+-cloud-amd64$" },
    },
    Kernel {
        version: "6.12",
        architecture: Architecture::Amd64,
        package: "linux-image-6.12.111+deb12-cloud-amd64",
        origin: Origin::Machine { successors: r"^linux-image-6\.12\.[0-9.]+\+deb[0-9]+-cloud-amd64$" },
    },
    Kernel {
        version: "arm64-6.1",
        architecture: Architecture::Arm64,
        package: "linux-image-6.1.0-50-cloud-arm64",
        origin: Origin::Arm64 {
            suite: Suite("bookworm"),
            successors: r"^linux-image-6\.1\.[0-9.-]+-cloud-arm64$",
        },
    },
    Kernel {
        version: "arm64-6.12",
        architecture: Architecture::Arm64,
        package: "linux-image-6.12.117+deb13-cloud-arm64",
        origin: Origin::Arm64 {
            suite: Suite("trixie"),
            successors: r"^linux-image-6\.12\.[0-9.]+\+deb[0-9]+-cloud-arm64$",
        },
    },
    Kernel {
        version: "arm64-6.12-16k",
        architecture: Architecture::Arm64,
        package: "linux-image-6.12.117+deb13-arm64-16k",
        origin: Origin::Arm64 {
            suite: Suite("trixie"),
            successors: r"^linux-image-6\.12\.[0-9.]+\+deb[0-9]+-arm64-16k$",
        },
    },
];

/// Fetches missing fixtures: kernels, the collector, Go and Java, or those of the [language](LANGUAGES) in the arguments; `ends` behind
/// it restricts them to what CI tests.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    if let Some(name) = arguments.first() {
        let Some(language) = LANGUAGES.iter().find(|language| language.name == name) else {
            let names: Vec<&str> = LANGUAGES.iter().map(|language| language.name).collect();
            return Err(format!("{name} is none of {}", names.join(", ")));
        };
        return (language.fetch)(arguments.get(1).is_some_and(|extent| extent == "ends"));
    }
    let all = KERNELS.len() + 3;
    for (number, kernel) in KERNELS.iter().enumerate() {
        eprintln!("[{}/{all}] Linux {}", number + 1, kernel.version);
        eprintln!("      {}", kernel.image()?.display());
    }
    eprintln!("[{}/{all}] OpenTelemetry collector", all - 2);
    eprintln!("      {}", collector::build()?.display());
    eprintln!("[{}/{all}] Go", all - 1);
    go::fetch()?;
    eprintln!("[{all}/{all}] Java");
    hotspot::fetch(false)
}

impl Kernel {
    /// Returns the path of the kernel's image, which it fetches if it is missing.
    pub(crate) fn image(&self) -> Result<PathBuf, String> {
        let directory = fixtures().join(format!("linux-{}", self.version));
        if let Some(image) = image_in(&directory) {
            return Ok(image);
        }
        // Left behind by an interrupted attempt.
        let _ = fs::remove_dir_all(&directory);
        match self.origin {
            Origin::Machine { successors } => debian::unpack(&self.available(successors)?, &directory)?,
            Origin::Arm64 { suite, successors } => {
                let name = self.latest(suite.foreign_names("arm64", successors)?, successors)?;
                suite.unpack_foreign("arm64", &name, &directory)?
            }
            Origin::Other(suite) => suite.unpack(&[(self.package, "")], &directory)?,
        }
        // Modules are most of the package, and no test loads them.
        let _ = fs::remove_dir_all(directory.join("lib"));
        image_in(&directory).ok_or_else(|| format!("there is no kernel in {}", directory.display()))
    }

    /// Returns the name of the package that was tested, or of its latest successor.
    fn available(&self, successors: &str) -> Result<String, String> {
        let mut names = debian::names(successors)?;
        if names.is_empty() {
            debian::update()?;
            names = debian::names(successors)?;
        }
        self.latest(names, successors)
    }

    /// Returns the name of the package that was tested, or of its latest successor among these.
    fn latest(&self, mut names: Vec<String>, successors: &str) -> Result<String, String> {
        if names.iter().any(|name| name == self.package) {
            return Ok(self.package.to_owned());
        }
        names.sort_by_key(|name| numbers(name));
        let name = names.pop().ok_or_else(|| format!("no package matches {successors}"))?;
        eprintln!("      {} is no longer available, using {name}", self.package);
        Ok(name)
    }
}

fn image_in(directory: &std::path::Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory.join("boot")).ok()?;
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")))
}

/// Returns the numbers in a name: their order puts 6.1.0-9 before 6.1.0-47.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn sorts_builds_by_number() {
    let mut names = ["linux-image-6.1.0-47-cloud", "linux-image-6.1.0-9-cloud", "linux-image-6.1.1-1-cloud"];
    names.sort_by_key(|name| numbers(name));
    assert_eq!(
        names,
        ["linux-image-6.1.0-9-cloud", "linux-image-6.1.0-47-cloud", "linux-image-6.1.1-1-cloud"]
    );
}
