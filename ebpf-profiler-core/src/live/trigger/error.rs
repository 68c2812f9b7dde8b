//! Reasons for which a trigger cannot be attached.

use std::fmt;
use std::io;

/// The reason for which a [`Trigger`](super::Trigger) cannot be attached, in
/// [`StartError::Trigger`](crate::live::StartError::Trigger).
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::live::{AttachError, Profiler, StartError, Uprobe};
///
/// let queries = Uprobe::entry("/usr/lib/postgresql/bin/postgres", "exec_simple_query");
/// let builder = Profiler::builder().on(queries).unwind(ebpf_profiler_unwind::tables());
/// match builder.start() {
///     Err(StartError::Trigger { error: AttachError::NotFound { .. }, .. }) => println!("no server here"),
///     started => drop(started?),
/// }
/// # Ok::<(), StartError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// A file, function, probe, tracepoint or field does not exist.
    NotFound {
        /// The missing thing, and where it was searched.
        what: String,
    },
    /// The trigger cannot be used as it is: a pattern, an argument or a value is wrong.
    Invalid {
        /// The fault.
        what: String,
    },
    /// A pattern has more matches than are possible.
    TooMany {
        /// The sort of matches: functions, files, places.
        what: &'static str,
        /// Number of matches.
        count: usize,
        /// Maximum number.
        limit: usize,
    },
    /// The kernel or the machine lacks what the trigger needs.
    Unsupported {
        /// The missing feature.
        what: String,
    },
    /// A system call failed: the kernel does not attach the program, or a file cannot be read.
    System {
        /// The operation, without the error.
        what: String,
        /// Error of the system.
        error: io::Error,
    },
}

impl AttachError {
    pub(super) fn not_found(what: impl Into<String>) -> AttachError {
        AttachError::NotFound { what: what.into() }
    }

    pub(super) fn invalid(what: impl Into<String>) -> AttachError {
        AttachError::Invalid { what: what.into() }
    }

    pub(super) fn unsupported(what: impl Into<String>) -> AttachError {
        AttachError::Unsupported { what: what.into() }
    }

    pub(super) fn unreadable(what: impl fmt::Display, error: io::Error) -> AttachError {
        AttachError::System { what: format!("{what} cannot be read"), error }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotFound { what }
            | AttachError::Invalid { what }
            | AttachError::Unsupported { what } => f.write_str(what),
            AttachError::TooMany { what, count, limit } => {
                write!(f, "{count} {what} match, and at most {limit} are possible; choose a narrower pattern")
            }
            AttachError::System { what, error } if what.is_empty() => error.fmt(f),
            AttachError::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AttachError::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The kernel does not attach a program.
impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::System { what: String::new(), error }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::super::{Event, OffCpu, Trigger, Uprobe};
    use super::*;
    use crate::live::StartError;

    fn places(file: &str, function: &str) -> AttachError {
        Uprobe::entry(file, function).places().unwrap_err()
    }

    #[test]
    fn reasons_can_be_told_apart() {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        assert!(matches!(places(own, "no_such_function"), AttachError::NotFound { .. }));
        assert!(matches!(places(own, "[ab"), AttachError::Invalid { .. }));
        assert!(matches!(places("no-such-library.so", "main"), AttachError::NotFound { .. }));
        assert!(matches!(places("/no/such/file", "main"), AttachError::System { .. }));
        let many = places(own, "*");
        assert!(matches!(many, AttachError::TooMany { limit: 256, .. }), "{many}");
        let waits = Trigger::from(OffCpu::longer_than(std::time::Duration::ZERO).probability(2.0));
        let Event::OffCpu(waits) = waits.event else { panic!() };
        assert!(matches!(
            waits.settings(0).unwrap_err(),
            AttachError::Invalid { .. } | AttachError::Unsupported { .. }
        ));
    }

    #[test]
    fn errors_of_the_system_are_sources() {
        let error = places("/no/such/file", "main");
        assert_eq!(
            error.source().unwrap().downcast_ref::<io::Error>().unwrap().kind(),
            io::ErrorKind::NotFound
        );
        let trigger = Box::new(Trigger::from(Uprobe::entry("/no/such/file", "main")));
        let error = StartError::Trigger { trigger, error };
        assert!(error.source().unwrap().is::<io::Error>());
        let text = error.to_string();
        assert!(
            text.starts_with("cannot sample on uprobe:/no/such/file:main: /no/such/file cannot"),
            "{text}"
        );
    }
}
