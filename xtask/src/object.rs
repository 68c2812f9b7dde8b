//! `cargo xtask object`: the compiled kernel programs: the profiler's, its own for older kernels, and the one of the example with aya.
//!
//! They are built by stable Rust with the sources of `core`, and linked by bpf-linker. A file
//! beside the profiler's names the tools that built them: the same tools give the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, command, output, root, run, target};

/// A compiled program.
struct Object {
    package: &'static str,
    /// Name of the binary.
    binary: &'static str,
    /// The feature that it needs.
    feature: &'static str,
    /// The architecture of the kernels that it is for.
    architecture: &'static str,
    /// Path relative to the repository.
    path: &'static str,
}

const OBJECTS: [Object; 4] = [
    Object {
        package: "ebpf-programs",
        binary: "sampler",
        feature: "kernel",
        architecture: "x86_64",
        path: "ebpf-programs/object/sampler.x86_64.o",
    },
    Object {
        package: "ebpf-programs",
        binary: "sampler",
        feature: "kernel",
        architecture: "aarch64",
        path: "ebpf-programs/object/sampler.aarch64.o",
    },
    Object {
        package: "ebpf-programs",
        binary: "sampler",
        feature: "kernel_5_10",
        architecture: "x86_64",
        path: "ebpf-programs/object/sampler_5_10.x86_64.o",
    },
    Object {
        package: "own-program",
        binary: "written",
        feature: "kernel",
        architecture: "x86_64",
        path: "examples/own_program/written.x86_64.o",
    },
];

/// Path of the list of tools that built the object.
const BUILT_WITH: &str = "ebpf-programs/object/BUILT_WITH";

/// The version of bpf-linker that is installed if it is missing.
const LINKER: &str = "0.13.0";

/// Debian packages that the build needs.
pub(crate) const PACKAGES: &[&str] = &[
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "llvm-22-dev",
    "libpolly-22-dev",
    "zlib1g-dev",
    "libzstd-dev",
];

/// Rebuilds it, or with `--check` compares a fresh build with the one in the repository.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    match arguments {
        [] => rebuild(),
        [check] if check == "--check" => compare(),
        _ => Err("takes nothing or --check".to_owned()),
    }
}

fn rebuild() -> Outcome {
    let tools = Tools::find()?;
    for object in &OBJECTS {
        let fresh = tools.build(object)?;
        write(&root().join(object.path), &fresh)?;
        eprintln!("{}: {} bytes", object.path, fresh.len());
    }
    write(&root().join(BUILT_WITH), tools.versions()?.as_bytes())
}

