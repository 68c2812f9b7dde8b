//! A filter as the kernel side has it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ebpf_programs::abi::filter::{Filter, condition};

/// Conditions that the kernel side checks before it walks a stack.
#[derive(Clone, Debug)]
pub struct KernelFilter {
    filter: Box<Filter>,
    cgroups: Arc<Vec<OwnedFd>>,
}

impl KernelFilter {
    /// Returns the filter with the folders of its control groups.
    pub fn new(filter: Filter, cgroups: Arc<Vec<OwnedFd>>) -> KernelFilter {
        KernelFilter { filter: Box::new(filter), cgroups }
    }

    /// Returns the conditions.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns `true` if events on a CPU can pass.
    pub fn has_cpu(&self, cpu: u32) -> bool {
        let Filter { conditions, cpus, .. } = &*self.filter;
        let is_set = |word: &u64| word >> (cpu % 64) & 1 == 1;
        conditions & condition::CPUS == 0 || cpus.get(cpu as usize / 64).is_some_and(is_set)
    }

    /// Returns the folders of control groups.
    pub fn cgroups(&self) -> &[OwnedFd] {
        &self.cgroups
    }

    /// Returns the value of the kernel's map.
    pub fn bytes(&self) -> Vec<u8> {
        let Filter { conditions, cgroups, leader_offset, comm_offset, cpus, commands, threads } =
            &*self.filter;
        let numbers =
            [conditions, cgroups, leader_offset, comm_offset].into_iter().flat_map(|it| it.to_ne_bytes());
        let names = [commands, threads]
            .into_iter()
            .flat_map(|names| names.steps.iter().chain([&names.loops, &names.first, &names.last]));
        numbers.chain(cpus.iter().chain(names).flat_map(|word| word.to_ne_bytes())).collect()
    }
}
