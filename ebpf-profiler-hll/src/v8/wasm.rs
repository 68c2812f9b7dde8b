//! Finds functions of WebAssembly by addresses in their code, which lies outside of the heap.
//!
//! ```text
//!   global_wasm_state ──► code manager: map of regions ──► NativeModule: map of codes ──► WasmCode ──► number of the function
//!                                                             └────────► bytes of the module ──► section "name"
//!
//!   std::map     … │ color │ root │ first │ last │ count         node   color │ parent │ left │ right │ key │ value
//!   region       start ──► end, NativeModule
//!   code         start ──► WasmCode
//!   WasmCode     NativeModule, from 8 on │ start of the instructions │ … │ their size │ … │ number of the function, or -1
//! ```
//!
//! In late versions all modules share the code that calls imported functions: a map of codes in the
//! state itself, whose codes have no module. A function that calls JavaScript often gets such code;
//! until then it uses a builtin.
//!
//! Offsets of the maps differ between versions: a map is recognized by the parent of its root,
//! which is the map itself. From 11 on codes that V8 itself did not search for yet are in a vector
//! behind the map.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::Memory;
use ebpf_profiler_core::process::LoadBias;

use super::symbols::Symbols;
use super::version::Version;

/// Symbols of the pointer to the engine's state: from 9 on, and before.
pub(super) const STATE: [&[u8]; 2] = [
    b"_ZN2v88internal4wasm12_GLOBAL__N_117global_wasm_stateE",
    b"_ZZN2v88internal4wasm12_GLOBAL__N_119GetSharedWasmEngineEvE6object",
];

/// Part of an object that is searched for a field, in bytes.
const SEARCHED: usize = 1024;

/// Maximum depth of a map.
const MAX_DEPTH: usize = 64;

/// Maximum number of maps that are taken from an object.
const MAX_MAPS: usize = 8;

/// Maximum number of codes in the vector.
const MAX_NEW: u64 = 1 << 12;

/// Maximum number of sections of a module that are looked at.
const MAX_SECTIONS: usize = 128;

/// Maximum size of a section that is read, in bytes.
const MAX_SECTION: usize = 1 << 22;

/// Size of what stands before the first section of a module, in bytes.
const HEADER: u64 = 8;

/// Maximum number of names of a module, and of their bytes.
const MAX_NAMES: usize = 1 << 18;
const MAX_NAME: usize = 2048;

/// Maximum number of modules that are kept.
const MAX_KEPT: usize = 64;

/// The script of functions of WebAssembly.
const FILE: &str = "wasm://wasm";

/// Name of code that calls JavaScript for an imported function.
const IMPORTED: &str = "(wasm to js)";

/// Name of code that calls functions of the module.
const JUMP_TABLE: &str = "(wasm jump table)";

/// Offsets of a version, and the virtual address of the state's pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WasmLayout {
    state: u64,
    /// Offset of the start of the instructions in a `WasmCode`.
    start: u64,
    size: u64,
    index: u64,
}

impl WasmLayout {
    /// Returns the layout of a file, `None` if it neither has symbols nor exports the engine.
    pub(super) fn find(elf: &Elf, symbols: &Symbols, version: Version) -> Option<WasmLayout> {
        let (start, size, index) = match version {
            Version(..8, _) => (0, 8, 56),
            Version(..11, _) => (8, 32, 48),
            Version(..13, _) => (8, 24, 44),
            _ => (8, 32, 56),
        };
        Some(WasmLayout { state: symbols.wasm_state.or_else(|| loaded_state(elf))?, start, size, index })
    }
}

/// Returns the address of the pointer to the engine's state, which an exported function loads.
fn loaded_state(elf: &Elf) -> Option<u64> {
    let at = elf.exports()?.get("_ZN2v88internal4wasm13GetWasmEngineEv")?.address;
    let mut code = [0; 7];
    elf.read(at, &mut code).ok()?;
    // mov rax, [rip + n]
    let [0x48, 0x8b, 0x05, distance @ ..] = code else { return None };
    Some(at.wrapping_add(7).wrapping_add_signed(i32::from_le_bytes(distance).into()))
}

/// The modules of a process.
pub(super) struct Modules {
    layout: WasmLayout,
    /// Differences between addresses in the process and in the file, one of which is right.
    biases: Vec<LoadBias>,
    /// Addresses of the roots of the maps in the state, once it is there.
    maps: Vec<u64>,
    modules: HashMap<u64, Arc<Module>>,
}

