//! Outputs that are links, pipes and files of other users.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::Duration;

use crate::scratch::{Process, Scratch, error, give_to_nobody, run};
use live_suite::paths::example;

#[test]
#[ignore = "needs root"]
fn refuses_a_link_of_another_user() {
    test_needs::root!();
    let scratch = Scratch::new("link");
    let secret = scratch.path("root.html");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let link = scratch.link_of_nobody(&secret, "link.html");
    scratch.link_of_nobody(&scratch.path(""), "folder");
    for (program, output) in
        [("flamegraph", &link), ("record", &link), ("flamegraph", &scratch.path("folder/root.html"))]
    {
        let message = error(&run(program, &["--seconds", "0.2", "--output", output]));
        assert!(message.contains("symbolic link of user 65534; remove the link"), "{message}");
    }
    let metadata = fs::metadata(&secret).unwrap();
    assert_eq!((fs::read(&secret).unwrap(), metadata.mode() & 0o777), (b"secret".to_vec(), 0o600));
    assert_eq!(scratch.names(), ["folder", "link.html", "root.html"]);
}

#[test]
#[ignore = "needs root"]
fn refuses_files_of_another_user_in_a_sticky_folder() {
    test_needs::root!();
    let scratch = Scratch::new("foreign");
    let file = scratch.path("x.html");
    fs::write(&file, "theirs").unwrap();
    let pipe = scratch.pipe("pipe.html");
    [&file, &pipe].into_iter().for_each(|path| give_to_nobody(path));
    for (program, output) in
        [("flamegraph", &file), ("record", &file), ("flamegraph", &pipe), ("record", &pipe)]
    {
        let message = error(&run(program, &["--seconds", "0.2", "--output", output]));
        assert!(message.contains("file of user 65534; choose another name"), "{message}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
}

#[test]
#[ignore = "needs root"]
fn a_replaced_file_keeps_its_mode() {
    test_needs::root!();
    let scratch = Scratch::new("mode");
    let file = scratch.path("x.html");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let output = run("flamegraph", &["--seconds", "0.2", "--output", &file]);
    assert!(output.status.success(), "{output:?}");
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o640);
    assert!(metadata.len() > 1000);
}

#[test]
#[ignore = "needs root"]
fn refuses_a_pipe_without_reader() {
    test_needs::root!();
    let scratch = Scratch::new("pipe");
    let pipe = scratch.pipe("x.html");
    for program in ["flamegraph", "record"] {
        let message = error(&run(program, &["--seconds", "0.2", "--output", &pipe]));
        assert!(message.ends_with("pipe without a reader; start the reader first"), "{message}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_reader_that_stalls_does_not_keep_a_signal_from_ending_the_program() {
    test_needs::root!();
    let scratch = Scratch::new("stalled");
    let pipe = scratch.pipe("x.html");
    // Opened for both directions, a pipe has a reader, which never reads. It is full from the
    // beginning.
    let mut options = fs::File::options();
    let mut reader = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    for size in [4096, 1] {
        while reader.write(&[0; 4096][..size]).is_ok() {}
    }
    for signal in [None, Some("TERM")] {
        let arguments = ["--seconds", "0.5", "--output", &pipe];
        let program = Process::start(Command::new(example("flamegraph")).args(arguments));
        if let Some(signal) = signal {
            std::thread::sleep(Duration::from_secs(3));
            program.signal(signal);
        }
        let message = error(&program.output());
        let is_expected =
            message.contains("the reader took no byte for 10 s") || message.contains("not finished");
        assert!(is_expected, "{message}");
    }
}
