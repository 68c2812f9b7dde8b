//! Offsets in the runtime's structures, by version.

/// Offsets in one version's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Major version.
    pub(super) major: u32,
    /// Offsets of the pointers that lead from a module to the start of its image.
    pub(super) image: &'static [u64],
    /// In a module: metadata of an assembly that was generated, four bytes of size before it; `None`
    /// if it is unknown.
    pub(super) generated: Option<u64>,
    /// 1 if words of nibble maps may hold distances.
    pub(super) has_distances: u64,
    /// In the descriptor of a dynamic method: its name.
    pub(super) dynamic_name: u64,
    pub(super) threads: Threads,
}

/// Offsets that lead to the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    /// Index of the pointer to the list's variable in the table for debuggers.
    pub(super) list: u64,
    /// In the list: link to the first thread.
    pub(super) first: u64,
    /// From the link in a thread to the original of a return address that was replaced.
    pub(super) original: u64,
}

/// .NET 8, 9 and 10.
///
/// | offset | source |
/// |---|---|
/// | 9 and 10: of modules, names, first thread | data contracts in the files of 9.0.1 and 10.0.9 |
/// | 8: of modules and names | found in a process of 8.0.8, by the images and names that they lead to |
/// | index of the list | found in processes of 8.0.8, 9.0.1 and 10.0.0, by the ids of their threads |
/// | original | the instructions of the function that restores it, in the same files |
pub(super) const LAYOUTS: [Layout; 3] = [
    Layout {
        major: 8,
        image: &[272, 8, 120, 8],
        generated: None,
        has_distances: 0,
        dynamic_name: 24,
        threads: Threads { list: 16, first: 160, original: 48 },
    },
    Layout {
        major: 9,
        image: &[288],
        generated: Some(1120),
        has_distances: 0,
        dynamic_name: 32,
        threads: Threads { list: 16, first: 160, original: 40 },
    },
    Layout {
        major: 10,
        image: &[224],
        generated: Some(840),
        has_distances: 1,
        dynamic_name: 32,
        threads: Threads { list: 15, first: 88, original: 40 },
    },
];

/// Offsets in the data of precompiled code: the same in all.
pub(super) mod precompiled {
    /// The module.
    pub(in super::super) const MODULE: u64 = 0;
    /// The image's header of precompiled code.
    pub(in super::super) const HEADER: u64 = 16;
    /// The unwind entries, and their number.
    pub(in super::super) const ENTRIES: u64 = 80;
    /// Pairs of indices of entries, cold part and function, and their number.
    pub(in super::super) const COLD: u64 = 96;
}
