//! Programs for the kernels of arm64: compiled here, run there.

use std::path::{Path, PathBuf};

use super::{Order, directory};
use crate::fixtures::Architecture;
use crate::run::{cargo, command, output, run, target};

/// Debian packages with the compiler, the C library and the emulator.
pub(crate) const PACKAGES: &[&str] = &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-system-arm"];

/// The target of rustc.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The folder of the libraries of [`PACKAGES`].
const LIBRARIES: &str = "/usr/aarch64-linux-gnu/lib";

/// Programs with known chains: name, source, and flags of the compiler. `xtask/guest/native.c` knows their chains.
const CHAINS: &[(&str, &str, &[&str])] = &[
    ("chain", "chain.c", &["-fomit-frame-pointer", "-static"]),
    ("chain_linked", "chain.c", &["-fno-omit-frame-pointer"]),
    ("chain_signed", "chain.c", &["-fomit-frame-pointer", "-mbranch-protection=standard"]),
    ("realign", "realign.c", &["-fomit-frame-pointer", "-Wno-attributes"]),
    ("recursion", "recursion.c", &["-fomit-frame-pointer"]),
    ("signals", "signals.c", &["-fomit-frame-pointer"]),
    ("signals_signed", "signals.c", &["-fomit-frame-pointer", "-mbranch-protection=standard"]),
];

/// Adds flamegraph, programs with known chains, and, as the program, who judges what it saw.
pub(super) fn profile(order: &mut Order) -> Result<(), String> {
    add_target()?;
    order.architecture = Architecture::Arm64;
    for &(name, source, flags) in CHAINS {
        order.files.push(compile(name, &format!("xtask/live/tests/programs/{source}"), flags)?);
    }
    let flags = ["build", "--profile", "ci", "--package", "examples", "--target", TARGET];
    let programs = ["--bin", "flamegraph", "--bin", "explain"];
    run(cargo(&flags)
        .args(programs)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"))?;
    let built = target().join(TARGET).join("ci");
    order.files.extend([built.join("flamegraph"), built.join("explain")]);
    order
        .program
        .push(compile("native", "xtask/guest/native.c", &["-static"])?.to_string_lossy().into_owned());
    order.has_second_run = true;
    Ok(())
}

/// Builds a program for the guest.
pub(super) fn compile(name: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let folder = directory().join("arm64");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join(name);
    let usual = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];
    run(command(&["aarch64-linux-gnu-gcc"]).args(usual).args(flags).arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

/// Returns the libraries that a program needs, and the loader: their paths here, and in the guest.
pub(super) fn libraries_of(file: &Path) -> Vec<(PathBuf, String)> {
    let listed = output(command(&["readelf", "--dynamic"]).arg(file)).unwrap_or_default();
    let needed = listed.lines().filter_map(|line| line.split_once("Shared library: [")?.1.strip_suffix(']'));
    let needed: Vec<&str> = needed.collect();
    let loader = (!needed.is_empty()).then_some("ld-linux-aarch64.so.1");
    let place = |name: &str| {
        let folder = if name.starts_with("ld-") { "/lib" } else { "/lib/aarch64-linux-gnu" };
        (Path::new(LIBRARIES).join(name), format!("{folder}/{name}"))
    };
    needed.into_iter().chain(loader).map(place).collect()
}

fn add_target() -> Result<(), String> {
    let installed = output(&mut command(&["rustup", "target", "list", "--installed"]))?;
    if installed.lines().any(|line| line == TARGET) {
        return Ok(());
    }
    run(&mut command(&["rustup", "target", "add", TARGET]))
}
