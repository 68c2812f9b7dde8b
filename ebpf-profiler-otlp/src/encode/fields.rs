//! Field numbers of `opentelemetry.proto.profiles.v1development`, wire 1.10 and later.
//!
//! `ExportProfilesServiceRequest` and `ProfilesData` are equal on the wire. Names and numbers are
//! those of [profiles.proto].
//!
//! ```text
//! ProfilesData ── resource_profiles 1 ── resource 1 ── attributes 1
//!              │                      ├─ scope_profiles 2 ── scope 1
//!              │                      │                   ├─ profiles 2
//!              │                      └─ schema_url 3     └─ schema_url 3
//!              └─ dictionary 2
//! ```
//!
//! [profiles.proto]: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/profiles/v1development/profiles.proto

pub(super) const RESOURCE_PROFILES: u8 = 1;
pub(crate) const DICTIONARY: u8 = 2;

pub(super) mod resource_profiles {
    pub(in crate::encode) const RESOURCE: u8 = 1;
    pub(in crate::encode) const SCOPE_PROFILES: u8 = 2;
    pub(in crate::encode) const SCHEMA_URL: u8 = 3;
}

pub(super) mod resource {
    pub(in crate::encode) const ATTRIBUTES: u8 = 1;
}

pub(super) mod scope_profiles {
    pub(in crate::encode) const SCOPE: u8 = 1;
    pub(in crate::encode) const PROFILES: u8 = 2;
    pub(in crate::encode) const SCHEMA_URL: u8 = 3;
}

pub(super) mod scope {
    pub(in crate::encode) const NAME: u8 = 1;
    pub(in crate::encode) const VERSION: u8 = 2;
}

/// `KeyValue`, in resources: the key is inline.
pub(super) mod key_value {
    pub(in crate::encode) const KEY: u8 = 1;
    pub(in crate::encode) const VALUE: u8 = 2;
}

/// `KeyValueAndUnit`, in the dictionary: the key is an index of a string.
pub(super) mod attribute {
    pub(in crate::encode) const KEY: u8 = 1;
    pub(in crate::encode) const VALUE: u8 = 2;
}

pub(super) mod any_value {
    pub(in crate::encode) const STRING: u8 = 1;
    pub(in crate::encode) const BOOL: u8 = 2;
    pub(in crate::encode) const INT: u8 = 3;
}

pub(super) mod profile {
    pub(in crate::encode) const SAMPLE_TYPE: u8 = 1;
    pub(in crate::encode) const SAMPLES: u8 = 2;
    pub(in crate::encode) const TIME: u8 = 3;
    pub(in crate::encode) const DURATION: u8 = 4;
    pub(in crate::encode) const PERIOD_TYPE: u8 = 5;
    pub(in crate::encode) const PERIOD: u8 = 6;
}

pub(super) mod sample {
    pub(in crate::encode) const STACK: u8 = 1;
    pub(in crate::encode) const ATTRIBUTES: u8 = 2;
    pub(in crate::encode) const LINK: u8 = 3;
    pub(in crate::encode) const VALUES: u8 = 4;
    pub(in crate::encode) const TIMESTAMPS: u8 = 5;
}

pub(super) mod value_type {
    pub(in crate::encode) const TYPE: u8 = 1;
    pub(in crate::encode) const UNIT: u8 = 2;
}

pub(super) mod dictionary {
    pub(in crate::encode) const MAPPINGS: u8 = 1;
    pub(in crate::encode) const LOCATIONS: u8 = 2;
    pub(in crate::encode) const FUNCTIONS: u8 = 3;
    pub(in crate::encode) const LINKS: u8 = 4;
    pub(in crate::encode) const STRINGS: u8 = 5;
    pub(in crate::encode) const ATTRIBUTES: u8 = 6;
    pub(in crate::encode) const STACKS: u8 = 7;
}

pub(super) mod link {
    pub(in crate::encode) const TRACE_ID: u8 = 1;
    pub(in crate::encode) const SPAN_ID: u8 = 2;
}

pub(super) mod mapping {
    pub(in crate::encode) const START: u8 = 1;
    pub(in crate::encode) const LIMIT: u8 = 2;
    pub(in crate::encode) const OFFSET: u8 = 3;
    pub(in crate::encode) const FILENAME: u8 = 4;
    pub(in crate::encode) const ATTRIBUTES: u8 = 5;
}

pub(super) mod stack {
    pub(in crate::encode) const LOCATIONS: u8 = 1;
}

pub(super) mod location {
    pub(in crate::encode) const MAPPING: u8 = 1;
    pub(in crate::encode) const ADDRESS: u8 = 2;
    pub(in crate::encode) const LINES: u8 = 3;
    pub(in crate::encode) const ATTRIBUTES: u8 = 4;
}

pub(super) mod line {
    pub(in crate::encode) const FUNCTION: u8 = 1;
    pub(in crate::encode) const LINE: u8 = 2;
    pub(in crate::encode) const COLUMN: u8 = 3;
}

pub(super) mod function {
    pub(in crate::encode) const NAME: u8 = 1;
    pub(in crate::encode) const SYSTEM_NAME: u8 = 2;
    pub(in crate::encode) const FILENAME: u8 = 3;
    pub(in crate::encode) const START_LINE: u8 = 4;
}
