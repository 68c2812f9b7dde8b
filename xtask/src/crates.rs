//! Checks of the library crates beyond their tests: the oldest Rust, every set of features, another
//! architecture, what is published, and the fuzz targets.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::run::{Outcome, cargo, command, json, output, root, run, target};
use crate::tally::Tally;

/// The crates that are published.
pub(crate) const LIBRARIES: &[&str] = &[
    "ebpf-programs",
    "ebpf-profiler-core",
    "ebpf-profiler-unwind",
    "ebpf-profiler-hll",
    "ebpf-profiler-otlp",
];

/// Features that compile for another target alone.
const KERNEL_SIDE: &[&str] = &["kernel", "kernel_5_10"];

/// The other architecture that libraries compile for.
const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Files that each published crate holds, by the beginnings of their names.
const PUBLISHED: &[&str] = &["README.md", "LICENSE-"];

/// The work of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every set of features, the compression by Zstandard, and fuzz targets as programs.
    Full,
    /// Sets of features with every pair of them, no code in C but that of the cryptography, fuzz
    /// targets type-checked.
    Brief,
}

/// Does all checks.
pub(crate) fn task(_: &[String]) -> Outcome {
    let mut tally = Tally::default();
    steps(&mut tally, Extent::Full);
    tally.close()
}

/// The checks as steps.
pub(crate) fn steps(tally: &mut Tally, extent: Extent) {
    tally.step("features", |_| feature_sets_compile(extent));
    tally.step("oldest Rust", |_| oldest_rust(extent));
    tally.step("arm64", |_| arm64(extent));
    tally.step("packages", |_| packages());
    tally.step("fuzz targets", |_| fuzz_targets(extent));
}

