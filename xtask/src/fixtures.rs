//! `cargo xtask fixtures`: what the tests need and the repository doesn't hold.

pub(crate) mod go;

use std::fs;
use std::path::PathBuf;

use crate::run::{Outcome, fixtures};
use crate::{collector, debian};

/// A kernel of Debian's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// What people call it.
    pub(crate) version: &'static str,
    /// The package that was tested.
    package: &'static str,
    /// What matches its successors: Debian takes old builds away.
    successors: &'static str,
}

/// The kernels of the matrix: the oldest that we promise and that Debian ships, and a current one.
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

/// Fetches those that are not here yet; `go` only Go.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    if arguments.first().is_some_and(|what| what == "go") {
        return go::fetch();
    }
    let all = KERNELS.len() + 2;
    for (number, kernel) in KERNELS.iter().enumerate() {
        eprintln!("[{}/{all}] Linux {}", number + 1, kernel.version);
        eprintln!("      {}", kernel.image()?.display());
    }
    eprintln!("[{}/{all}] OpenTelemetry collector", all - 1);
    eprintln!("      {}", collector::build()?.display());
    eprintln!("[{all}/{all}] Go");
    go::fetch()
}

impl Kernel {
    /// The kernel's image, fetched if need be.
    pub(crate) fn image(&self) -> Result<PathBuf, String> {
        let directory = fixtures().join(format!("linux-{}", self.version));
        if let Some(image) = image_in(&directory) {
            return Ok(image);
        }
        // What a broken attempt has left behind.
        let _ = fs::remove_dir_all(&directory);
        debian::unpack(&self.available()?, &directory)?;
        // Modules are most of the package, and nothing loads them.
        let _ = fs::remove_dir_all(directory.join("lib"));
        image_in(&directory).ok_or_else(|| format!("there is no kernel in {}", directory.display()))
    }

    /// The package that was tested, or the one that came after it.
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
        eprintln!("      {} is not to be had any more: {name} in its place", self.package);
        Ok(name)
    }
}

fn image_in(directory: &std::path::Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory.join("boot")).ok()?;
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")))
}

/// The numbers in a name, for an order that people expect: 6.1.0-9 before 6.1.0-47.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn later_builds_come_later() {
    let mut names = ["linux-image-6.1.0-47-cloud", "linux-image-6.1.0-9-cloud", "linux-image-6.1.1-1-cloud"];
    names.sort_by_key(|name| numbers(name));
    assert_eq!(
        names,
        ["linux-image-6.1.0-9-cloud", "linux-image-6.1.0-47-cloud", "linux-image-6.1.1-1-cloud"]
    );
}
