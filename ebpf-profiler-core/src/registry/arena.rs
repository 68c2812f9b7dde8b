//! The arena of the kernel side: its bytes, and who owns them.

use ebpf_programs::abi::arena::UNIT;

use super::compile::Failure;
use super::shared::SharedTables;
use super::table::Table;
use crate::tables::{Allocator, Tables};

/// Reason for tables beyond the memory of tables.
const NO_ROOM: Failure = Failure::lasting("tables that did not fit");

/// The arena and the map of processes, with the places in the arena that are in use.
pub(super) struct Arena {
    pub(super) tables: Box<dyn Tables>,
    allocator: Allocator,
    shared: SharedTables,
}

impl Arena {
    /// Returns an arena of which at most `bytes` are used.
    pub(super) fn new(tables: Box<dyn Tables>, bytes: u64) -> Arena {
        Arena { tables, allocator: Allocator::new(bytes), shared: SharedTables::default() }
    }

    /// Returns the bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.allocator.used()
    }

    /// Copies bytes into the arena and returns their place; `None` if there is no room.
    pub(super) fn write(&mut self, bytes: &[u8], now: u64) -> Option<u32> {
        let place = self.allocator.allocate(bytes.len(), now)?;
        if self.tables.write(u64::from(place) * UNIT as u64, bytes).is_err() {
            self.allocator.free(place, bytes.len(), now);
            return None;
        }
        Some(place)
    }

    /// Frees `bytes` at a place.
    pub(super) fn free(&mut self, place: u32, bytes: usize, now: u64) {
        self.allocator.free(place, bytes, now);
    }

    /// Writes an unwind table, or finds an equal one.
    pub(super) fn write_table(&mut self, image: &[u8], now: u64) -> Result<Table, Failure> {
        if image.is_empty() {
            return Ok(Table::None);
        }
        if let Some(place) = self.shared.find(image, &*self.tables) {
            return Ok(Table::Ready { place, bytes: image.len() });
        }
        let place = self.write(image, now).ok_or(NO_ROOM)?;
        if self.tables.renew().is_err() {
            self.free(place, image.len(), now);
            return Err(NO_ROOM);
        }
        self.shared.add(image, place);
        Ok(Table::Ready { place, bytes: image.len() })
    }

    /// Removes a user of a table, and frees it if that was the last one.
    pub(super) fn free_table(&mut self, place: u32, bytes: usize, now: u64) {
        if self.shared.release(place) {
            self.free(place, bytes, now);
        }
    }

    /// Returns `true` if several modules have the table at a place.
    pub(super) fn is_shared(&self, place: u32) -> bool {
        self.shared.is_shared(place)
    }

    /// Returns the memory of free places to the system.
    pub(super) fn return_memory(&mut self, now: u64) {
        for bytes in self.allocator.free_ranges(now) {
            self.tables.unused(bytes);
        }
    }
}
