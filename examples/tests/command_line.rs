//! Errors of the example programs: one message with a remedy, and no result.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_agent");
const FLAMEGRAPH: &str = env!("CARGO_BIN_EXE_flamegraph");
const TOP: &str = env!("CARGO_BIN_EXE_top");
const RECORD: &str = env!("CARGO_BIN_EXE_record");
const EMBED: &str = env!("CARGO_BIN_EXE_embed");
const REPLAY: &str = env!("CARGO_BIN_EXE_replay");
const CORESTACK: &str = env!("CARGO_BIN_EXE_corestack");
const CASE: &str = env!("CARGO_BIN_EXE_case");
const TABLES: &str = env!("CARGO_BIN_EXE_tables");
const EXPLAIN: &str = env!("CARGO_BIN_EXE_explain");

/// Returns the error message, after checking everything else.
fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(output.stdout, b"", "a refusal prints no result");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let first = said.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or_else(|| unreachable!("{said}")).to_owned()
}

/// Runs a program in a scratch folder.
fn run(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn rejects_invalid_options() {
    for (words, said) in [
        (&["--frequency", "often"][..], "--frequency cannot be \"often\"; see --help"),
        (&["--second", "1"], "invalid option '--second'; see --help"),
        (&["--pid"], "missing argument for option '--pid'; see --help"),
        (&["fast"], "unexpected argument \"fast\"; see --help"),
    ] {
        assert_eq!(refusal(&run(FLAMEGRAPH, words), 2), said);
    }
}

#[test]
fn rejects_arguments_that_are_not_utf8() {
    for (words, said) in [
        (&[b"--output".as_slice(), b"\xff.html"][..], "argument is invalid unicode"),
        (&[b"--\xff"], "invalid option"),
        (&[b"\xff"], "unexpected argument"),
    ] {
        let words = words.iter().map(|word| OsStr::from_bytes(word));
        let sentence = refusal(&Command::new(FLAMEGRAPH).args(words).output().unwrap(), 2);
        assert!(sentence.starts_with(said) && sentence.ends_with("; see --help"), "{sentence}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let own = std::env::current_exe().unwrap();
    for (program, words) in [
        (FLAMEGRAPH, &["--help"][..]),
        (TABLES, &["--statistics", own.to_str().unwrap()]),
        (TABLES, &[own.to_str().unwrap()]),
        (CASE, &["--help"]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(program).args(words).stdout(writer).output().unwrap();
        assert_eq!(
            (output.status.code(), &*output.stderr),
            (Some(0), &b""[..]),
            "{program} {words:?}: {output:?}"
        );
    }
    // Without privilege its exit code is 1, without a further message.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(EXPLAIN).stdout(writer).output().unwrap();
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_full_output_is_an_error() {
    let own = std::env::current_exe().unwrap();
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../ebpf-profiler-unwind/tests/cases/bash.case");
    for (program, words) in [
        (FLAMEGRAPH, &["--help"][..]),
        (EXPLAIN, &[]),
        (TABLES, &[own.to_str().unwrap()]),
        (TABLES, &["--statistics", own.to_str().unwrap()]),
    ] {
        let full = || fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(program).args(words).stdout(full()).output().unwrap();
        assert!(refusal(&output, 1).starts_with("cannot print: No space left"), "{program} {words:?}");
        // A full standard error is no panic.
        let output = Command::new(program).args(words).stdout(full()).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{program} {words:?}");
    }
    assert!(run(CASE, &["--check", case]).status.success());
}

#[test]
fn rejects_files_that_are_not_elf() {
    let folder = folder("no_elf");
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = folder.join("text");
    fs::write(&text, "not an ELF file, but as long as the header of one would have to be at least").unwrap();
    let (pipe, text) = (pipe.to_str().unwrap(), text.to_str().unwrap());
    for (words, said) in [
        (&[][..], "give one ELF file"),
        (&["/no/such/file"], "/no/such/file: No such file"),
        (&[pipe], "not a regular file"),
        (&["/dev/zero"], "not a regular file"),
        (&["/tmp"], "it is a folder"),
        (&[text], "not an ELF file"),
        (&["--address", "main", TABLES], "--address cannot be \"main\"; give hexadecimal digits"),
    ] {
        let sentence = refusal(&run(TABLES, words), 1);
        assert!(sentence.contains(said), "{words:?}: {sentence}");
    }
}

#[test]
fn prints_a_table_as_rows_as_one_rule_and_as_statistics() {
    let rows = String::from_utf8(run(TABLES, &[TABLES]).stdout).unwrap();
    let (address, rule) = rows.lines().nth(5).unwrap().trim_start().split_once("  ").unwrap();
    assert!(rule.starts_with("cfa = "), "{rule}");
    let one = run(TABLES, &["--address", address, TABLES]);
    assert_eq!(String::from_utf8(one.stdout).unwrap(), format!("{rule}\n"));
    let numbers = String::from_utf8(run(TABLES, &["--statistics", TABLES]).stdout).unwrap();
    let counted = numbers.lines().find_map(|line| line.strip_prefix("rows  ")).unwrap();
    assert_eq!(counted.trim().parse(), Ok(rows.lines().count()));
}

#[test]
fn rejects_invalid_values_before_sampling() {
    for (words, said) in [
        (&["--frequency", "0"][..], "choose a frequency from 1 to 10000"),
        (&["--frequency", "10001"], "choose a frequency from 1 to 10000"),
        (&["--pid", "4194999"], "there is no process 4194999"),
        (&["--seconds", "0"], "give a number of seconds from 0.001 to 1000000"),
        (&["--seconds", "-3"], "from 0.001"),
        (&["--seconds", "2e6"], "to 1000000"),
        (&["--output", "flame.txt"], "use .html, .svg, .folded, .json, .speedscope.json, .pb.gz or .pb"),
        (&["--output", "/no/such/folder/flame.html"], "mkdir -p /no/such/folder"),
        (&["--output", "/proc/flame.html"], "cannot write /proc/flame.html"),
    ] {
        let sentence = refusal(&run(FLAMEGRAPH, words), 1);
        assert!(sentence.contains(said), "{words:?}: {sentence}");
    }
    for program in [TOP, RECORD, EMBED] {
        let sentence = refusal(&run(program, &["--seconds", "0"]), 1);
        assert_eq!(sentence, "--seconds cannot be 0; give a number of seconds from 0.001 to 1000000");
    }
}

#[test]
fn agent_rejects_invalid_settings() {
    let folder = folder("agent");
    let file = folder.join("file").to_str().unwrap().to_owned();
    fs::write(&file, "no certificate, and no folder").unwrap();
    for (words, said) in [
        (&["--endpoint", "collector:4318"][..], "it does not begin with http:// or https://"),
        (&["--protocol", "carrier-pigeon"], "expected http/protobuf or grpc"),
        (&["--compression", "lzma"], "zstd:1 to zstd:19, or none"),
        (&["--compression", "zstd:99"], "zstd:1 to zstd:19"),
        (&["--header", "no value"], "give a name and a value: NAME=VALUE"),
        (&["--header", "two words=value"], "a name has no spaces"),
        (&["--interval", "0"], "give a number of seconds from 0.1 to 1000000"),
        (&["--queue-mib", "-1"], "give a number of MiB"),
        (&["--spool", &file], "Not a directory"),
        (&["--endpoint", "https://127.0.0.1:1", "--certificate", &file], "it has no PEM certificate"),
        (&["--client-key", &file], "both a client certificate and its key"),
    ] {
        let sentence = refusal(&run(AGENT, words), 1);
        assert!(sentence.contains(said), "{words:?}: {sentence}");
    }
}

#[test]
fn rejects_a_folder_as_output() {
    let folder = folder("taken.html");
    let output = run(FLAMEGRAPH, &["--output", folder.to_str().unwrap()]);
    assert!(refusal(&output, 1).contains("is a folder"));
}

#[test]
fn rejects_files_that_are_no_recordings() {
    let folder = folder("no_recording");
    let (ticks, picture) = (folder.join("run.ticks"), folder.join("run.html"));
    fs::write(&ticks, "not ticks at all, but long enough to hold a head").unwrap();
    let output = run(REPLAY, &[ticks.to_str().unwrap(), "--output", picture.to_str().unwrap()]);
    refusal(&output, 1);
    assert!(!picture.exists(), "a partial file is removed");
}

#[test]
fn rejects_files_that_are_no_core_files() {
    let folder = folder("no_core");
    let text = folder.join("core");
    fs::write(&text, "not a core file at all").unwrap();
    let text = text.to_str().unwrap();
    for program in [CORESTACK, CASE] {
        for (words, said) in [
            (&[][..], "give one core file"),
            (&["/no/such/core"], "/no/such/core: No such file"),
            (&[folder.to_str().unwrap()], "it is a folder"),
            (&[text], "not a core dump: not an ELF file"),
            (&[program], "an ELF file, but not a core dump"),
        ] {
            let sentence = refusal(&run(program, words), 1);
            assert!(sentence.contains(said), "{words:?}: {sentence}");
        }
    }
}

#[test]
fn shows_a_case_that_is_unwound_differently() {
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../ebpf-profiler-unwind/tests/cases/bash.case");
    assert!(run(CASE, &["--check", case]).status.success());
    let other = folder("other_case").join("other.case");
    let text = fs::read_to_string(case).unwrap();
    fs::write(&other, text.replace("frame 5599ed1f6ab9  # wait_for\n", "")).unwrap();
    let output = run(CASE, &["--check", case, other.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("frame 5599ed1f6ab9\n"), "{said}");
    assert!(said.ends_with("error: 1 of 2 cases are unwound wrongly\n"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn top_prints_a_screen_also_in_a_short_run() {
    test_needs::root!();
    let tables = |said: &[u8]| String::from_utf8_lossy(said).matches(" samples in ").count();
    assert_eq!(tables(&run(TOP, &["--seconds", "0.5"]).stdout), 1);
    // A shell's background job ignores SIGINT, and what it runs inherits that.
    let mut interrupted = Command::new("env");
    interrupted.args(["--default-signal=INT", TOP]);
    let interrupted = interrupted.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    run("kill", &["-INT", &interrupted.id().to_string()]);
    let output = interrupted.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tables(&output.stdout), 1);
}

#[test]
#[ignore = "gives up root"]
fn prints_the_command_line_with_the_missing_privilege() {
    test_needs::root!();
    let folder = folder("no privilege");
    let picture = folder.join("flame.html");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
        .arg(FLAMEGRAPH)
        .args(["--seconds", "1", "--output", picture.to_str().unwrap()])
        .output()
        .unwrap();
    let sentence = refusal(&output, 1);
    assert!(sentence.starts_with("cannot load the sampling program: CAP_BPF is missing"), "{sentence}");
    let said = String::from_utf8(output.stderr).unwrap();
    let command = said.lines().find(|line| line.trim_start().starts_with("sudo ")).unwrap();
    assert!(command.ends_with(&format!("--seconds 1 --output '{}'", picture.display())), "{command}");
    assert!(!picture.exists(), "a partial file is removed");
}
