//! The kernel object: from bytes to maps and programs.
//!
//! aya-obj parses and relocates it; [`bpf`] creates and loads. [`loader`](crate::live::run::loader) has the reason, with figures, why aya's own
//! loader does not.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aya_obj::btf::BtfFeatures;
use aya_obj::{Object, ProgramSection};

use super::bpf::{self, Code, Map, Shape};
use super::memlock;
use super::mmap::page_size;
use crate::live::error::StartError;
use crate::live::machine::capability::{BPF, PERFMON};

/// Maximum size of the verifier's log in bytes: kernels before 6.4 keep the beginning of a longer one, and its cause is at the end.
const LOG: usize = 128 << 20;

/// Maximum number of bytes at the end of the verifier's log that are shown.
const SHOWN_LOG: usize = 64 << 10;

/// The map of the constants.
const CONSTANTS: &str = ".rodata";

/// An object whose maps are created and whose programs can be loaded.
pub(in crate::live) struct KernelObject {
    object: Object,
    types: OwnedFd,
    maps: HashMap<String, Map>,
}

impl KernelObject {
    /// Creates the maps of an object for `programs`, without the maps `unused`; `entries` overrides the numbers of entries,
    /// `constants` the values of constants, by their names.
    pub(in crate::live) fn new(
        bytes: &[u8],
        programs: &[&str],
        unused: &[&str],
        entries: &[(&str, u32)],
        constants: &[(&str, &[u8])],
    ) -> Result<KernelObject, StartError> {
        let mut object = Object::parse(bytes).map_err(|error| wrong(&error))?;
        let dropped: Vec<String> =
            object.programs.keys().filter(|name| !programs.contains(&name.as_str())).cloned().collect();
        for program in dropped.iter().filter_map(|name| object.programs.remove(name)) {
            object.functions.remove(&program.function_key());
        }
        let constants = constants.iter().map(|&(name, value)| (name, (value, true))).collect();
        object.patch_map_data(constants).map_err(|error| wrong(&error))?;
        let features = features();
        let types = object.fixup_and_sanitize_btf(&features).map_err(|error| wrong(&error))?;
        let types = types.map(|types| types.to_bytes()).unwrap_or_default();
        let types = bpf::load_types(&types).map_err(|error| refused("load type information", error))?;
        object.maps.retain(|name, _| !unused.contains(&name.as_str()));
        for &(name, entries) in entries {
            object.maps.get_mut(name).ok_or_else(|| missing("map", name))?.set_max_entries(entries);
        }
        let maps = object.maps.iter().map(|(name, map)| Ok((name.clone(), create(name, map)?)));
        let maps = maps.collect::<Result<HashMap<_, _>, StartError>>()?;
        link(&mut object, &maps)?;
        Ok(KernelObject { object, types, maps })
    }

    /// Changes the value of a constant, for programs that are loaded later.
    pub(in crate::live) fn set_constant(&mut self, name: &str, value: &[u8]) -> Result<(), StartError> {
        /// The source register of an instruction that loads the address of a map's value.
        const OF_MAP_VALUE: u8 = 2;
        let constants = HashMap::from([(name, (value, true))]);
        self.object.patch_map_data(constants).map_err(|error| wrong(&error))?;
        let map = self.object.maps.get(CONSTANTS).ok_or_else(|| missing("map", CONSTANTS))?;
        let created = create(CONSTANTS, map)?;
        let new = created.as_fd().as_raw_fd();
        let former = self.maps.insert(CONSTANTS.to_owned(), created);
        let former = former.ok_or_else(|| missing("map", CONSTANTS))?.as_fd().as_raw_fd();
        for function in self.object.functions.values_mut() {
            let loads = function.instructions.iter_mut();
            loads.filter(|it| it.src_reg() == OF_MAP_VALUE && it.imm == former).for_each(|it| it.imm = new);
        }
        Ok(())
    }

    /// Creates the first `entries` elements of a map of maps.
    pub(in crate::live) fn outer(&self, name: &'static str, entries: u32) -> Result<OuterMap, StartError> {
        let inner = self.object.maps.get(name).and_then(|map| map.inner());
        let inner = shape(&inner.ok_or_else(|| missing("map", name))?);
        let mut outer = OuterMap { name, map: self.map(name)?, inner, filled: 0 };
        outer.fill(entries).map_err(|error| refused("create a map", error))?;
        Ok(outer)
    }

    /// Returns a map.
    pub(in crate::live) fn map(&self, name: &str) -> Result<Map, StartError> {
        let map = self.maps.get(name).ok_or_else(|| missing("map", name))?;
        map.try_clone().map_err(|error| refused("open a map", error))
    }

    /// Loads a program into the kernel.
    pub(in crate::live) fn program(&self, name: &str) -> Result<OwnedFd, StartError> {
        self.program_of(name, 0)
    }

