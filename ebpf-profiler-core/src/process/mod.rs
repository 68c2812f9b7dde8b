//! Processes, and the files mapped in them.

mod module;

mod layout;

mod system;

pub(crate) use layout::{FileName, Mapped, Region, RegionCount, Regions};
pub use module::{Module, ModuleId, Opener};
#[doc(hidden)]
pub use system::{Description, System};
