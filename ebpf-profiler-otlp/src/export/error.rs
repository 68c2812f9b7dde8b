//! What can go wrong on the way to a collector.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an exporter can't begin, or what it lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// The endpoint isn't a URL that can be used.
    Endpoint {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A variable of the environment has a value that isn't understood or not supported.
    Variable {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// What would be understood.
        wanted: &'static str,
    },
    /// A header has a name or value that can't be sent.
    Header {
        /// Its name.
        name: String,
    },
    /// A file of TLS can't be used: whom to trust, our certificate, or its key.
    Certificate {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The directory for messages that wait can't be used.
    Spool {
        /// Where it is.
        path: PathBuf,
        /// What went wrong.
        kind: io::ErrorKind,
    },
    /// The thread of the exporter couldn't be started, or broke.
    Thread(io::ErrorKind),
    /// Messages of a profile found no room in the queue, or are too large to be sent.
    NotTaken {
        /// How many.
        lost: u64,
        /// What went wrong last.
        why: String,
    },
    /// Messages were left when the time for flushing was over.
    NotFlushed {
        /// How many.
        left: u64,
        /// What went wrong last.
        why: String,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Endpoint { url, why } => {
                write!(f, "cannot export to {url}: {why}; wanted: http[s]://HOST[:PORT][/PATH]")
            }
            ExportError::Variable { name, value, wanted } => {
                write!(f, "cannot use {name}={value}; wanted: {wanted}")
            }
            ExportError::Header { name } => {
                write!(f, "cannot send the header {name:?}: a name has no spaces, a value only one line")
            }
            ExportError::Certificate { path, why } => {
                write!(f, "cannot use certificates of {}: {why}", path.display())
            }
            ExportError::Spool { path, kind } => {
                write!(
                    f,
                    "cannot keep messages in {}: {kind}; wanted: a directory to write to",
                    path.display()
                )
            }
            ExportError::Thread(kind) => write!(f, "the thread of the exporter is not there: {kind}"),
            ExportError::NotTaken { lost, why } => {
                write!(f, "{lost} messages dropped, the queue is full or they are too large; last: {why}")
            }
            ExportError::NotFlushed { left, why } => {
                write!(f, "{left} messages dropped at the end, the time to flush was over; last: {why}")
            }
        }
    }
}

impl std::error::Error for ExportError {}