/// A function of a module.
pub(super) struct WasmFunction {
    pub(super) name: String,
    pub(super) file: &'static str,
}

/// A `NativeModule`.
struct Module {
    /// Addresses of the roots of its maps, one of which is that of codes.
    codes: Vec<u64>,
    /// Address and size of the module's bytes.
    bytes: (u64, u64),
    /// Hash of its [end](hash_of_end).
    end: u64,
    imported: u32,
    names: HashMap<u32, String>,
}

impl Modules {
    pub(super) fn new(layout: WasmLayout, biases: Vec<LoadBias>) -> Modules {
        Modules { layout, biases, maps: Vec::new(), modules: HashMap::new() }
    }

    /// Returns the function whose code covers an address.
    pub(super) fn function(&mut self, memory: &dyn Memory, pc: u64) -> Option<WasmFunction> {
        self.find_maps(memory);
        let own = self.function_of_module(memory, pc);
        own.or_else(|| {
            let is_shared = self.is_shared(memory, pc);
            is_shared.then(|| WasmFunction { name: IMPORTED.to_owned(), file: FILE })
        })
    }

    /// Finds the maps in the state, which stays where it is.
    fn find_maps(&mut self, memory: &dyn Memory) {
        if !self.maps.is_empty() {
            return;
        }
        let states = self.biases.iter().filter_map(|&bias| self.state(memory, bias));
        self.maps = states
            .map(|state| maps(memory, state).collect())
            .find(|maps: &Vec<u64>| !maps.is_empty())
            .unwrap_or_default();
    }

    fn function_of_module(&mut self, memory: &dyn Memory, pc: u64) -> Option<WasmFunction> {
        let owner = self.owner(memory, pc)?;
        let module = self.module(memory, owner)?;
        let index = self.index(memory, owner, &module, pc)?;
        let name = match module.names.get(&index) {
            _ if index == u32::MAX => JUMP_TABLE.to_owned(),
            _ if index < module.imported => IMPORTED.to_owned(),
            Some(name) => name.clone(),
            None => format!("wasm-function[{index}]"),
        };
        Some(WasmFunction { name, file: FILE })
    }

    /// Returns the address of the engine's state.
    fn state(&self, memory: &dyn Memory, bias: LoadBias) -> Option<u64> {
        memory.u64(bias.in_process(self.layout.state)).ok().filter(|&state| state != 0)
    }

    /// Returns `true` if code without a module covers an address.
    fn is_shared(&self, memory: &dyn Memory, pc: u64) -> bool {
        let covers = |code: u64| memory.u64(code) == Ok(0) && self.code_at(memory, code, pc).is_some();
        let code = |map: u64| last_up_to(memory, map, pc).and_then(|code| memory.u64(code).ok());
        self.maps.iter().any(|&map| code(map).is_some_and(covers))
    }

    /// Returns the number of the function of a `WasmCode` if it covers an address.
    fn code_at(&self, memory: &dyn Memory, code: u64, pc: u64) -> Option<u32> {
        let start = memory.u64(code.wrapping_add(self.layout.start)).ok()?;
        let size = memory.u32(code.wrapping_add(self.layout.size)).ok()?;
        let index = memory.u32(code.wrapping_add(self.layout.index)).ok()?;
        (pc.wrapping_sub(start) < size.into()).then_some(index)
    }

    /// Returns the address of the `NativeModule` that owns the region of an address.
    fn owner(&self, memory: &dyn Memory, pc: u64) -> Option<u64> {
        self.maps.iter().find_map(|&map| {
            let region = last_up_to(memory, map, pc)?;
            let end = memory.u64(region).ok()?;
            (pc < end).then(|| memory.u64(region.wrapping_add(8)).ok())?
        })
    }

    /// Returns a module, which it reads the first time.
    fn module(&mut self, memory: &dyn Memory, at: u64) -> Option<Arc<Module>> {
        let bytes = bytes_of(memory, at)?;
        let end = hash_of_end(memory, bytes)?;
        if let Some(known) = self.modules.get(&at).filter(|known| (known.bytes, known.end) == (bytes, end)) {
            return Some(known.clone());
        }
        let codes = maps(memory, at).collect();
        let (imported, names) = read_names(memory, bytes);
        let module = Arc::new(Module { codes, bytes, end, imported, names });
        if self.modules.len() >= MAX_KEPT {
            self.modules.clear();
        }
        self.modules.insert(at, module.clone());
        Some(module)
    }

