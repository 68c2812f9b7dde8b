//! Field numbers of `perftools.profiles`, from [profile.proto].
//!
//! [profile.proto]: https://github.com/google/pprof/blob/main/proto/profile.proto

pub(super) mod profile {
    pub(in crate::pprof) const SAMPLE_TYPE: u8 = 1;
    pub(in crate::pprof) const SAMPLE: u8 = 2;
    pub(in crate::pprof) const MAPPING: u8 = 3;
    pub(in crate::pprof) const LOCATION: u8 = 4;
    pub(in crate::pprof) const FUNCTION: u8 = 5;
    pub(in crate::pprof) const STRINGS: u8 = 6;
    pub(in crate::pprof) const TIME: u8 = 9;
    pub(in crate::pprof) const DURATION: u8 = 10;
    pub(in crate::pprof) const PERIOD_TYPE: u8 = 11;
    pub(in crate::pprof) const PERIOD: u8 = 12;
    pub(in crate::pprof) const COMMENT: u8 = 13;
}

pub(super) mod value_type {
    pub(in crate::pprof) const TYPE: u8 = 1;
    pub(in crate::pprof) const UNIT: u8 = 2;
}

pub(super) mod sample {
    pub(in crate::pprof) const LOCATION: u8 = 1;
    pub(in crate::pprof) const VALUE: u8 = 2;
    pub(in crate::pprof) const LABEL: u8 = 3;
}

pub(super) mod label {
    pub(in crate::pprof) const KEY: u8 = 1;
    pub(in crate::pprof) const TEXT: u8 = 2;
}

/// The id of mappings, locations and functions.
pub(super) const ID: u8 = 1;

pub(super) mod mapping {
    pub(in crate::pprof) const START: u8 = 2;
    pub(in crate::pprof) const LIMIT: u8 = 3;
    pub(in crate::pprof) const OFFSET: u8 = 4;
    pub(in crate::pprof) const FILENAME: u8 = 5;
    pub(in crate::pprof) const BUILD_ID: u8 = 6;
    /// The first of `has_functions`, `has_filenames`, `has_line_numbers` and `has_inline_frames`.
    pub(in crate::pprof) const HAS: u8 = 7;
}

pub(super) mod location {
    pub(in crate::pprof) const MAPPING: u8 = 2;
    pub(in crate::pprof) const ADDRESS: u8 = 3;
    pub(in crate::pprof) const LINE: u8 = 4;
}

pub(super) mod line {
    pub(in crate::pprof) const FUNCTION: u8 = 1;
    pub(in crate::pprof) const LINE: u8 = 2;
    pub(in crate::pprof) const COLUMN: u8 = 3;
}

pub(super) mod function {
    pub(in crate::pprof) const NAME: u8 = 2;
    pub(in crate::pprof) const SYSTEM_NAME: u8 = 3;
    pub(in crate::pprof) const FILENAME: u8 = 4;
    pub(in crate::pprof) const START_LINE: u8 = 5;
}
