//! The fields of a message that hold indices of table elements.

/// Roles of a message's fields by field number; other fields are copied.
pub(super) type Schema = &'static [(u64, Role)];

/// The role of a field.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// An index of a table.
    Number(usize),
    /// Indices of a table.
    Numbers(usize),
    /// A message that contains indices.
    Message(Schema),
    /// A message that contains samples and is omitted without them.
    AroundSamples(Schema),
    Sample(Schema),
    Dictionary,
}

use Role::{AroundSamples, Message, Number, Numbers, Sample};

/// A table of the dictionary.
pub(super) struct Table {
    pub(super) field: u64,
    pub(super) schema: Option<Schema>,
}

/// The tables, each before those that it refers to.
pub(super) const TABLES: [Table; 7] = [
    Table { field: 7, schema: Some(&[(1, Numbers(LOCATION))]) },
    Table { field: 2, schema: Some(LOCATIONS) },
    Table { field: 1, schema: Some(&[(4, Number(STRING)), (5, Numbers(ATTRIBUTE))]) },
    Table { field: 3, schema: Some(&[(1, Number(STRING)), (2, Number(STRING)), (3, Number(STRING))]) },
    Table { field: 4, schema: None },
    Table { field: 6, schema: Some(ATTRIBUTES) },
    Table { field: 5, schema: None },
];

const STACK: usize = 0;
const LOCATION: usize = 1;
const MAPPING: usize = 2;
const FUNCTION: usize = 3;
const LINK: usize = 4;
const ATTRIBUTE: usize = 5;
const STRING: usize = 6;

pub(super) const DICTIONARY: u64 = 2;

/// `ExportProfilesServiceRequest`.
pub(super) const REQUEST: Schema = &[(1, AroundSamples(RESOURCE_PROFILES)), (DICTIONARY, Role::Dictionary)];

const RESOURCE_PROFILES: Schema = &[(2, AroundSamples(SCOPE_PROFILES))];
const SCOPE_PROFILES: Schema = &[(2, AroundSamples(PROFILE))];
const PROFILE: Schema =
    &[(1, Message(VALUE_TYPE)), (2, Sample(SAMPLE)), (5, Message(VALUE_TYPE)), (11, Numbers(ATTRIBUTE))];
const SAMPLE: Schema = &[(1, Number(STACK)), (2, Numbers(ATTRIBUTE)), (3, Number(LINK))];
const VALUE_TYPE: Schema = &[(1, Number(STRING)), (2, Number(STRING))];
const LOCATIONS: Schema =
    &[(1, Number(MAPPING)), (3, Message(&[(1, Number(FUNCTION))])), (4, Numbers(ATTRIBUTE))];
/// An attribute's value can be an index of a string, too.
const ATTRIBUTES: Schema = &[(1, Number(STRING)), (2, Message(&[(8, Number(STRING))])), (3, Number(STRING))];
