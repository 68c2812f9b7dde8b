//! Reasons why a file is not opened.

use std::error::Error;
use std::fmt;
use std::io;

use rustix::fs::FileType;

/// A rule of this module that forbids to open a file. It is the source of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A symbolic link of another user.
    Link {
        /// User id of the link's owner.
        owner: u32,
    },
    /// A file of another user.
    Owner {
        /// User id of the file's owner.
        owner: u32,
    },
    /// Neither a regular file nor a stream.
    Kind(&'static str),
    /// A pipe without a reader.
    NoReader,
    /// A stream that accepted no byte for 10 seconds.
    Stalled,
    /// A folder that other users can write.
    Writable,
    /// A file that has further names, which may stand in folders of other users.
    HardLinks,
    /// A file that exceeds a limit.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A file that was replaced while it was opened.
    Replaced,
}

impl Refused {
    /// Returns the reason for a file that is not a regular file.
    pub(super) fn kind(kind: FileType) -> Refused {
        Refused::Kind(match kind {
            FileType::Directory => "folder",
            FileType::Fifo => "pipe",
            FileType::Socket => "socket",
            FileType::BlockDevice => "block device",
            FileType::CharacterDevice => "character device",
            FileType::Symlink => "symbolic link",
            _ => "special file",
        })
    }

    /// Returns the refusal in an error of [`replace`](super::replace) or one of its kin.
    pub fn of(error: &io::Error) -> Option<&Refused> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns the advice for the user: an imperative without a full stop.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refused::Link { .. } => "remove the link, or give the path that it leads to",
            Refused::Owner { .. } => "choose another name, or a folder of your own",
            Refused::Kind("folder") => "choose another name",
            Refused::Kind(_) => "give a regular file",
            Refused::NoReader => "start the reader first",
            Refused::Stalled => "use a reader that keeps up, or a regular file",
            Refused::Writable => "take the permission from others: chmod go-w",
            Refused::HardLinks => "remove its other names",
            Refused::TooLarge { .. } => "remove it",
            Refused::Replaced => "try again",
        }
    }

    fn error_kind(self) -> io::ErrorKind {
        match self {
            Refused::Kind("folder") => io::ErrorKind::IsADirectory,
            Refused::NoReader => io::ErrorKind::BrokenPipe,
            Refused::Stalled => io::ErrorKind::TimedOut,
            Refused::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::InvalidInput,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Link { owner } => write!(f, "symbolic link of user {owner}"),
            Refused::Owner { owner } => write!(f, "file of user {owner}"),
            Refused::Kind("folder") => f.write_str("it is a folder"),
            Refused::Kind(kind) => write!(f, "not a regular file but a {kind}"),
            Refused::NoReader => f.write_str("pipe without a reader"),
            Refused::Stalled => f.write_str("the reader took no byte for 10 s"),
            Refused::Writable => f.write_str("folder that other users can write"),
            Refused::HardLinks => f.write_str("file with several names"),
            Refused::TooLarge { limit } => write!(f, "larger than {limit} bytes"),
            Refused::Replaced => f.write_str("replaced while it was opened"),
        }
    }
}

impl Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::new(refused.error_kind(), refused)
    }
}
