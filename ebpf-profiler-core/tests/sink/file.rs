//! Files.

use std::error::Error as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use ebpf_profiler_core::profile::{ProfileBuilder, SampleKind};
use ebpf_profiler_core::sink::{File, Format, Sink, WriteError};
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::testing;

/// A fresh folder for a test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sink-file").join(name);
    // It may be there from an earlier run.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target folder is writable");
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_ending_decides() {
    let folder = folder("endings");
    let profile = testing::profile("cat;main 3");
    for (name, begins) in [
        ("x.html", "<!doctype html>"),
        ("x.SVG", "<svg "),
        ("x.folded", "cat;main 3\n"),
        ("x.json", "{\"meta\":{\"product\":\"cat\""),
        ("x.Speedscope.json", "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\""),
    ] {
        profile.write(folder.join(name)).expect("it is writable");
        let text = fs::read_to_string(folder.join(name)).expect("it is there");
        assert!(text.starts_with(begins), "{name}: {text:.60}");
    }
    assert_eq!(names(&folder), ["x.SVG", "x.Speedscope.json", "x.folded", "x.html", "x.json"]);
}

#[test]
fn one_page_has_all_kinds_of_samples() {
    let folder = folder("kinds");
    let kinds = [SampleKind::cpu(Duration::ZERO), SampleKind::off_cpu()];
    let builder = ProfileBuilder::of_kinds(kinds);
    let profile = builder.finish(UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
    for name in ["x.html", "x.svg", "x.folded", "x.json", "x.speedscope.json"] {
        profile.write(folder.join(name)).expect("the folder is writable");
    }
    let kinds = ["x.cpu.folded", "x.cpu.svg", "x.html", "x.json", "x.off-cpu.folded", "x.off-cpu.svg"];
    assert_eq!(names(&folder), [&kinds[..], &["x.speedscope.json"]].concat());
}

#[test]
fn what_a_link_leads_to_is_replaced_and_the_link_stays() {
    let folder = folder("links");
    fs::write(folder.join("there.folded"), "old").expect("it is writable");
    std::os::unix::fs::symlink("there.folded", folder.join("link.folded")).expect("it is writable");
    testing::profile("cat;main 3").write(folder.join("link.folded")).expect("it is writable");
    assert_eq!(fs::read_to_string(folder.join("there.folded")).expect("it is there"), "cat;main 3\n");
    assert_eq!(names(&folder), ["link.folded", "there.folded"]);
}

fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe.folded");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is installed").success());
    path
}

#[test]
fn writes_to_a_pipe_that_is_read() {
    let folder = folder("pipe");
    let path = pipe(&folder);
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).expect("the pipe is readable")
    });
    // Fails until the reader has opened the pipe.
    let mut sink = std::iter::repeat_with(|| File::new(&path)).find_map(Result::ok).expect("endless");
    sink.take(&testing::profile("cat;main 3")).expect("the pipe has a reader");
    assert_eq!(reader.join().expect("the reader ends"), "cat;main 3\n");
    assert_eq!(names(&folder), ["pipe.folded"]);
}

