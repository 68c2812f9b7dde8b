//! Memory that a runtime owns.

use std::ops::Range;

/// The addresses of a process at which a runtime's walker unwinds native frames: code that it
/// compiles while it runs, and code in files that only the runtime can unwind.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::language::CodeRanges;
///
/// // A code heap of 240 MiB, reserved when the runtime starts and filled while it runs.
/// let heap = CodeRanges::new([0x7f00_0000_0000..0x7f00_0f00_0000]);
/// assert_eq!(heap.ranges().len(), 1);
/// // Builtins in a file, and all code that is generated at run time.
/// let engine = CodeRanges::new([0x40_0000..0x60_0000]).with_anonymous();
/// assert!(engine.has_anonymous());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeRanges {
    ranges: Vec<Range<u64>>,
    has_anonymous: bool,
    has_linked_areas: bool,
    has_shared_memory: bool,
    has_images: bool,
}

/// Maximum number of ranges; the others are dropped.
const MAX: usize = 16;

impl CodeRanges {
    /// Ranges of addresses of the process, with or without a file. Only executable mappings in them
    /// count: those that exist, and those that come later. At most 16 are kept.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> CodeRanges {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).take(MAX).collect();
        ranges.sort_by_key(|range| range.start);
        CodeRanges { ranges, ..CodeRanges::default() }
    }

    /// Adds all executable mappings without a file, those that come later included.
    #[must_use]
    pub fn with_anonymous(self) -> CodeRanges {
        CodeRanges { has_anonymous: true, ..self }
    }

    /// Adds areas of executable mappings without a file that begin with two words: the address of
    /// another area, or 0, and the size of this one. What else such mappings contain belongs to
    /// others. A mapping is searched when it appears.
    #[must_use]
    pub fn with_linked_areas(self) -> CodeRanges {
        CodeRanges { has_linked_areas: true, ..self }
    }

    /// Adds all executable mappings of memory that processes share without a named file, those that
    /// come later included.
    #[must_use]
    pub fn with_shared_memory(self) -> CodeRanges {
        CodeRanges { has_shared_memory: true, ..self }
    }

    /// Adds all executable mappings of files that are not part of the code of an ELF file: code of
    /// another format, or in an archive behind an ELF file. Those that come later are included.
    #[must_use]
    pub fn with_images(self) -> CodeRanges {
        CodeRanges { has_images: true, ..self }
    }

    /// Returns the ranges, sorted.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns `true` if [`with_anonymous`](CodeRanges::with_anonymous) was called: the runtime
    /// claims all executable mappings without a file.
    pub fn has_anonymous(&self) -> bool {
        self.has_anonymous
    }

    /// Returns `true` if [`with_linked_areas`](CodeRanges::with_linked_areas) was called: the
    /// runtime claims executable memory without a file by the areas that it contains.
    pub fn has_linked_areas(&self) -> bool {
        self.has_linked_areas
    }

    /// Returns `true` if [`with_images`](CodeRanges::with_images) was called: the runtime claims all
    /// executable mappings of files that are not part of the code of an ELF file.
    pub fn has_images(&self) -> bool {
        self.has_images
    }

    /// Returns `true` if [`with_shared_memory`](CodeRanges::with_shared_memory) was called: the
    /// runtime claims all executable mappings of shared memory without a named file.
    pub fn has_shared_memory(&self) -> bool {
        self.has_shared_memory
    }
}
