//! Names of classes.
//!
//! | version | path of a class | object of a singleton class |
//! |---|---|---|
//! | to 3.1 | variable `__classpath__`, in a hash table | variable `__attached__` |
//! | 3.2 | one of its first variables | its first variable |
//! | 3.3 on | a field | a field |

use ebpf_profiler_core::language::{Memory, Reason};

use super::object::{self, kind};
use super::offsets::{NameOffsets, Offsets};
use super::symbol::Symbols;

/// Maximum number of variables that are searched.
const MAX_VARIABLES: u64 = 64;

/// Number of the first variables among which the path is searched in 3.2.
const FIRST_VARIABLES: u64 = 8;

/// Reads names of classes.
pub(super) struct Classes<'a> {
    pub(super) offsets: &'a Offsets,
    pub(super) symbols: &'a Symbols,
    pub(super) memory: &'a dyn Memory,
}

impl Classes<'_> {
    /// Returns the beginning of the names of a class's methods: `Foo::Bar#`, or `Foo.` for a
    /// singleton class. Empty for an anonymous class.
    pub(super) fn prefix(&self, class: u64) -> Result<String, Reason> {
        let flags = object::flags(class, self.memory)?;
        match flags & kind::MASK {
            kind::INCLUDED => self.prefix_of_module(self.memory.u64(class.wrapping_add(8))?),
            kind::CLASS if flags & self.offsets.class.singleton != 0 => {
                let of = self.attached(class).unwrap_or(0);
                let flags = object::flags(of, self.memory).unwrap_or(0);
                let is_class = matches!(flags & kind::MASK, kind::CLASS | kind::MODULE);
                let path = if is_class { self.path(of).unwrap_or_default() } else { String::new() };
                Ok(if path.is_empty() { path } else { path + "." })
            }
            kind::CLASS | kind::MODULE => self.prefix_of_module(class),
            _ => Err(Reason::Implausible),
        }
    }

    fn prefix_of_module(&self, module: u64) -> Result<String, Reason> {
        let path = self.path(module).unwrap_or_default();
        Ok(if path.is_empty() { path } else { path + "#" })
    }

    /// Returns the path of a class or module; fails if it is anonymous.
    fn path(&self, class: u64) -> Result<String, Reason> {
        let memory = self.memory;
        let text = |object: u64| object::text(object, self.offsets, memory);
        match self.offsets.class.names {
            NameOffsets::Fields { path, .. } => text(memory.u64(class.wrapping_add(path.into()))?),
            NameOffsets::Variables { variables } => {
                let first = memory.u64(class.wrapping_add(variables.into()))?;
                let values = (0..FIRST_VARIABLES).map(|index| memory.u64(first.wrapping_add(8 * index)));
                let mut texts = values.map_while(Result::ok).filter_map(|value| text(value).ok());
                texts.find(|text| is_path(text)).ok_or(Reason::Implausible)
            }
            NameOffsets::Table { .. } => text(self.variable(class, "__classpath__")?),
        }
    }

    /// Returns the object that a singleton class belongs to.
    fn attached(&self, class: u64) -> Result<u64, Reason> {
        let memory = self.memory;
        match self.offsets.class.names {
            NameOffsets::Fields { attached, .. } => Ok(memory.u64(class.wrapping_add(attached.into()))?),
            NameOffsets::Variables { variables } => {
                Ok(memory.u64(memory.u64(class.wrapping_add(variables.into()))?)?)
            }
            NameOffsets::Table { .. } => self.variable(class, "__attached__"),
        }
    }

    /// Returns a variable of a class, by its name.
    fn variable(&self, class: u64, name: &str) -> Result<u64, Reason> {
        // st_table {…, entries_start at 32, entries_bound at 40, entries at 48}, entry {hash, key, value}
        let NameOffsets::Table { extension, variables } = self.offsets.class.names else {
            return Err(Reason::Unsupported);
        };
        let word = |address: u64, offset: u64| self.memory.u64(address.wrapping_add(offset));
        let table = word(word(class, extension.into())?, variables.into())?;
        let (start, bound, entries) = (word(table, 32)?, word(table, 40)?, word(table, 48)?);
        for index in start..bound.min(start.saturating_add(MAX_VARIABLES)) {
            let entry: [u8; 24] = self.memory.array(entries.wrapping_add(index.wrapping_mul(24)))?;
            let [_, key, value] = *entry.as_chunks::<8>().0 else { return Err(Reason::Implausible) };
            let key = self.symbols.name(u64::from_le_bytes(key), self.offsets, self.memory);
            if key.is_ok_and(|key| key == name) {
                return Ok(u64::from_le_bytes(value));
            }
        }
        Err(Reason::Implausible)
    }
}

/// Returns `true` if a text is the path of a constant.
fn is_path(text: &str) -> bool {
    let is_constant = |part: &str| {
        part.starts_with(|first: char| first.is_uppercase() || !first.is_ascii())
            && part.chars().all(|each| each.is_alphanumeric() || each == '_')
    };
    text.split("::").all(is_constant)
}
