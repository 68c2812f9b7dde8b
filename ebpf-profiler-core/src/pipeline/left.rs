//! Files that no process maps any more, whose names are read before the profile ends: they may be
//! deleted soon.

use hashbrown::HashMap;

use super::Pipeline;
use crate::process::{Module, ModuleId};

/// Time between two looks for such files, in nanoseconds.
const INTERVAL: u64 = 250_000_000;

/// A file that no process maps any more, with the addresses of its frames in the current profile,
/// in ascending order.
#[derive(Debug)]
pub(crate) struct LeftModule {
    pub(crate) module: Module,
    pub(crate) addresses: Vec<u64>,
}

impl Pipeline {
    /// Takes the files that no process maps any more since the last look.
    pub(crate) fn take_left(&mut self) -> Vec<LeftModule> {
        if self.now.saturating_sub(self.looked_for_left) < INTERVAL {
            return Vec::new();
        }
        self.looked_for_left = self.now;
        let left = self.registry.take_left_modules();
        if left.is_empty() {
            return Vec::new();
        }
        let mut addresses: HashMap<ModuleId, Vec<u64>> =
            left.iter().map(|&(id, _)| (id, Vec::new())).collect();
        let frames = [&self.builder, self.held.builder()].into_iter().flat_map(|it| it.native_addresses());
        for (module, address) in frames {
            if let Some(addresses) = addresses.get_mut(&module) {
                addresses.push(address);
            }
        }
        let with_addresses = |(id, module)| {
            let mut addresses = addresses.remove(&id).unwrap_or_default();
            addresses.sort_unstable();
            addresses.dedup();
            LeftModule { module, addresses }
        };
        left.into_iter().map(with_addresses).collect()
    }
}
