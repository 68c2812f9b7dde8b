//! Names of identifiers, from the global symbol table.
//!
//! ```text
//!   identifier   number << 4 | scope, or the number itself of an operator
//!   table        array of arrays of 512 pairs {string, symbol}
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::object;
use super::offsets::Offsets;

/// Number of identifiers in one array.
const UNIT: u64 = 512;

/// The global symbol table of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbols {
    /// The address of the array.
    table: u64,
}

impl Symbols {
    /// Finds the table among variables of the runtime.
    ///
    /// # Errors
    ///
    /// [`Reason::NotReady`] if it isn't initialized.
    pub(super) fn find(
        variables: impl Iterator<Item = u64>,
        offsets: &Offsets,
        memory: &dyn Memory,
    ) -> Result<Symbols, Reason> {
        // The second: 0 is no identifier.
        let holds_names = |table: &u64| {
            let first = object::element(*table, 0, offsets, memory);
            first.and_then(|part| object::element(part, u64::from(b'+') * 2, offsets, memory)).is_ok()
        };
        let mut tables = variables.filter_map(|variable| memory.u64(variable).ok());
        let table = tables.find(holds_names).ok_or(Reason::NotReady)?;
        Ok(Symbols { table })
    }

    /// Returns the name of an identifier.
    pub(super) fn name(
        &self,
        identifier: u64,
        offsets: &Offsets,
        memory: &dyn Memory,
    ) -> Result<String, Reason> {
        let number = if identifier > offsets.last_operator { identifier >> 4 } else { identifier };
        let part = object::element(self.table, number / UNIT, offsets, memory)?;
        let name = object::element(part, number % UNIT * 2, offsets, memory)?;
        object::text(name, offsets, memory)
    }
}
