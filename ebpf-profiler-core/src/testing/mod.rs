//! Stand-ins for whoever tests a sink, a pipeline or a language.

mod profile;

pub use profile::profile;
