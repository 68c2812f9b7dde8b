//! Tracepoints, and values of their fields.

use std::fs;
use std::path::Path;

use ebpf_programs::abi::cookie;

use super::error::AttachError;
use crate::profile::{SampleKind, Unit};

/// A trigger at a tracepoint of the kernel, by group and name. Needs tracefs at
/// `/sys/kernel/tracing`.
///
/// The value of a sample is 1, or that of an integer [`field`](Tracepoint::field) of the event.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::{Tracepoint, Trigger};
///
/// let trigger: Trigger = Tracepoint::new("kmem", "mm_page_alloc").field("order").into();
/// assert_eq!(trigger.to_string(), "tracepoint:kmem:mm_page_alloc:order");
/// ```
#[doc(alias = "tracefs")]
#[derive(Clone, Debug, PartialEq)]
pub struct Tracepoint {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) field: Option<String>,
    /// Name and unit of its kind of samples, and the factor of the field's value; by default its
    /// text and a count.
    pub(super) named: Option<(&'static str, Unit, u32)>,
}

impl Tracepoint {
    /// Returns the trigger of a tracepoint, with a count of events.
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> Tracepoint {
        Tracepoint { group: group.into(), name: name.into(), field: None, named: None }
    }

    /// Takes a field of the event, an integer, as the value of a sample. Events in which it is 0
    /// are no samples.
    #[must_use = "returns the changed trigger"]
    pub fn field(self, name: impl Into<String>) -> Tracepoint {
        Tracepoint { field: Some(name.into()), ..self }
    }

    /// Returns the trigger of reads and writes of disks by bytes, with the stack that issued them.
    ///
    /// Writes through the page cache are issued later by threads of the kernel.
    pub fn block_io() -> Tracepoint {
        let issued = Tracepoint::new("block", "block_bio_queue").field("nr_sector");
        Tracepoint { named: Some(("block-io", Unit::Bytes, 512)), ..issued }
    }

    pub(super) fn kind(&self) -> SampleKind {
        match self.named {
            Some((name, unit, _)) => SampleKind::new(name, unit),
            None => SampleKind::new(super::Trigger::from(self.clone()).to_string(), Unit::Count),
        }
    }

    /// Returns the number of the tracepoint, and the cookie without the number of its kind of
    /// samples.
    pub(super) fn location(&self) -> Result<(u64, u64), AttachError> {
        let Tracepoint { group, name, field, named } = self;
        let factor = u64::from(named.map_or(1, |(.., factor)| factor)) << cookie::VALUE_SHIFT;
        let id = id(group, name)?;
        let Some(field) = field else { return Ok((id, factor)) };
        let format = read(group, name, "format")?.unwrap_or_default();
        let (offset, size) = place(&format, field).ok_or_else(|| {
            AttachError::not_found(format!(
                "it has no integer {field}; list its fields: cat {}",
                path(group, name, "format")
            ))
        })?;
        Ok((
            id,
            factor
                | cookie::FIELD
                | u64::from(size.trailing_zeros()) << cookie::SIZE_SHIFT
                | u64::from(offset) << cookie::OFFSET_SHIFT,
        ))
    }
}

/// Returns the number of a tracepoint.
pub(super) fn id(group: &str, name: &str) -> Result<u64, AttachError> {
    let id = read(group, name, "id")?.and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| {
        AttachError::not_found(format!(
            "there is no tracepoint; list those of this kernel: ls {}",
            path("", "", "")
        ))
    })
}

const FOLDERS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// Returns the folder of tracepoints.
pub(super) fn folder() -> Result<&'static Path, AttachError> {
    FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir()).ok_or_else(|| {
        AttachError::unsupported(
            "tracefs is not mounted; mount it: mount -t tracefs tracefs /sys/kernel/tracing",
        )
    })
}

/// Returns the path of a file of a tracepoint, for messages.
fn path(group: &str, name: &str, file: &str) -> String {
    let parts = [group, name, file].into_iter().filter(|part| !part.is_empty());
    parts
        .fold(folder().unwrap_or(Path::new(FOLDERS[0])).to_owned(), |path, part| path.join(part))
        .display()
        .to_string()
}

/// Reads a file of a tracepoint; `None` if it cannot be read.
fn read(group: &str, name: &str, file: &str) -> Result<Option<String>, AttachError> {
    Ok(fs::read_to_string(folder()?.join(group).join(name).join(file)).ok())
}

/// Returns the offset and size of an integer field in bytes, from the description of an event:
///
/// ```text
///   field:unsigned int nr_sector;   offset:24;   size:4;   signed:0;
/// ```
fn place(format: &str, name: &str) -> Option<(u16, u8)> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        // The others refer to text or arrays in the rest of the event.
        let (kind, declared) = declared.rsplit_once(' ')?;
        if declared != name || kind.starts_with("__data_loc") || kind.starts_with("__rel_loc") {
            return None;
        }
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size: u8 = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        let is_valid = matches!(size, 1 | 2 | 4 | 8) && u64::from(offset) <= cookie::OFFSET;
        is_valid.then_some((offset, size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_the_description_of_an_event() {
        let format = "name: block_bio_queue\nID: 2111\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
            \tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n\n\
            print fmt: \"%d\", REC->nr_sector\n";
        assert_eq!(place(format, "nr_sector"), Some((24, 4)));
        assert_eq!(place(format, "sector"), Some((16, 8)));
        for name in ["rwbs", "rwbs[10]", "int", "none", ""] {
            assert_eq!(place(format, name), None, "{name}");
        }
    }

    #[test]
    fn fields_that_other_kernels_place_elsewhere_are_found_or_missing() {
        for (line, expected) in [
            ("field:sector_t nr_sector; offset:8; size:8; signed:0;", Some((8, 8))),
            ("field:unsigned int nr_sector;\toffset:8191;\tsize:4;\tsigned:0;", Some((8191, 4))),
            ("field:unsigned int nr_sector; offset:8192; size:4; signed:0;", None),
            ("field:unsigned int nr_sector; offset:-8; size:4;", None),
            ("field:unsigned int nr_sector; offset:8; size:3;", None),
            ("field:unsigned int nr_sector; offset:99999999999; size:4;", None),
            ("field:__data_loc char[] nr_sector; offset:8; size:4; signed:0;", None),
            ("field:unsigned int nr_sector; size:4; offset:8;", None),
            ("field:unsigned int nr_sector;", None),
            ("field:nr_sector; offset:8; size:4;", None),
            ("field:", None),
            ("", None),
        ] {
            assert_eq!(place(line, "nr_sector"), expected, "{line}");
        }
    }
}
