//! Errors of the exporter.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ebpf_profiler_core::internal::files::Refused;

/// An error when an exporter starts, takes a profile or is flushed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The endpoint is no usable URL.
    #[non_exhaustive]
    Endpoint {
        /// The configured endpoint.
        url: String,
        /// The part that is wrong.
        why: &'static str,
    },
    /// An environment variable has an invalid or unsupported value.
    #[non_exhaustive]
    Variable {
        /// The name of the variable.
        name: String,
        /// Its value.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A header has an invalid name or value.
    #[non_exhaustive]
    Header {
        /// The name of the header.
        name: String,
    },
    /// A certificate or key file for TLS is unusable.
    #[non_exhaustive]
    Certificate {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The [spool](crate::Settings::spool) directory is unusable.
    #[non_exhaustive]
    Spool {
        /// The path of the directory.
        path: PathBuf,
        /// The failed operation's error.
        source: io::Error,
    },
    /// The exporter's thread could not be started.
    #[non_exhaustive]
    Thread {
        /// The operating system's error.
        source: io::Error,
    },
    /// The exporter's thread panicked; its messages in memory are dropped.
    Panicked,
    /// Messages of a profile were dropped because the queue is full or they are too large.
    #[non_exhaustive]
    NotTaken {
        /// The number of dropped messages.
        lost: u64,
        /// The exporter's last error; empty if there was none.
        last_error: String,
    },
    /// Messages were dropped because the [flush timeout](crate::Settings::flush_timeout) passed.
    #[non_exhaustive]
    NotFlushed {
        /// The number of dropped messages.
        left: u64,
        /// The exporter's last error; empty if there was none.
        last_error: String,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Endpoint { url, why } => {
                write!(f, "cannot export to {url}: {why}; expected http[s]://HOST[:PORT][/PATH]")
            }
            ExportError::Variable { name, value, expected } => {
                write!(f, "cannot use {name}={value}; expected {expected}")
            }
            ExportError::Header { name } => {
                write!(f, "cannot send the header {name:?}; a name has no spaces, a value has one line")
            }
            ExportError::Certificate { path, why } => {
                write!(f, "cannot use certificates of {}: {why}", path.display())
            }
            ExportError::Spool { path, source } => {
                write!(f, "cannot use the spool directory {}: {source}", path.display())?;
                Refused::of(source).map_or(Ok(()), |refused| write!(f, "; {}", refused.remedy()))
            }
            ExportError::Thread { source } => write!(f, "cannot start the exporter's thread: {source}"),
            ExportError::Panicked => f.write_str("the exporter's thread has panicked"),
            ExportError::NotTaken { lost, last_error } => {
                write!(f, "{lost} messages dropped: the queue is full or they are too large")?;
                write_last(last_error, f)
            }
            ExportError::NotFlushed { left, last_error } => {
                write!(f, "{left} messages dropped at the end: the flush timeout has passed")?;
                write_last(last_error, f)
            }
        }
    }
}

fn write_last(error: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if error.is_empty() { Ok(()) } else { write!(f, "; last error: {error}") }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportError::Spool { source, .. } | ExportError::Thread { source } => Some(source),
            _ => None,
        }
    }
}
