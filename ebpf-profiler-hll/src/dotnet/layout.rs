//! Offsets in the runtime's structures, by version.

/// Offsets in one version's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// In a module: start of its image.
    pub(super) image: u64,
    /// In a module: metadata of an assembly that was generated, four bytes of size before it.
    pub(super) generated: u64,
    /// In a module: data of its precompiled code.
    pub(super) precompiled: u64,
    /// In this data: buckets of the map of entry points to methods.
    pub(super) methods: u64,
    /// 1 if words of nibble maps may hold distances.
    pub(super) has_distances: u64,
}

/// .NET 9 and 10: as the runtimes describe themselves (data contracts of 9.0.1 and 10.0.9), except
/// the data of precompiled code in 9, whose offsets were found in a process of 9.0.1.
pub(super) const LAYOUTS: [Layout; 2] = [
    Layout { image: 288, generated: 1120, precompiled: 984, methods: 448, has_distances: 0 },
    Layout { image: 224, generated: 840, precompiled: 704, methods: 376, has_distances: 1 },
];

/// Offsets in the data of precompiled code: the same in both.
pub(super) mod precompiled {
    /// The module.
    pub(in super::super) const MODULE: u64 = 0;
    /// The unwind entries, and their number.
    pub(in super::super) const ENTRIES: u64 = 80;
    /// Pairs of indices of entries, cold part and function, and their number.
    pub(in super::super) const COLD: u64 = 96;
}
