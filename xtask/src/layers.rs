//! `cargo xtask layers`: a crate depends only on crates below it.
//!
//! ```text
//! ebpf-programs  <--  ebpf-profiler-core  <--  ebpf-profiler-unwind  <--  examples  <--  live-suite
//!                                              ebpf-profiler-hll          benches
//!                                              ebpf-profiler-otlp
//! ```

use serde_json::Value;

use crate::run::{Outcome, cargo, json, output};

/// Each crate, and the crates of the workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ebpf-programs", &[]),
    ("ebpf-profiler-core", &["ebpf-programs"]),
    ("ebpf-profiler-unwind", &["ebpf-programs", "ebpf-profiler-core"]),
    ("ebpf-profiler-hll", &["ebpf-programs", "ebpf-profiler-core"]),
    ("ebpf-profiler-otlp", &["ebpf-programs", "ebpf-profiler-core"]),
    ("examples", ALL),
    ("live-suite", WITH_EXAMPLES),
    // The eBPF program of an example.
    ("own-program", &["ebpf-programs"]),
    ("benches", ALL),
    ("xtask", &[]),
    ("test-needs", &[]),
];

const ALL: &[&str] = &[
    "ebpf-programs",
    "ebpf-profiler-core",
    "ebpf-profiler-unwind",
    "ebpf-profiler-hll",
    "ebpf-profiler-otlp",
];

const WITH_EXAMPLES: &[&str] = &[
    "ebpf-programs",
    "ebpf-profiler-core",
    "ebpf-profiler-unwind",
    "ebpf-profiler-hll",
    "ebpf-profiler-otlp",
    "examples",
];

/// Test support that every crate may depend on: published crates omit it.
const FOR_TESTS: &str = "test-needs";

/// Checks the workspace.
pub(crate) fn task(_: &[String]) -> Outcome {
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let wrong = wrong_edges(&json(&metadata)?)?;
    if wrong.is_empty() {
        eprintln!("{} crates depend only on those below them", ALLOWED.len());
        return Ok(());
    }
    Err(wrong.join("; "))
}

/// Returns a sentence for each dependency that is not allowed, including those of tests and build
/// scripts.
fn wrong_edges(metadata: &Value) -> Result<Vec<String>, String> {
    let packages = metadata["packages"].as_array().filter(|packages| !packages.is_empty());
    let mut wrong = Vec::new();
    for package in packages.ok_or("cargo metadata names no packages")? {
        let name = package["name"].as_str().ok_or("a package without a name")?;
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_, _)| *crate_ == name) else {
            wrong.push(format!("{name} is in no layer; add it to xtask/src/layers.rs"));
            continue;
        };
        let named = package["dependencies"].as_array().into_iter().flatten();
        for other in named.filter_map(|dependency| dependency["name"].as_str()) {
            if is_ours(other) && other != FOR_TESTS && !allowed.contains(&other) {
                wrong.push(format!("{name} depends on {other}, which is not below it"));
            }
        }
    }
    Ok(wrong)
}

fn is_ours(name: &str) -> bool {
    ALLOWED.iter().any(|(crate_, _)| *crate_ == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(packages: &[(&str, &[&str])]) -> Vec<String> {
        let dependency = |name: &&str| format!(r#"{{"name":"{name}","kind":null}}"#);
        let package = |(name, dependencies): &(&str, &[&str])| {
            let dependencies: Vec<_> = dependencies.iter().map(dependency).collect();
            format!(r#"{{"name":"{name}","dependencies":[{}]}}"#, dependencies.join(","))
        };
        let packages: Vec<_> = packages.iter().map(package).collect();
        let text = format!(r#"{{"packages":[{}]}}"#, packages.join(","));
        wrong_edges(&json(&text).unwrap()).unwrap()
    }

    #[test]
    fn accepts_dependencies_below() {
        let packages: &[(&str, &[&str])] = &[
            ("ebpf-programs", &["aya-ebpf"]),
            ("ebpf-profiler-core", &["ebpf-programs", "object"]),
            ("ebpf-profiler-unwind", &["ebpf-profiler-core", "gimli"]),
            ("examples", &["ebpf-profiler-unwind", "ebpf-profiler-otlp"]),
            ("live-suite", &["ebpf-profiler-unwind", "examples"]),
        ];
        assert_eq!(wrong(packages), Vec::<String>::new());
    }

    #[test]
    fn reports_dependencies_above_and_beside() {
        let edges: &[(&str, &str)] = &[
            ("ebpf-programs", "ebpf-profiler-core"),
            ("ebpf-profiler-core", "ebpf-profiler-unwind"),
            ("ebpf-profiler-unwind", "ebpf-profiler-hll"),
            ("ebpf-profiler-otlp", "ebpf-profiler-unwind"),
            ("ebpf-profiler-hll", "examples"),
            ("examples", "live-suite"),
            ("ebpf-profiler-core", "xtask"),
        ];
        for (from, to) in edges {
            assert_eq!(wrong(&[(from, &[to])]).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn reports_crate_without_layer() {
        assert_eq!(wrong(&[("ebpf-profiler-new", &[])]).len(), 1);
    }

    #[test]
    fn fails_without_packages() {
        assert!(wrong_edges(&json("{}").unwrap()).is_err());
        assert!(wrong_edges(&json(r#"{"packages":[]}"#).unwrap()).is_err());
    }
}
