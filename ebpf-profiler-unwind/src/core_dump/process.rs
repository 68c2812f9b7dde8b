//! The process.

use crate::bytes::Bytes;

/// The process of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Id in the pid namespace of the dump; 0 if unknown.
    pub id: u32,
    /// The first 15 bytes of the executable's name.
    pub name: Box<str>,
}

impl Process {
    /// Parses a `prpsinfo`:
    ///
    /// ```text
    ///     0  state, flags          16 bytes
    ///    16  user, group           u32 each
    ///    24  id                    u32
    ///    28  parent, group, session
    ///    40  name                  16 bytes, to the first zero
    /// ```
    pub(super) fn parse(description: &[u8]) -> Option<Process> {
        let id = Bytes::at(description, 24)?.u32()?;
        let name = Bytes::at(description, 40)?.take(16)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Some(Process { id, name: String::from_utf8_lossy(name).into() })
    }
}
