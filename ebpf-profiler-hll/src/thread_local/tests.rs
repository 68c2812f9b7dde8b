//! Thread-local words of live threads, for all storage models of gcc, in glibc and musl.

use std::io::{BufRead, BufReader};
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};

use ebpf_profiler_core::language::Memory;

use super::*;
use crate::accessor;
use process::Process;

#[path = "../../tests/live/process.rs"]
mod process;

#[test]
#[ignore = "needs gcc and musl-gcc"]
fn reads_words_of_live_threads() {
    test_needs::programs!("gcc", "musl-gcc");
    for compiler in ["gcc", "musl-gcc"] {
        for model in ["-mtls-dialect=gnu", "-mtls-dialect=gnu2", "-ftls-model=initial-exec"] {
            if compiler == "musl-gcc" && model == "-ftls-model=initial-exec" {
                // musl reserves no static storage for libraries loaded later.
                continue;
            }
            let directory = build(compiler, model);
            let (child, threads) = start(&directory);
            assert_eq!(threads.len(), 2);
            for (thread, value) in threads {
                let found = words(child.0.id(), thread);
                eprintln!("{compiler} {model}: thread {thread:x}: {found:x?}");
                assert_eq!(found, [Ok(value + 1), Ok(value + 2), Ok(value)], "{compiler} {model}");
            }
            std::fs::remove_dir_all(directory).unwrap();
        }
    }
}

/// Returns the results that the accessors of the program and of its library would have in a thread.
fn words(pid: u32, thread: u64) -> [Result<u64, Reason>; 3] {
    let process = Process::open(pid);
    let memory: &dyn Memory = &|address, buffer: &mut [u8]| process.read(address, buffer);
    ["get_first", "get_last", "get_own"].map(|function| {
        let (file, elf) = process
            .files
            .iter()
            .map(|file| (file, file.open().unwrap()))
            .find(|(_, elf)| elf.exports().is_some_and(|exports| exports.get(function).is_some()))
            .unwrap();
        let address = elf.exports().unwrap().get(function).unwrap().address;
        let origin = accessor::returned(&elf, address, &|_| false).ok_or(Reason::Unsupported)?;
        let target = Target::new(memory, file.bias, process.files.clone());
        let offsets = path(origin, &target)?;
        Ok(offsets.iter().try_fold(thread, |at, &offset| memory.u64(at.wrapping_add_signed(offset)))?)
    })
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &FilePath) -> (Running, Vec<(u64, u64)>) {
    let mut command = Command::new(directory.join("threads"));
    let command = command.arg(directory.join("own.so")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(2);
    let threads = lines.map(|line| {
        let line = line.unwrap();
        let (thread, value) = line.split_once(' ').unwrap();
        (thread.parse().unwrap(), value.parse().unwrap())
    });
    let threads = threads.collect();
    (Running(child), threads)
}

fn build(compiler: &str, model: &str) -> PathBuf {
    let directory =
        std::env::temp_dir().join(format!("thread-local-{}-{compiler}{model}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let sources = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/workload");
    let run = |arguments: &[&str], source: &str, to: &str| {
        let mut command = Command::new(compiler);
        let command = command.args(arguments).arg("-O2").arg(sources.join(source));
        assert!(command.arg("-o").arg(directory.join(to)).status().unwrap().success());
    };
    run(&["-shared", "-fPIC", model], "own.c", "own.so");
    run(&["-rdynamic", "-pthread"], "threads.c", "threads");
    directory
}
