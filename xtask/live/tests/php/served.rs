//! Chains in the workers of a server, one request for each.

use std::fs;
use std::path::Path;

use crate::interpreter::Interpreter;
use crate::server::{Kind, Server, Workers};
use crate::{Subject, cases, check_subjects};
use live_suite::reference::chain::Chain;
use live_suite::reference::printed::printed;

/// Each request compiles its scripts.
pub(crate) const NO_CACHE: &[&str] = &["max_execution_time=0"];

/// Compiled scripts are kept in memory that all workers share, optimized.
pub(crate) const OPCACHE: &[&str] = &[
    "max_execution_time=0",
    "zend_extension=opcache",
    "opcache.file_update_protection=0",
    "opcache.validate_timestamps=0",
];

/// Beside them is the code of the JIT, which compiles paths that run often.
pub(crate) const TRACING_JIT: &[&str] = &[
    "max_execution_time=0",
    "zend_extension=opcache",
    "opcache.file_update_protection=0",
    "opcache.validate_timestamps=0",
    "opcache.jit_buffer_size=64M",
    "opcache.jit=tracing",
];

/// The same, which compiles all functions.
pub(crate) const FUNCTION_JIT: &[&str] = &[
    "max_execution_time=0",
    "zend_extension=opcache",
    "opcache.file_update_protection=0",
    "opcache.validate_timestamps=0",
    "opcache.jit_buffer_size=64M",
    "opcache.jit=function",
];

/// Runs all chains at the same time in the workers of one server, and fails if one of them isn't
/// good.
pub(crate) fn check(kind: Kind, version: &str, settings: &[&str]) {
    let Some(php) = Interpreter::fetched(version, &format!("/usr/bin/php{version}"), &[]) else {
        return test_needs::skip(&format!("no PHP {version}: cargo xtask fixtures php"));
    };
    let cases = cases(php.version());
    let workers = Workers { count: cases.len() + 1, requests: 0 };
    let Some(server) = Server::start(kind, &php, settings, workers) else {
        return test_needs::skip(&format!("no {kind:?} for PHP {version}: cargo xtask fixtures php"));
    };
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/programs"));
    for file in ["chains.php", "included.php"] {
        fs::copy(programs.join(file), server.outside.join(file)).unwrap();
    }
    let mut open = Vec::new();
    let subjects: Vec<_> = cases
        .iter()
        .map(|case| {
            let output = format!("{}.chain", case.name);
            let query = format!(
                "chain={}&number={}&output={}",
                case.chain,
                case.argument,
                server.folder.join(&output).display()
            );
            open.push(server.request("chains.php", &query).unwrap());
            let Chain { pid, calls } = printed(&server.outside.join(output))
                .unwrap_or_else(|| panic!("{kind:?} {version}: {} is not ready", case.name));
            Subject { case, pid, thread: None, chain: calls }
        })
        .collect();
    let has_jit = settings == TRACING_JIT || settings == FUNCTION_JIT;
    check_subjects(&format!("{version} {kind:?}{}", suffix(settings)), has_jit, &subjects);
}

/// Returns the part of a name that tells settings.
pub(crate) fn suffix(settings: &[&str]) -> &'static str {
    match settings {
        _ if settings == TRACING_JIT => " tracing",
        _ if settings == FUNCTION_JIT => " function",
        _ if settings == NO_CACHE => " uncached",
        _ => "",
    }
}