#[test]
fn refuses_a_pipe_without_reader() {
    let path = pipe(&folder("unread_pipe"));
    for error in
        [File::new(&path).map(drop), testing::profile("cat;main 3").write(&path)].map(Result::unwrap_err)
    {
        let expected =
            format!("cannot write {}: pipe without a reader; start the reader first", path.display());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn keeps_the_mode_of_a_replaced_file() {
    let path = folder("mode").join("x.folded");
    for mode in [0o600, 0o640, 0o666] {
        fs::write(&path, "old").expect("the folder is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        testing::profile("cat;main 3").write(&path).expect("the folder is writable");
        let metadata = fs::metadata(&path).expect("the file exists");
        assert_eq!((metadata.mode() & 0o7777, metadata.len()), (mode, 11));
    }
}

#[test]
fn a_name_may_be_as_long_as_a_name_can_be() {
    let folder = folder("long");
    let name = format!("{}.folded", "n".repeat(255 - 7));
    testing::profile("cat;main 3").write(folder.join(&name)).expect("it is writable");
    assert_eq!(names(&folder), [name]);
}

#[test]
fn an_unknown_ending_names_the_known_ones() {
    register();
    let profile = testing::profile("cat;main 3");
    for path in ["x.png", "x", "x.pb.gz", ".html", ""] {
        let error = profile.write(path).expect_err("it names no format");
        let expected = format!(
            "the ending of {path} names no format; use .html, .svg, .folded, .json, .speedscope.json or .registered"
        );
        assert_eq!(error.to_string(), expected);
        assert!(File::new(path).is_err());
    }
}

/// Registers a format, once more if it is registered.
fn register() {
    Format::new("registered", "a word", |_, out| out.write_all(b"word")).register();
}

#[test]
fn a_registered_format_is_written_by_its_ending() {
    let folder = folder("registered");
    let profile = testing::profile("cat;main 3");
    register();
    register();
    profile.write(folder.join("x.registered")).expect("the folder is writable");
    assert_eq!(fs::read_to_string(folder.join("x.registered")).expect("it is there"), "word");
    let endings: Vec<&str> = Format::all().iter().map(|format| format.ending()).collect();
    assert_eq!(endings, ["html", "svg", "folded", "json", "speedscope.json", "registered"]);
}

#[test]
fn a_part_of_a_name_is_before_the_whole_ending() {
    let folder = folder("parts");
    let mut all = File::numbered(folder.join("all.Speedscope.json")).expect("its ending is known");
    all.take(&testing::profile("cat;main 3")).expect("it is writable");
    assert_eq!(names(&folder), ["all-0001.Speedscope.json"]);
}

#[test]
fn an_error_names_the_path_and_the_remedy() {
    let folder = folder("errors");
    let profile = testing::profile("cat;main 3");
    let path = folder.join("missing/x.svg");
    let error = profile.write(&path).expect_err("its folder is missing");
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot write {}: ", path.display())), "{text}");
    assert!(text.ends_with("; make its folder first, or choose another one"), "{text}");
    assert!(error.source().is_some());
    fs::create_dir(folder.join("dir.svg")).expect("the folder is writable");
    let error = profile.write(folder.join("dir.svg")).expect_err("it is a folder");
    assert!(matches!(error, WriteError::Io { .. }));
    // The sink finds out before there is a profile to lose.
    for name in ["missing/x.svg", "dir.svg"] {
        assert!(matches!(File::new(folder.join(name)), Err(WriteError::Io { .. })));
    }
    // Nothing half-written stays.
    assert_eq!(names(&folder), ["dir.svg"]);
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = folder("replaced");
    let path = folder.join("x.folded");
    fs::write(&path, "what was there before, and longer than what comes").expect("the folder is writable");
    testing::profile("cat;main 3").write(&path).expect("it is writable");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "cat;main 3\n");
    assert_eq!(names(&folder), ["x.folded"]);
}

#[test]
fn the_sink_keeps_the_latest_or_all() {
    let folder = folder("sink");
    let mut latest = File::new(folder.join("latest.folded")).expect("its ending is known");
    let mut all = File::numbered(folder.join("all.folded")).expect("its ending is known");
    for count in 1..=2 {
        let profile = testing::profile(&format!("cat;main {count}"));
        latest.take(&profile).expect("it is writable");
        all.take(&profile).expect("it is writable");
    }
    assert_eq!(names(&folder), ["all-0001.folded", "all-0002.folded", "latest.folded"]);
    let read = |name| fs::read_to_string(folder.join(name)).expect("it is there");
    assert_eq!([read("all-0001.folded"), read("latest.folded")], ["cat;main 1\n", "cat;main 2\n"]);
}
