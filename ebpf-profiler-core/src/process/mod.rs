//! Processes, and the files mapped in them.

#[cfg(any(feature = "live", test))]
mod cgroup;

pub(crate) mod context;

mod module;

mod layout;

mod load_bias;

mod system;

mod pids;

#[cfg(feature = "live")]
pub(crate) use cgroup::Cgroup;
pub(crate) use layout::{FileName, Mapped, Region, RegionCount, Regions};
pub use load_bias::LoadBias;
pub use module::{Module, ModuleId, Opener};
pub use pids::Pids;
#[doc(hidden)]
pub use system::{Description, System};