    /// Loads a program for the function of the kernel whose type has number `function`.
    pub(in crate::live) fn program_of(&self, name: &str, function: u32) -> Result<OwnedFd, StartError> {
        let program = self.object.programs.get(name).ok_or_else(|| missing("program", name))?;
        let code = self.object.functions.get(&program.function_key());
        let code = code.ok_or_else(|| missing("program", name))?;
        let (kind, edge) = kind(&program.section).ok_or_else(|| missing("program", name))?;
        let (instructions, functions) = (&code.instructions, code.func_info.func_info_bytes());
        let code = Code {
            name,
            kind,
            function: (edge, function),
            instructions,
            license: &program.license,
            types: Some(self.types.as_fd()),
            functions: &functions,
        };
        code.load(&mut []).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => refused("load the sampling program", error),
            // The log would be of a million instructions.
            Some(libc::E2BIG) => StartError::Rejected { log: TOO_LARGE.to_owned(), error },
            _ => StartError::Rejected { log: log(&code), error },
        })
    }
}

/// A map of maps whose elements are created as they are needed.
pub(in crate::live) struct OuterMap {
    name: &'static str,
    map: Map,
    inner: Shape,
    /// Number of elements, which have the lowest keys.
    filled: u32,
}

impl OuterMap {
    /// Creates the elements of all keys below `entries`.
    pub(in crate::live) fn fill(&mut self, entries: u32) -> io::Result<()> {
        while self.filled < entries {
            let element = Map::create(self.name, self.inner, None)?;
            self.map.set_map(self.filled, &element)?;
            self.filled += 1;
        }
        Ok(())
    }
}

/// The log of a program that the verifier gives up.
const TOO_LARGE: &str = "the program has more paths than this kernel's verifier follows";

/// Loads a rejected program again and returns the end of the verifier's log.
fn log(code: &Code<'_>) -> String {
    let mut log = vec![0; LOG];
    let _ = code.load(&mut log);
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[end.saturating_sub(SHOWN_LOG)..end]).into_owned()
}

/// Returns the kernel's number of a program type, and of the edge of a function at which it runs.
fn kind(section: &ProgramSection) -> Option<(u32, u32)> {
    match section {
        ProgramSection::UProbe { .. } => Some((2, 0)),
        ProgramSection::TracePoint => Some((5, 0)),
        ProgramSection::PerfEvent => Some((7, 0)),
        ProgramSection::RawTracePoint => Some((17, 0)),
        ProgramSection::FEntry { .. } => Some((26, bpf::FUNCTION_ENTRY)),
        ProgramSection::FExit { .. } => Some((26, bpf::FUNCTION_EXIT)),
        _ => None,
    }
}

fn create(name: &str, map: &aya_obj::Map) -> Result<Map, StartError> {
    let inner = map.inner().map(|inner| Map::create(name, shape(&inner), None)).transpose();
    let created = inner.and_then(|inner| Map::create(name, shape(map), inner.as_ref()));
    let created = created.map_err(|error| refused("create a map", error))?;
    if !map.data().is_empty() {
        // Read-only data of the program; frozen, so that the verifier takes it for constant.
        let filled = created.set(0, map.data()).and_then(|()| created.freeze());
        filled.map_err(|error| refused("fill a map", error))?;
    }
    Ok(created)
}

fn shape(map: &aya_obj::Map) -> Shape {
    const USER_RING: u32 = 31;
    let (kind, entries) = (map.map_type(), map.max_entries());
    // A ring has whole pages, and those of some machines are larger than the object supposes.
    let entries = if kind == USER_RING { entries.max(page_size() as u32) } else { entries };
    Shape { kind, key_size: map.key_size(), value_size: map.value_size(), entries, flags: map.map_flags() }
}

/// Relocates references to maps and functions.
fn link(object: &mut Object, maps: &HashMap<String, Map>) -> Result<(), StartError> {
    let sections: HashSet<usize> = object.functions.keys().map(|&(section, _)| section).collect();
    let described = object.maps.clone();
    let each = described.iter().filter_map(|(name, map)| {
        let created = maps.get(name)?;
        Some((name.as_str(), created.as_fd().as_raw_fd(), map))
    });
    object.relocate_maps(each, &sections).map_err(|error| wrong(&error))?;
    object.relocate_calls(&sections).map_err(|error| wrong(&error))
}

/// Returns the BTF features of the oldest supported kernel, 5.10. Later ones only describe what no program here uses.
fn features() -> BtfFeatures {
    let (functions, global, sections, empty_sections) = (true, true, true, false);
    let (floats, declaration_tags, type_tags, wide_enums) = (false, false, false, false);
    BtfFeatures::new(
        functions,
        global,
        sections,
        empty_sections,
        floats,
        declaration_tags,
        type_tags,
        wide_enums,
    )
}

fn refused(what: &'static str, error: io::Error) -> StartError {
    match error.raw_os_error() {
        Some(libc::EPERM) => match memlock::too_low() {
            Some(limit) if BPF.is_held() => StartError::LockedMemory { limit },
            _ => StartError::system("load the sampling program", &[BPF, PERFMON], error),
        },
        _ => StartError::System { what, error },
    }
}

fn missing(what: &str, name: &str) -> StartError {
    StartError::Object { what: format!("it has no {what} {name}") }
}

/// Returns an error with all its causes.
fn wrong(error: &dyn Error) -> StartError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    StartError::Object { what: text }
}
