//! The process.

use crate::bytes::Bytes;

/// What a dump says of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its id in the namespace that the dump was written in; 0 where that isn't known.
    pub id: u32,
    /// The first 15 bytes of its executable's name.
    pub name: Box<str>,
}

impl Process {
    /// Reads a `prpsinfo`:
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
