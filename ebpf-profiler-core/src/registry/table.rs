//! The state of the unwind table of a file, and its place in the arena.

use ebpf_programs::abi::mapping::kind;

/// The state of the unwind table of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Not built, because no walk needed it.
    Pending,
    /// In the arena.
    Ready { place: u32, bytes: usize },
    /// The file could not be opened or read. Its code is walked without a table until it is tried again, at `retry` or later.
    Failed { retry: u64 },
    /// The file has no table, and none will be built.
    None,
}

impl Table {
    /// Returns the place and the kind in a mapping of the kernel side.
    pub(super) fn words(self) -> (u32, u16) {
        match self {
            Table::Pending => (0, kind::PENDING),
            Table::Ready { place, .. } => (place, kind::TABLE),
            Table::Failed { .. } | Table::None => (0, kind::BARE),
        }
    }

    /// Returns `true` if there may be a table later.
    pub(super) fn may_come(self) -> bool {
        matches!(self, Table::Pending | Table::Failed { .. })
    }
}