    /// Returns the number of the function whose code in a module covers an address.
    fn index(&self, memory: &dyn Memory, owner: u64, module: &Module, pc: u64) -> Option<u32> {
        let covers = |code: u64| self.code_at(memory, code, pc);
        module.codes.iter().find_map(|&map| {
            let code = last_up_to(memory, map, pc).and_then(|code| memory.u64(code).ok());
            code.and_then(covers).or_else(|| new_codes(memory, map, owner).find_map(covers))
        })
    }
}

/// Returns the codes in the vector behind the map of codes.
fn new_codes(memory: &dyn Memory, map: u64, owner: u64) -> impl Iterator<Item = u64> + '_ {
    let word = |offset: u64| memory.u64(map.wrapping_add(offset)).unwrap_or(0);
    let (first, end) = (word(32), word(40));
    let count = Some(end.wrapping_sub(first) / 8).filter(|&count| is_pointer(first) && count <= MAX_NEW);
    let codes = (0..count.unwrap_or(0)).map_while(move |at| memory.u64(first.wrapping_add(at * 8)).ok());
    codes.take_while(move |&code| memory.u64(code) == Ok(owner))
}

/// Returns the addresses of the roots of maps in an object.
fn maps(memory: &dyn Memory, object: u64) -> impl Iterator<Item = u64> + '_ {
    fields(memory, object)
        .filter(move |&(field, root)| match root {
            // An empty map: its first node is the map.
            0 => memory.u64(field.wrapping_add(8)) == Ok(field.wrapping_sub(8)),
            _ => is_pointer(root) && memory.u64(root.wrapping_add(8)) == Ok(field.wrapping_sub(8)),
        })
        .map(|(field, _)| field)
        .take(MAX_MAPS)
}

/// Returns the addresses of an object's fields, with their words.
fn fields(memory: &dyn Memory, object: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut bytes = [0; SEARCHED];
    // An object at the end of a mapping.
    if memory.read(object, &mut bytes).is_err() {
        let _ = memory.read(object, &mut bytes[..SEARCHED / 2]);
    }
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
    (0..).map(move |number| object.wrapping_add(number * 8)).zip(words)
}

fn is_pointer(word: u64) -> bool {
    word > 1 << 12 && word < 1 << 47 && word.is_multiple_of(8)
}

/// Returns the address behind the greatest key of a map up to `key`, where the value is.
fn last_up_to(memory: &dyn Memory, map: u64, key: u64) -> Option<u64> {
    let mut node = memory.u64(map).ok()?;
    let mut found = None;
    for _ in 0..MAX_DEPTH {
        if node == 0 {
            break;
        }
        let is_below = memory.u64(node.wrapping_add(32)).ok()? <= key;
        if is_below {
            found = Some(node.wrapping_add(40));
        }
        node = memory.u64(node.wrapping_add(if is_below { 24 } else { 16 })).ok()?;
    }
    found
}

/// Returns address and size of a module's bytes, to which one of its fields leads.
fn bytes_of(memory: &dyn Memory, module: u64) -> Option<(u64, u64)> {
    const MAGIC: [u8; 4] = *b"\0asm";
    fields(memory, module).map(|(_, word)| word).filter(|&word| is_pointer(word)).find_map(|vector| {
        let bytes = memory.u64(vector).ok()?;
        let magic = memory.array(bytes).ok()?;
        (magic == MAGIC).then(|| Some((bytes, memory.u64(vector.wrapping_add(8)).ok()?)))?
    })
}

/// Returns a hash of the last 64 KiB of a module, where the names of its functions are: a module
/// that was freed is replaced by one of the same size at the same address.
fn hash_of_end(memory: &dyn Memory, (module, size): (u64, u64)) -> Option<u64> {
    const END: u64 = 1 << 16;
    let length = size.min(END);
    let end = memory.bytes(module.wrapping_add(size - length), length, END as usize).ok()?;
    Some(BuildHasherDefault::<DefaultHasher>::default().hash_one(end))
}

/// Reads the number of imported functions and the names of functions from a module at an address,
/// of a size.
fn read_names(memory: &dyn Memory, (module, size): (u64, u64)) -> (u32, HashMap<u32, String>) {
    const CUSTOM: u8 = 0;
    const IMPORTS: u8 = 2;
    let (mut imported, mut names) = (0, HashMap::new());
    let mut at = HEADER;
    for _ in 0..MAX_SECTIONS {
        let Some((kind, start, length)) = section_at(memory, module, at, size) else { break };
        at = start + length;
        if kind != IMPORTS && kind != CUSTOM {
            continue;
        }
        let Ok(bytes) = memory.bytes(module.wrapping_add(start), length, MAX_SECTION) else { continue };
        let mut section = Bytes(&bytes);
        if kind == IMPORTS {
            imported = count_imports(&mut section).unwrap_or(0);
        } else if section.text() == Some(b"name") {
            read_functions(&mut section, &mut names);
        }
    }
    (imported, names)
}

