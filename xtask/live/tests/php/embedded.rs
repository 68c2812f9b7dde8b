//! Chains in programs that embed PHP: one process for each, or one thread for each.

use std::path::Path;
use std::process::Command;

use crate::interpreter::Interpreter;
use crate::{Subject, cases, check_subjects};
use live_suite::process::Process;
use live_suite::reference::chain::Running;
use live_suite::reference::printed::printed;

/// Runs all chains at the same time, each in a program with PHP's library, and fails if one of them
/// isn't good.
pub(crate) fn check(version: &str) {
    let php = Interpreter::fetched(version, &format!("/usr/bin/php{version}"), &[]);
    let Some((php, program)) = php.and_then(|php| Some((php.clone(), build(&php, version)?))) else {
        return test_needs::skip(&format!("no library of PHP {version}: cargo xtask fixtures php"));
    };
    let script = php.folder().join("chains.php");
    let start = |case: &&'static crate::Case| {
        let mut command = php.other(&program);
        command.arg(&script).args([case.chain, case.argument]);
        let running = Running::start(command);
        running.signal("STOP");
        running
    };
    let cases = cases(php.version());
    let running: Vec<_> = cases.iter().map(start).collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let subject = |(case, running): (&&'static crate::Case, &Running)| {
        let mut chain = running.chain.clone();
        // Code that a program hands over is code of `eval`.
        chain[0].name = "{eval}".to_owned();
        Subject { case, pid: running.pid(), thread: None, chain }
    };
    let subjects: Vec<_> = cases.iter().zip(&running).map(subject).collect();
    check_subjects(&format!("{version} embedded"), false, &subjects);
}

/// Runs chains at the same time, each in a thread of one program, and fails if one of them isn't
/// good.
pub(crate) fn check_threads(name: &str) {
    let Some(library) = Interpreter::built(name, "libphp.so") else {
        return test_needs::skip(&format!("no PHP {name}: cargo xtask fixtures php"));
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("php-threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("embed_threads");
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/programs"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o"]).arg(&program).arg(programs.join("embed_threads.c")).arg(&library);
    gcc.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    assert!(gcc.status().unwrap().success());
    // Threads have the names of chains.
    let cases: Vec<_> = cases((8, 2)).into_iter().filter(|case| case.name != "recursion_300").collect();
    let mut command = Command::new(&program);
    command.arg(programs.join("chains.php")).arg(&folder);
    command.args(cases.iter().flat_map(|case| [case.chain, case.argument]));
    let process = Process::start(&mut command);
    let subject = |case: &&'static crate::Case| {
        let chain = printed(&folder.join(case.chain));
        let mut chain = chain.unwrap_or_else(|| panic!("{} is not ready", case.name)).calls;
        chain[0].name = "{eval}".to_owned();
        Subject { case, pid: process.id(), thread: Some(case.chain.to_owned()), chain }
    };
    let subjects: Vec<_> = cases.iter().map(subject).collect();
    check_subjects(&format!("{name} embedded"), false, &subjects);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Builds the program into the root of an interpreter; returns its path there, `None` if there is
/// no library.
fn build(php: &Interpreter, version: &str) -> Option<String> {
    let library = php.outside(Path::new(&format!("/usr/lib/libphp{version}.so")));
    let program = "/truth/embed";
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/programs/embed.c"));
    std::fs::create_dir_all(php.outside(Path::new("/truth"))).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o"]).arg(php.outside(Path::new(program))).arg(source).arg(&library);
    // The library's own libraries are in that root, and it has another name.
    gcc.args(["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-Wl,-rpath,/truth"]);
    let link = php.outside(Path::new("/truth/libphp.so"));
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(format!("/usr/lib/libphp{version}.so"), link).unwrap();
    (library.is_file() && gcc.status().unwrap().success()).then(|| program.to_owned())
}
