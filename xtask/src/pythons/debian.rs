//! Debian's interpreters, each in a folder that is all it needs to be a root.
//!
//! Debian links the interpreter statically into the program and ships the shared library beside it.
//! Each suite has a libc of its own, older or newer than the machine's: before 2.34 threads lie in
//! a library of their own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::suite::Suite;
use super::{Interpreter, folder};
use crate::run::Outcome;

/// An interpreter of one suite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Package {
    suite: Suite,
    /// Version, for example `3.13`.
    python: &'static str,
    /// The version that was tested.
    version: &'static str,
    /// Libraries that it needs, in the version of the suite.
    libraries: &'static [&'static str],
}

pub(super) const PACKAGES: &[Package] = &[
    Package {
        suite: Suite("bullseye"),
        python: "2.7",
        version: "2.7.18-8+deb11u1",
        libraries: &["libc6", "libcrypt1", "libffi7", "zlib1g"],
    },
    Package {
        suite: Suite("bullseye"),
        python: "3.9",
        version: "3.9.2-1",
        libraries: &["libc6", "libcrypt1", "libexpat1", "libffi7", "zlib1g"],
    },
    Package {
        suite: Suite("bookworm"),
        python: "3.11",
        version: "3.11.2-6+deb12u8",
        libraries: &["libc6", "libexpat1", "libffi8", "zlib1g"],
    },
    Package {
        suite: Suite("trixie"),
        python: "3.13",
        version: "3.13.5-2+deb13u5",
        libraries: &["libc6", "libexpat1", "libffi8", "zlib1g"],
    },
    Package {
        suite: Suite("forky"),
        python: "3.14",
        version: "3.14.8-1",
        libraries: &["libc6", "libexpat1", "libffi8", "libgcc-s1", "zlib1g"],
    },
    Package {
        suite: Suite("sid"),
        python: "3.15",
        version: "3.15.2-1",
        libraries: &["libc6", "libexpat1", "libffi8", "libgcc-s1", "libzstd1", "zlib1g"],
    },
];

/// The oldest one, and the newest one of a suite whose packages stay.
const ENDS: [&str; 2] = ["2.7", "3.14"];

impl Package {
    pub(super) fn is_end(&self) -> bool {
        ENDS.contains(&self.python)
    }

    /// Returns the interpreter, which it fetches if it is missing.
    pub(super) fn interpreter(&self) -> Result<Interpreter, String> {
        let root = folder().join(format!("debian-{}", self.python));
        let program = format!("/usr/bin/python{}", self.python);
        let symbols = folder().join(format!("debian-{}-symbols", self.python));
        if !root.join("complete").is_file() {
            self.fetch(&root, &symbols)?;
            fs::write(root.join("complete"), self.version).map_err(|error| error.to_string())?;
        }
        Ok(Interpreter {
            name: format!("debian-{}", self.python),
            root: root.to_string_lossy().into_owned(),
            program,
            symbols: symbols.join("usr/lib/debug").to_string_lossy().into_owned(),
        })
    }

    fn fetch(&self, root: &Path, symbols: &Path) -> Outcome {
        eprintln!("      Python {} of Debian {}", self.python, self.suite.0);
        // Left behind by an interrupted attempt.
        let _ = fs::remove_dir_all(root);
        let _ = fs::remove_dir_all(symbols);
        fs::create_dir_all(root).map_err(|error| format!("{}: {error}", root.display()))?;
        let parts = self.parts();
        let libraries = self.libraries.iter().map(|&library| (library, ""));
        let packages: Vec<_> =
            libraries.chain(parts.iter().map(|part| (part.as_str(), self.version))).collect();
        self.suite.unpack(&packages, root)?;
        self.suite.unpack(&[(&format!("python{}-dbg", self.python), self.version)], symbols)?;
        furnish(root).map_err(|error| format!("{}: {error}", root.display()))
    }

    fn parts(&self) -> [String; 6] {
        let python = self.python;
        [
            format!("libpython{python}-minimal"),
            format!("libpython{python}-stdlib"),
            format!("libpython{python}"),
            format!("libpython{python}-dev"),
            format!("python{python}-minimal"),
            format!("python{python}"),
        ]
    }
}

/// Adds mount points, and links to `/usr` for suites that unpack into `/usr` alone.
fn furnish(root: &Path) -> std::io::Result<()> {
    for folder in ["proc", "dev", "tmp", "truth"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let missing = ["bin", "lib", "lib64"].into_iter().filter(|name| !root.join(name).exists());
    missing.into_iter().try_for_each(|name| symlink(format!("usr/{name}"), root.join(name)))
}
