//! Debian packages.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, command, output, run};

/// Installs those of the packages that are missing.
pub(crate) fn install(packages: &[&str]) -> Outcome {
    let missing: Vec<_> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("missing: {}", missing.join(" "));
    update()?;
    let install = ["apt-get", "install", "--yes", "--no-install-recommends"];
    run(command(&[&install[..], &missing].concat()).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs those of the packages that the machine's distribution has.
pub(crate) fn install_available(packages: &[&str]) -> Outcome {
    update()?;
    let is_available = |package: &&str| {
        let shown = output(&mut command(&["apt-cache", "show", "--no-all-versions", package]));
        shown.is_ok_and(|text| !text.is_empty())
    };
    let available: Vec<_> = packages.iter().copied().filter(is_available).collect();
    for package in packages.iter().filter(|package| !available.contains(package)) {
        eprintln!("this distribution has no package {package}");
    }
    install(&available)
}

/// Updates the lists of packages.
pub(crate) fn update() -> Outcome {
    run(&mut command(&["apt-get", "update", "--quiet"]))
}

/// Returns the names of packages in the lists that match a pattern.
pub(crate) fn names(pattern: &str) -> Result<Vec<String>, String> {
    let lines = output(&mut command(&["apt-cache", "search", "--names-only", pattern]))?;
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    Ok(lines.lines().map(name).collect())
}

/// Fetches a package and unpacks it into a directory, without installing it.
pub(crate) fn unpack(package: &str, into: &Path) -> Outcome {
    let fetched = PathBuf::from(format!("{}.fetched", into.display()));
    fs::create_dir_all(&fetched).map_err(|error| format!("{}: {error}", fetched.display()))?;
    // apt's own user may not write here; then apt fetches as the current user, with a warning.
    let sandbox = ["-o", "APT::Sandbox::User=root"];
    let download = [&["apt-get", "download"], &sandbox[..], &[package]].concat();
    let fetch = || run(command(&download).current_dir(&fetched));
    // Outdated lists name files that were removed.
    fetch().or_else(|_| update().and_then(|()| fetch()))?;
    let file = fs::read_dir(&fetched)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| format!("apt-get fetched no file for {package}"))?;
    run(command(&["dpkg-deb", "--extract"]).arg(&file).arg(into))?;
    fs::remove_dir_all(&fetched).map_err(|error| error.to_string())
}

fn is_installed(package: &str) -> bool {
    let query = ["dpkg-query", "--show", "--showformat", "${Status}", package];
    output(&mut command(&query)).is_ok_and(|status| status.ends_with(" installed"))
}
