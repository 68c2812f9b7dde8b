use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, fstat, mkfifoat};

use super::place::may_follow;
use super::*;

/// A folder of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("files-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn pipe(&self, name: &str) -> PathBuf {
        mkfifoat(CWD, self.path(name), Mode::from_raw_mode(0o600)).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    replace(path, |out| out.write_all(text.as_bytes()))
}

fn refusal<T>(result: io::Result<T>) -> Refused {
    *Refused::of(&result.map(drop).unwrap_err()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn follows_links_of_this_user_and_of_root_only() {
    let scratch = Scratch::new("links");
    let stat = |mode| {
        fs::set_permissions(&scratch.0, Permissions::from_mode(mode)).unwrap();
        fstat(File::open(&scratch.0).unwrap()).unwrap()
    };
    let (alone, shared) = (stat(0o755), stat(0o1777));
    let (owner, user, other) = (alone.st_uid, alone.st_uid.wrapping_add(1), alone.st_uid.wrapping_add(2));
    for folder in [&alone, &shared] {
        for is_last in [false, true] {
            assert!(may_follow(user, user, folder, is_last) && may_follow(0, user, folder, is_last));
            assert!(!may_follow(other, user, folder, is_last));
        }
    }
    assert!(may_follow(owner, user, &alone, false), "who owns the folder decides where it leads");
    assert_eq!(may_follow(owner, user, &alone, true), owner == 0);
    assert_eq!(may_follow(owner, user, &shared, false), owner == 0);
}

#[test]
fn resolves_links_wherever_they_stand() {
    let scratch = Scratch::new("resolve");
    fs::create_dir_all(scratch.path("a/b")).unwrap();
    symlink(scratch.path("a"), scratch.path("absolute")).unwrap();
    symlink("a/b/..", scratch.path("relative")).unwrap();
    symlink("../there", scratch.path("a/link")).unwrap();
    for path in ["absolute/b/x", "relative/b/x", "a/../a/./b/x", "absolute/../relative/b/x"] {
        write(&scratch.path(path), path).unwrap();
        assert_eq!(fs::read_to_string(scratch.path("a/b/x")).unwrap(), path);
    }
    write(&scratch.path("relative/link"), "last").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("there")).unwrap(), "last");
    assert_eq!(scratch.names(), ["a", "absolute", "relative", "there"]);
    symlink("loop", scratch.path("loop")).unwrap();
    assert!(write(&scratch.path("loop"), "").unwrap_err().to_string().contains("symbolic links"));
    let missing = write(&scratch.path("missing/x"), "").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(write(&scratch.path("there/x"), "").unwrap_err().kind(), ErrorKind::NotADirectory);
}

#[test]
fn refuses_what_is_no_file() {
    let scratch = Scratch::new("kinds");
    let _socket = UnixListener::bind(scratch.path("socket")).unwrap();
    let pipe = scratch.pipe("pipe");
    assert_eq!(refusal(write(&scratch.path("socket"), "")), Refused::Kind("socket"));
    for folder in [scratch.0.as_path(), Path::new("/"), Path::new("."), Path::new("..")] {
        assert_eq!(refusal(write(folder, "")), Refused::Kind("folder"));
    }
    assert_eq!(refusal(write(&pipe, "")), Refused::NoReader);
    assert_eq!(refusal(check(&pipe)), Refused::NoReader);
    assert_eq!(refusal(create_private(&pipe)), Refused::NoReader);
    assert_eq!(refusal(open(&pipe)), Refused::Kind("pipe"));
    assert_eq!(refusal(open(Path::new("/dev/zero"))), Refused::Kind("character device"));
    assert_eq!(scratch.names(), ["pipe", "socket"]);
}

#[test]
fn writes_to_devices_and_to_what_the_process_has_open() {
    write(Path::new("/dev/null"), "nothing").unwrap();
    let full = write(Path::new("/dev/full"), "too much").unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let (mut reader, writer) = io::pipe().unwrap();
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    create_private(Path::new(&path)).unwrap().write_all(b"piped").unwrap();
    drop(writer);
    assert_eq!(io::read_to_string(&mut reader).unwrap(), "piped");
}

#[test]
fn a_failed_write_changes_nothing() {
    let scratch = Scratch::new("failed");
    let path = scratch.path("x");
    write(&path, "old").unwrap();
    let failed = replace(&path, |out| {
        out.write_all(&[0; 100_000])?;
        Err(ErrorKind::StorageFull.into())
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(check(&path).unwrap().is_none());
    assert_eq!((scratch.names(), fs::read(&path).unwrap()), (vec!["x".to_owned()], b"old".to_vec()));
}

#[test]
fn private_files_are_private_from_the_beginning() {
    let scratch = Scratch::new("private");
    let path = scratch.path("x");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let old = File::open(&path).unwrap();
    let mut new = create_private(&path).unwrap();
    assert_eq!((mode(&path), fs::read(&path).unwrap().len()), (0o600, 0));
    new.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(io::read_to_string(old).unwrap(), "old", "the old file is not written through");
    assert_eq!(scratch.names(), ["x"]);
}

#[test]
fn reads_no_more_than_the_limit() {
    let scratch = Scratch::new("limit");
    fs::write(scratch.path("x"), "12345").unwrap();
    assert_eq!(read(&scratch.path("x"), 5).unwrap(), b"12345");
    assert_eq!(refusal(read(&scratch.path("x"), 4)), Refused::TooLarge { limit: 4 });
}

#[test]
fn a_folder_holds_own_regular_files_only() {
    let scratch = Scratch::new("folder");
    let path = scratch.path("spool/deep");
    let folder = Folder::private(&path).unwrap();
    assert_eq!([mode(&scratch.path("spool")), mode(&path)], [0o700; 2]);
    folder.write("x".as_ref(), b"message").unwrap();
    assert_eq!((folder.read("x".as_ref(), 7).unwrap(), mode(&path.join("x"))), (b"message".to_vec(), 0o600));
    assert_eq!(refusal(folder.read("x".as_ref(), 6)), Refused::TooLarge { limit: 6 });

    fs::write(scratch.path("outside"), "secret").unwrap();
    symlink(scratch.path("outside"), path.join("link")).unwrap();
    fs::hard_link(scratch.path("outside"), path.join("hard")).unwrap();
    mkfifoat(CWD, path.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let refused = ["link", "hard", "pipe"].map(|name| refusal(folder.read(name.as_ref(), 100)));
    assert_eq!(refused, [Refused::Kind("symbolic link"), Refused::HardLinks, Refused::Kind("pipe")]);
    folder.write("link".as_ref(), b"message").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("outside")).unwrap(), "secret");
    assert!(!path.join("link").is_symlink(), "a link is replaced, not followed");

    fs::write(path.join(".profile.0123456789abcdef.part"), "").unwrap();
    let mut names: Vec<_> = folder.names().unwrap().map(Result::unwrap).collect();
    names.sort();
    assert_eq!(names, [".profile.0123456789abcdef.part", "hard", "link", "pipe", "x"]);
    assert!(Folder::is_leftover(&names[0]) && !Folder::is_leftover(&names[4]));
    folder.remove("x".as_ref()).unwrap();
    assert_eq!(folder.size("x".as_ref()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn refuses_a_folder_that_others_can_write() {
    let scratch = Scratch::new("writable");
    for (mode, is_allowed) in [(0o777, false), (0o1777, false), (0o770, false), (0o755, true)] {
        fs::set_permissions(&scratch.0, Permissions::from_mode(mode)).unwrap();
        assert_eq!(Folder::private(&scratch.0).is_ok(), is_allowed, "{mode:o}");
    }
}