/// Returns kind, offset and size of the contents of the section at an offset of a module.
fn section_at(memory: &dyn Memory, module: u64, at: u64, size: u64) -> Option<(u8, u64, u64)> {
    // A kind and a number.
    const MAX_HEADER_SIZE: u64 = 6;
    let there = size.checked_sub(at)?.min(MAX_HEADER_SIZE);
    let bytes = memory.bytes(module.wrapping_add(at), there, MAX_HEADER_SIZE as usize).ok()?;
    let mut head = Bytes(&bytes);
    let (kind, length) = (head.byte()?, u64::from(head.number()?));
    let start = at + there - head.0.len() as u64;
    (length <= size - start).then_some((kind, start, length))
}

/// Reads the names of functions from the contents of a section of names.
fn read_functions(section: &mut Bytes<'_>, names: &mut HashMap<u32, String>) {
    const FUNCTIONS: u8 = 1;
    while let Some((kind, mut part)) = section.part() {
        if kind == FUNCTIONS {
            read_map(&mut part, names);
        }
    }
}

/// Counts the functions in the section of imports. Imports behind one of a kind that is not known
/// are not counted.
fn count_imports(section: &mut Bytes<'_>) -> Option<u32> {
    const FUNCTION: u8 = 0;
    let mut functions = 0;
    for _ in 0..section.number()? {
        let (_, _) = (section.text()?, section.text()?);
        match section.byte()? {
            FUNCTION => {
                functions += 1;
                section.number()?;
            }
            // Tables and memories have limits, globals a type and a flag, tags a flag and a type.
            kind @ (1 | 2) => {
                if kind == 1 {
                    section.byte()?;
                }
                let flags = section.byte()?;
                section.number()?;
                if flags & 1 != 0 {
                    section.number()?;
                }
            }
            3 => {
                let (_, _) = (section.byte()?, section.byte()?);
            }
            4 => {
                section.byte()?;
                section.number()?;
            }
            _ => break,
        }
    }
    Some(functions)
}

/// Reads a map of names.
fn read_map(part: &mut Bytes<'_>, names: &mut HashMap<u32, String>) -> Option<()> {
    for _ in 0..part.number()? {
        let index = part.number()?;
        let name = part.text()?;
        if names.len() >= MAX_NAMES {
            return None;
        }
        let name = name.get(..MAX_NAME).unwrap_or(name);
        names.insert(index, String::from_utf8_lossy(name).into_owned());
    }
    Some(())
}

/// The bytes of a module that follow.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// Reads a number in groups of seven bits.
    fn number(&mut self) -> Option<u32> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// Reads bytes behind their number.
    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    /// Reads a part of a section: its kind and its bytes.
    fn part(&mut self) -> Option<(u8, Bytes<'b>)> {
        let kind = self.byte()?;
        Some((kind, Bytes(self.text()?)))
    }
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;

    /// Reads the names of a module at address 0.
    fn names_of(module: &[u8]) -> (u32, HashMap<u32, String>) {
        let read = |address: u64, buffer: &mut [u8]| {
            let rest = module.get(address as usize..).ok_or(Unreadable)?;
            buffer.copy_from_slice(rest.get(..buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        read_names(&read, (0, module.len() as u64))
    }

    #[test]
    fn reads_names_of_functions() {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        // Two imports: a memory with a maximum, and a function.
        module.extend(b"\x02\x0f\x02\x01e\x01m\x02\x01\x01\x02\x01e\x01f\x00\x00");
        module.extend(b"\x00\x0e\x04name\x01\x07\x01\x81\x01\x03add");
        let (imported, names) = names_of(&module);
        assert_eq!((imported, names), (1, HashMap::from([(129, "add".to_owned())])));
    }

    #[test]
    fn truncated_modules_have_the_names_before_the_end() {
        let module = b"\0asm\x01\0\0\0\x00\x12\x04name\x01\x0b\x02\x00\x01a\x01\xff\xff\xff\xff\xff\x7f";
        for end in 0..module.len() {
            assert!(names_of(&module[..end]).1.is_empty(), "{end}");
        }
        assert_eq!(names_of(module).1, HashMap::from([(0, "a".to_owned())]));
    }
}
