//! Processes and the files that are mapped in them.

mod interpreters;

mod layout;

mod module;

mod modules;

mod registry;

mod system;

pub use interpreters::InterpreterStats;
pub use module::{Module, ModuleId, Opener};
pub use registry::{Registry, RegistryStats};
pub use system::{Description, System};
