//! Processes, and the files mapped in them.

mod module;

mod layout;

mod system;

mod pids;

pub(crate) use layout::{FileName, Mapped, Region, RegionCount, Regions};
pub use module::{Module, ModuleId, Opener};
pub use pids::Pids;
#[doc(hidden)]
pub use system::{Description, System};
