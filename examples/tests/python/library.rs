//! Functions of the standard library that a workload's chain goes through, and call what comes next through C.

use crate::interpreter::Version;
use crate::source::holds;

/// File, function, what it calls there, and in which versions that is through C.
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

/// Whether C code calls what this function calls.
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
fn the_library_is_told_from_others() {
    let version = Version::parse("3.11").unwrap();
    assert!(is_through_c("/usr/lib/python3.11/threading.py", "Thread.run", version));
    assert!(!is_through_c("/usr/lib/python3.11/threading.py", "Thread.run", Version::parse("3.12").unwrap()));
    assert!(is_through_c("<frozen importlib._bootstrap>", "_call_with_frames_removed", version));
    assert!(!is_through_c("/srv/xre.py", "sub", version));
}
