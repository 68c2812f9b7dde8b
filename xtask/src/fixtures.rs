//! `cargo xtask fixtures`: kernels, the collector, Go and Java, which tests need and the repository doesn't hold.

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

use crate::run::{Outcome, fixtures};
use crate::{collector, debian};

/// The languages whose runtimes are fetched by name, and their names in the list of steps.
pub(crate) const LANGUAGES: &[(&str, &str)] = &[
    ("go", "Go"),
    ("hotspot", "Java"),
    ("php", "PHP"),
    ("ruby", "Ruby"),
    ("perl", "Perl"),
    ("luajit", "LuaJIT"),
    ("v8", "Node.js"),
];

/// A Debian kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// The kernel series.
    pub(crate) version: &'static str,
    /// The package that was tested last.
    package: &'static str,
    /// Pattern of the names of later builds: Debian removes old ones.
    successors: &'static str,
}

/// The kernels that programs are run on: the oldest supported one that Debian ships, and a current one.
pub(crate) const KERNELS: &[Kernel] = &[
    Kernel {
        version: "6.1",
        package: "linux-image-6.1.0-47-cloud-amd64",
        successors: r"^linux-image-6\.1\.[0-9.-]+-cloud-amd64$",
    },
    Kernel {
        version: "6.12",
        package: "linux-image-6.12.111+deb12-cloud-amd64",
        successors: r"^linux-image-6\.12\.[0-9.]+\+deb[0-9]+-cloud-amd64$",
    },
];

/// Fetches missing fixtures: kernels, the collector, Go and Java, or what the arguments name:
///
/// ```text
/// go
/// hotspot                            with programs
/// php, perl, luajit, ruby            with programs of others
/// v8                                 with programs of others
/// hotspot ends, php ends, ruby ends, v8 ends
///                                    the versions that CI tests
/// perl ends, luajit ends             programs of others, for those of the machine
/// ```
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let is_ends = arguments.get(1).is_some_and(|extent| extent == "ends");
    match arguments.first().map(String::as_str) {
        Some("go") => return go::fetch(),
        Some("hotspot") => return hotspot::fetch(is_ends),
        Some("php") => return php::fetch(is_ends),
        Some("perl") => return perl::fetch(is_ends),
        Some("luajit") => return luajit::fetch(is_ends),
        Some("ruby") => return ruby::fetch(is_ends),
        Some("v8") => return v8::fetch(is_ends),
        Some(other) => {
            let names: Vec<&str> = LANGUAGES.iter().map(|(name, _)| *name).collect();
            return Err(format!("{other} is none of {}", names.join(", ")));
        }
        None => {}
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
        debian::unpack(&self.available()?, &directory)?;
        // Modules are most of the package, and no test loads them.
        let _ = fs::remove_dir_all(directory.join("lib"));
        image_in(&directory).ok_or_else(|| format!("there is no kernel in {}", directory.display()))
    }

    /// Returns the name of the package that was tested, or of its latest successor.
    fn available(&self) -> Result<String, String> {
        let mut names = debian::names(self.successors)?;
        if names.is_empty() {
            debian::update()?;
            names = debian::names(self.successors)?;
        }
        if names.iter().any(|name| name == self.package) {
            return Ok(self.package.to_owned());
        }
        names.sort_by_key(|name| numbers(name));
        let name = names.pop().ok_or_else(|| format!("no package matches {}", self.successors))?;
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