/// Byte for byte where the tools are the recorded ones; where they are others, says so and puts the fresh
/// builds in their place, so that what is tested afterwards is that.
fn compare() -> Outcome {
    let tools = Tools::find()?;
    let recorded = fs::read_to_string(root().join(BUILT_WITH)).unwrap_or_default();
    let present = tools.versions()?;
    if recorded != present {
        eprintln!(
            "the objects were built with\n{recorded}here there is\n{present}fresh builds are tested instead"
        );
    }
    for object in &OBJECTS {
        let (path, fresh) = (object.path, tools.build(object)?);
        if recorded != present {
            write(&root().join(path), &fresh)?;
            continue;
        }
        let committed = fs::read(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        if fresh != committed {
            let at = fresh.iter().zip(&committed).position(|(a, b)| a != b).unwrap_or(0);
            return Err(format!("{path} differs from a fresh build at byte {at}; run: cargo xtask object"));
        }
        eprintln!("{path} equals a fresh build");
    }
    Ok(())
}

/// The tools of a build: a compiler with the sources of `core`.
struct Tools {
    rustc: String,
    cargo: String,
    objcopy: PathBuf,
}

impl Tools {
    /// Debian's compiler, or a nightly of rustup with the component rust-src.
    fn find() -> Result<Tools, String> {
        install_linker()?;
        let objcopy = objcopy()?;
        if Path::new("/usr/lib/rustlib/src/rust/library/core").exists()
            && Path::new("/usr/bin/rustc").exists()
        {
            return Ok(Tools { rustc: "/usr/bin/rustc".into(), cargo: "/usr/bin/cargo".into(), objcopy });
        }
        let which = |tool| output(&mut command(&["rustup", "which", "--toolchain", "nightly", tool]));
        match (which("rustc"), which("cargo")) {
            (Ok(rustc), Ok(cargo)) => {
                Ok(Tools { rustc: rustc.trim().into(), cargo: cargo.trim().into(), objcopy })
            }
            _ => Err(format!(
                "the sources of core are missing; on Debian: apt-get install {}, elsewhere: \
                 rustup toolchain install nightly --component rust-src",
                PACKAGES.join(" ")
            )),
        }
    }

    /// Builds an object and returns its bytes.
    fn build(&self, object: &Object) -> Result<Vec<u8>, String> {
        let folder = target().join("bpf");
        let repository = root().canonicalize().map_err(|error| error.to_string())?;
        let home = std::env::var("CARGO_HOME")
            .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
        let flags = [
            "-Cdebuginfo=2".to_owned(),
            "-Clink-arg=--btf".to_owned(),
            "-Clink-arg=--disable-expand-memcpy-in-order".to_owned(),
            "-Ctarget-cpu=v3".to_owned(),
            "-Clinker=bpf-linker".to_owned(),
            format!("--cfg=bpf_target_arch=\"{}\"", object.architecture),
            // No path of the machine that builds it stays in the object.
            format!("--remap-path-prefix={}=.", repository.display()),
            format!("--remap-path-prefix={home}/registry/src=deps"),
        ];
        run(command(&[&self.cargo, "build", "--locked", "--release", "--quiet"])
            .args(["--package", object.package, "--features", object.feature, "--bin", object.binary])
            .args(["--target", "bpfel-unknown-none", "-Zbuild-std=core"])
            .arg("--target-dir")
            .arg(&folder)
            .env("RUSTC", &self.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            // Otherwise the crate is compiled in other pieces, and the object is another one.
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("RUSTFLAGS")
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")))?;
        let built = folder.join("bpfel-unknown-none/release").join(object.binary);
        let stripped = folder.join(format!("{}.o", object.binary));
        self.strip(&built, &stripped)?;
        fs::read(&stripped).map_err(|error| format!("{}: {error}", stripped.display()))
    }

    /// Copies an object without debug information and without the lines of its instructions, which are more than half of it and
    /// which the loader does not pass on.
    fn strip(&self, built: &Path, stripped: &Path) -> Outcome {
        let types = stripped.with_extension("types");
        let objcopy = || command(&[&self.objcopy.to_string_lossy()]);
        let dump = format!("--dump-section=.BTF.ext={}", types.display());
        run(objcopy().args(["--strip-debug", &dump]).arg(built).arg(stripped))?;
        let section = fs::read(&types).map_err(|error| format!("{}: {error}", types.display()))?;
        let section = without_lines(&section).ok_or("the section .BTF.ext is not as expected")?;
        write(&types, &section)?;
        let update = format!("--update-section=.BTF.ext={}", types.display());
        run(objcopy().args([&update, "--remove-section=.rel.BTF.ext"]).arg(stripped))
    }

    /// Returns the versions of the tools that determine the bytes of the objects.
    fn versions(&self) -> Result<String, String> {
        let rustc = output(&mut command(&[&self.rustc, "--version"]))?;
        let linker = output(&mut command(&["bpf-linker", "--version"]))?;
        let objcopy = output(&mut command(&[&self.objcopy.to_string_lossy(), "--version"]))?;
        let llvm = objcopy.lines().find(|line| line.contains("version")).unwrap_or_default();
        Ok(format!("{}\n{}\n{}\n", rustc.trim(), linker.trim(), llvm.trim()))
    }
}

/// Returns a section `.BTF.ext` with the types of functions alone; `None` if it is malformed, or has relocations of fields.
///
/// A header of 32 bytes: magic number and version, its length, and three pairs of offset and length: types of functions, lines,
/// relocations.
fn without_lines(section: &[u8]) -> Option<Vec<u8>> {
    const HEADER: u32 = 32;
    let word = |index: usize| {
        let bytes = section.get(index * 4..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let (magic, functions, relocations) = (word(0)?, [word(2)?, word(3)?], word(7)?);
    if word(1)? != HEADER || functions[0] != 0 || relocations != 0 {
        return None;
    }
    let end = functions[1];
    let header = [magic, HEADER, 0, end, end, 0, end, 0];
    let mut shortened: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    shortened.extend_from_slice(section.get(HEADER as usize..(HEADER + end) as usize)?);
    Some(shortened)
}

fn objcopy() -> Result<PathBuf, String> {
    let places = ["/usr/lib/llvm-22/bin/llvm-objcopy", "/usr/bin/llvm-objcopy"];
    let found = places.into_iter().map(PathBuf::from).find(|place| place.exists());
    found.ok_or_else(|| "llvm-objcopy is missing; on Debian: apt-get install llvm-22-dev".to_owned())
}

fn install_linker() -> Outcome {
    if output(&mut command(&["bpf-linker", "--version"])).is_ok() {
        return Ok(());
    }
    eprintln!("installing bpf-linker {LINKER}");
    run(command(&["cargo", "install", "bpf-linker", "--version", LINKER, "--locked", "--quiet"])
        .args(["--no-default-features", "--features", "llvm-22"])
        .env("LLVM_PREFIX", "/usr/lib/llvm-22"))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
