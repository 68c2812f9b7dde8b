//! Functions of the standard library in a workload's chain that call the next function through C.

use crate::interpreter::Version;
use crate::source::holds;

/// File, function, and the versions in which it calls through C (empty: all); the comments name the
/// callee.
const THROUGH_C: &[(&str, &str, &str)] = &[
    ("asyncio/events.py", "_run", ""), // context.run, then the task in C
    ("importlib/_bootstrap", "_call_with_frames_removed", ""), // exec
    ("json/encoder.py", "iterencode", ""), // c_make_encoder
    ("json/decoder.py", "raw_decode", ""), // c_make_scanner
    ("re.py", "sub", ""),              // Pattern.sub
    ("re/__init__.py", "sub", ""),
    ("threading.py", "run", "before 3.12"), // *args, **kwargs
    ("threading.py", "_bootstrap_inner", "since 3.14"), // context.run
    ("multiprocessing/process.py", "run", "before 3.12"), // *args, **kwargs
    ("multiprocessing/context.py", "_Popen", ""), // a class
];

/// Returns `true` if C code calls the callee of this function.
pub(crate) fn is_through_c(file: &str, function: &str, version: Version) -> bool {
    let name = function.rsplit('.').next().unwrap_or_default();
    let is_it = |row: &&(&str, &str, &str)| file_is(file, row.0) && name == row.1;
    THROUGH_C.iter().find(is_it).is_some_and(|row| holds(row.2, version))
}

fn file_is(file: &str, wanted: &str) -> bool {
    let frozen = format!("<frozen {}>", wanted.replace('/', "."));
    file.ends_with(&format!("/{wanted}")) || file == frozen
}

#[test]
fn recognizes_functions_of_the_library() {
    let version = Version::parse("3.11").unwrap();
    assert!(is_through_c("/usr/lib/python3.11/threading.py", "Thread.run", version));
    assert!(!is_through_c("/usr/lib/python3.11/threading.py", "Thread.run", Version::parse("3.12").unwrap()));
    assert!(is_through_c("<frozen importlib._bootstrap>", "_call_with_frames_removed", version));
    assert!(!is_through_c("/srv/xre.py", "sub", version));
}