/// Compiles each library with sets of its features.
fn feature_sets_compile(extent: Extent) -> Outcome {
    let metadata = metadata()?;
    for library in LIBRARIES {
        let all = feature_sets(&features_of(&metadata, library)?);
        let sets = if extent == Extent::Full { all.clone() } else { with_pairs(&all) };
        eprintln!("{library}: {} of {} sets of features", sets.len(), all.len());
        for set in sets {
            let features = set.into_iter().collect::<Vec<_>>().join(",");
            let line = ["clippy", "--quiet", "--lib", "-p", library, "--no-default-features", "--features"];
            output(cargo(&line).args([&features, "--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

/// Returns all features of all libraries, except those of the kernel side, as cargo's option names
/// them.
pub(crate) fn features() -> Result<String, String> {
    let metadata = metadata()?;
    let mut named = Vec::new();
    for library in LIBRARIES {
        let features = features_of(&metadata, library)?;
        named.extend(features.iter().map(|(feature, _)| format!("{library}/{feature}")));
    }
    Ok(named.join(","))
}

fn metadata() -> Result<Value, String> {
    json(&output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?)
}

/// A feature and the features of the same crate that it switches on.
type Feature = (String, Vec<String>);

fn features_of(metadata: &Value, library: &str) -> Result<Vec<Feature>, String> {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == library);
    let features = package.and_then(|package| package["features"].as_object());
    let features = features.ok_or_else(|| format!("no features of {library}"))?;
    let names = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    };
    let all = features.iter().map(|(name, list)| (name.clone(), names(list)));
    Ok(all.filter(|(name, _)| name != "default" && !KERNEL_SIDE.contains(&name.as_str())).collect())
}

/// Every set of features, with what each switches on; sets that are the same are there once.
fn feature_sets(features: &[Feature]) -> BTreeSet<BTreeSet<String>> {
    let with_implied = |name: &String| {
        let mut set = BTreeSet::from([name.clone()]);
        while let Some((_, implied)) = features.iter().find(|(name, implied)| {
            set.contains(name)
                && implied.iter().any(|other| is_feature(features, other) && !set.contains(other))
        }) {
            set.extend(implied.iter().filter(|other| is_feature(features, other)).cloned());
        }
        set
    };
    let closed: Vec<BTreeSet<String>> = features.iter().map(|(name, _)| with_implied(name)).collect();
    let sets = (0..1_u32 << closed.len()).map(|bits| {
        let chosen = closed.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        chosen.flat_map(|(_, set)| set.iter().cloned()).collect()
    });
    sets.collect()
}

/// Few of these sets that have, for any two features, each way in which some set has both, one or
/// none of them.
fn with_pairs(all: &BTreeSet<BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let names: Vec<&String> = all.iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
    let ways = |set: &BTreeSet<String>| -> BTreeSet<(usize, usize, bool, bool)> {
        let has: Vec<bool> = names.iter().map(|name| set.contains(*name)).collect();
        let pairs = (0..has.len()).flat_map(|one| (one..has.len()).map(move |other| (one, other)));
        pairs.map(|(one, other)| (one, other, has[one], has[other])).collect()
    };
    let mut missing: BTreeSet<_> = all.iter().flat_map(&ways).collect();
    let mut chosen = BTreeSet::new();
    while !missing.is_empty() || chosen.is_empty() {
        let adds = |set: &&BTreeSet<String>| ways(set).intersection(&missing).count();
        let Some(best) = all.iter().max_by_key(adds) else { break };
        missing = missing.difference(&ways(best)).copied().collect();
        chosen.insert(best.clone());
    }
    chosen
}

fn is_feature(features: &[Feature], name: &str) -> bool {
    features.iter().any(|(feature, _)| feature == name)
}

/// Compiles the libraries with the Rust of `rust-version`, or, where that can't be had, lets clippy
/// look for what is newer.
fn oldest_rust(extent: Extent) -> Outcome {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = line.ok_or("Cargo.toml names no rust-version")?.trim_matches('"');
    if output(&mut toolchain(version, &["--version"])).is_err() {
        let install = ["rustup", "toolchain", "install", version, "--profile", "minimal"];
        if let Err(reason) = output(&mut command(&install)) {
            eprintln!("Rust {version} can't be had, clippy looks for what is newer: {reason}");
            let lint = ["clippy", "--workspace", "--lib", "--", "-D", "clippy::incompatible_msrv"];
            return run(&mut cargo(&lint));
        }
    }
    eprintln!("Rust {version}");
    let folder = target().join("msrv");
    run(check(&mut toolchain(version, &["check"]), extent).arg("--target-dir").arg(folder))
}

/// Compiles the libraries for arm64.
fn arm64(extent: Extent) -> Outcome {
    let installed = output(&mut command(&["rustup", "target", "list", "--installed"]))?;
    if !installed.lines().any(|line| line == ARM64) {
        run(&mut command(&["rustup", "target", "add", ARM64]))?;
    }
    run(check(&mut cargo(&["check"]), extent).args(["--target", ARM64]))
}

/// Adds the libraries with their usual features and those of the leaf that has most.
fn check(command: &mut Command, extent: Extent) -> &mut Command {
    command.args(["--quiet", "--lib"]).args(LIBRARIES.iter().flat_map(|library| ["-p", library])).args([
        "--features",
        "ebpf-programs/object,ebpf-profiler-core/live,ebpf-profiler-core/symbolize,ebpf-profiler-otlp/grpc,\
         ebpf-profiler-otlp/tls",
    ]);
    match extent {
        Extent::Full => command.args(["--features", "ebpf-profiler-otlp/zstd"]),
        Extent::Brief => command,
    }
}

fn toolchain(version: &str, arguments: &[&str]) -> Command {
    command(&[&["rustup", "run", version, "cargo"], arguments].concat())
}

/// Packs the libraries as for publishing, and looks for the files that each must hold.
fn packages() -> Outcome {
    let named: Vec<&str> = LIBRARIES.iter().flat_map(|library| ["-p", library]).collect();
    // Without a build: those that others depend on aren't published.
    run(cargo(&["package", "--quiet", "--no-verify", "--allow-dirty"]).args(&named))?;
    let mut missing = Vec::new();
    for library in LIBRARIES {
        let list = output(&mut cargo(&["package", "--list", "--allow-dirty", "-p", library]))?;
        let absent = PUBLISHED.iter().filter(|name| !list.lines().any(|line| line.starts_with(**name)));
        missing.extend(absent.map(|name| format!("{library} holds no {name}")));
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("; ")) }
}

/// Compiles all fuzz targets, without a fuzzer's instrumentation.
fn fuzz_targets(extent: Extent) -> Outcome {
    let manifests = LIBRARIES.iter().map(|library| root().join(library).join("fuzz/Cargo.toml"));
    let manifests: Vec<PathBuf> = manifests.filter(|manifest| manifest.is_file()).collect();
    for manifest in &manifests {
        let how = if extent == Extent::Full { "build" } else { "check" };
        let build = [how, "--quiet", "--bins", "--manifest-path"];
        // As `cargo fuzz` sets it: what targets alone may call is public then.
        let flags = "--cfg fuzzing";
        run(cargo(&build)
            .arg(manifest)
            .arg("--target-dir")
            .arg(target().join("fuzz"))
            .env("RUSTFLAGS", flags))?;
    }
    eprintln!("the targets of {} crates are compiled", manifests.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(features: &[(&str, &[&str])]) -> Vec<String> {
        let owned = |(name, implied): &(&str, &[&str])| {
            ((*name).to_owned(), implied.iter().map(|&name| name.to_owned()).collect())
        };
        let features: Vec<Feature> = features.iter().map(owned).collect();
        let joined = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
        feature_sets(&features).into_iter().map(joined).collect()
    }

    #[test]
    fn takes_every_set_of_features() {
        assert_eq!(sets(&[]), [""]);
        assert_eq!(sets(&[("a", &[]), ("b", &["dep:x"])]), ["", "a", "a b", "b"]);
    }

    #[test]
    fn has_every_pair_in_few_sets() {
        let features: Vec<Feature> =
            ["a", "b", "c", "d", "e", "f"].map(|name| (name.to_owned(), vec![])).to_vec();
        let all = feature_sets(&features);
        let few = with_pairs(&all);
        assert!(all.len() == 64 && few.len() < 10, "{}", few.len());
        for one in ["a", "b", "c", "d", "e", "f"] {
            assert!(few.iter().any(|set| set.contains(one)) && few.iter().any(|set| !set.contains(one)));
            for other in ["a", "b", "c", "d", "e", "f"] {
                assert!(few.iter().any(|set| set.contains(one) && set.contains(other)));
                assert!(one == other || few.iter().any(|set| set.contains(one) && !set.contains(other)));
            }
        }
        let alone = with_pairs(&feature_sets(&[]));
        assert_eq!(alone.len(), 1);
    }

    #[test]
    fn takes_implied_features_along_and_no_set_twice() {
        assert_eq!(sets(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]), ["", "a b c", "b c", "c"]);
    }
}
