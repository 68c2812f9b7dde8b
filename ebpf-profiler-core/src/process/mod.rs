//! Processes, and the files mapped in them.

mod module;

mod layout;

mod system;

pub(crate) use layout::{Mapped, Region, find, insert, keep};
pub use module::{Module, ModuleId, Opener};
#[doc(hidden)]
pub use system::{Description, System};
