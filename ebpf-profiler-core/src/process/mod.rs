//! Processes and the files that are mapped in them.

mod module;

pub use module::{Module, ModuleId, Opener};
