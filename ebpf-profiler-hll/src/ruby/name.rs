//! Reads the names of functions from instruction sequences and method entries.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};
use ebpf_programs::abi::interpreter::fold;
use ebpf_programs::abi::ruby::{self, IDENTITY_SHIFT, KIND, imemo, method_entry};
use ebpf_programs::walk::identity::LastText;
use ebpf_programs::walk::identity::ruby::Body;

use super::class::Classes;
use super::lines;
use super::object::{self, kind};
use super::offsets::Offsets;
use super::symbol::Symbols;
use ebpf_profiler_core::language::Words;

/// The bits of a check that a frame holds.
const CHECKED: u32 = 0xff_ffff;

/// Distance of the addresses that agree in the bits of a check: 24 bits, and three that are 0.
const WINDOW: u64 = 1 << 27;

/// Number of windows that are searched on each side of an instruction sequence.
const WINDOWS: u64 = 64;

/// Maximum number of distant windows that are kept.
const MAX_DISTANT: usize = 8;

/// Number of bytes that are read of the body of an instruction sequence.
const BODY: usize = 192;

/// Offsets in the body of an instruction sequence, in all versions.
const BASE_LABEL: usize = 72;

/// Name of the garbage collector's frame.
const COLLECTION: &str = "[garbage collection]";

/// Type of evaluated code, in the first four bytes of a body.
const EVALUATED: u64 = 6;

/// Maximum depth of evaluated code in evaluated code.
const MAX_EVALUATED: usize = 8;

/// Types of methods.
mod definition {
    pub(super) const MASK: u64 = 15;
    pub(super) const SEQUENCE: u64 = 0;
    pub(super) const BLOCK: u64 = 4;
    /// Offset of the instruction sequence.
    pub(super) const BODY: usize = 8;
    /// Offset of the original name.
    pub(super) const NAME: usize = 32;
}

/// Names the functions of one process.
pub(super) struct Names {
    offsets: Offsets,
    symbols: Symbols,
    /// Windows far from instruction sequences in which method entries were found.
    distant: Vec<u64>,
}

/// A method: the type of its definition, its identifier, and the class that has it.
struct Method {
    definition: u64,
    name: u64,
    owner: u64,
}

impl Names {
    pub(super) fn new(offsets: Offsets, symbols: Symbols) -> Names {
        Names { offsets, symbols, distant: Vec::new() }
    }

    /// Names a method in C.
    fn c_function(&self, entry: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let words = words::<{ method_entry::READ as usize }>(entry, memory)?;
        let word = |at: usize| word(&words, at);
        if !is_entry_of(&words, check) {
            return Err(Reason::Replaced);
        }
        let name = memory.u64(word(method_entry::DEFINITION).wrapping_add(definition::NAME as u64))?;
        let method = Method { definition: 0, name, owner: word(method_entry::OWNER) };
        Ok(Function::new(self.qualified(&method, memory)?))
    }

    /// Names an instruction sequence.
    fn sequence(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let (kind, sequence) = (address & KIND, address & !KIND & ((1 << IDENTITY_SHIFT) - 1));
        let body = memory.u64(sequence.wrapping_add(ruby::BODY))?;
        let words = words::<BODY>(body, memory)?;
        let word = |at: usize| word(&words, at);
        let (size, instructions) = ((word(ruby::body::SIZE) >> 32) as u32, word(ruby::body::INSTRUCTIONS));
        let identity = self.identity(body, memory)?;
        if !is_check_of(identity, address, check) {
            return Err(Reason::Replaced);
        }
        let text = |object: u64| object::text(object, &self.offsets, memory);
        let named = self.named_by(&words, memory);
        let label = text(self::word(&named, ruby::body::LABEL))?;
        let base = text(self::word(&named, BASE_LABEL)).unwrap_or_default();
        let path = self.path(word(ruby::body::PATH), memory).unwrap_or_default();
        let start_line = (word(ruby::body::FIRST_LINE) as u32) >> self.offsets.first_line_shift;
        let local = self::word(&named, self.offsets.local as usize);
        let method = match kind {
            ruby::kind::PLAIN => None,
            _ => self.method(check ^ identity, sequence, local, memory),
        };
        let name = match method {
            Some(method) => self.in_method(&label, &base, kind, &method, memory),
            None => label,
        };
        // A function with an unreadable line table still has its name.
        let lines = lines::read(body, instructions, size, &self.offsets, memory);
        let lines = lines.unwrap_or_else(|_| {
            let mut lines = Lines::default();
            lines.push(0, start_line);
            lines
        });
        Ok(Function::new(name).with_file(path).with_start_line(start_line).with_lines(lines))
    }

    /// Returns the body that has the label of a body: for evaluated code, which has a label of its
    /// own from 3.4 on, that of the code around it.
    fn named_by(&self, body: &[u8; BODY], memory: &dyn Memory) -> [u8; BODY] {
        let mut body = *body;
        for _ in 0..MAX_EVALUATED {
            let parent = word(&body, self.offsets.parent as usize);
            if word(&body, ruby::body::SIZE) & u64::from(u32::MAX) != EVALUATED || parent == 0 {
                break;
            }
            let of_parent = memory.u64(parent.wrapping_add(ruby::BODY)).map_err(Reason::from);
            let Ok(of_parent) = of_parent.and_then(|at| words(at, memory)) else { break };
            body = of_parent;
        }
        body
    }

    /// Replaces the name at the end of a label by the qualified one: `block in baz` becomes `block
    /// in Foo::Bar#baz`.
    fn in_method(&self, label: &str, base: &str, kind: u64, method: &Method, memory: &dyn Memory) -> String {
        if method.definition == definition::BLOCK {
            let Ok(name) = self.qualified(method, memory) else { return label.to_owned() };
            return if kind == ruby::kind::DEFINED { name } else { format!("block in {name}") };
        }
        let classes = Classes { offsets: &self.offsets, symbols: &self.symbols, memory };
        let prefix = classes.prefix(method.owner).unwrap_or_default();
        match label.strip_suffix(base) {
            Some(before) => format!("{before}{prefix}{base}"),
            None => label.to_owned(),
        }
    }

    fn qualified(&self, method: &Method, memory: &dyn Memory) -> Result<String, Reason> {
        let name = self.symbols.name(method.name, &self.offsets, memory)?;
        let classes = Classes { offsets: &self.offsets, symbols: &self.symbols, memory };
        Ok(classes.prefix(method.owner).unwrap_or_default() + &name)
    }

    /// Returns the check of a body, as the kernel side computes it.
    fn identity(&self, body: u64, memory: &dyn Memory) -> Result<u32, Reason> {
        let data = self.offsets.text.data.into();
        let body = Body::read(&mut Words::new(memory), body, data, &mut LastText::default());
        body.map(|body| body.check).ok_or(Reason::Implausible)
    }

    /// Finds the method entry of an instruction sequence, of whose address `low` holds 24 bits. It
    /// leads back to the sequence, or to that of its method.
    fn method(&mut self, low: u32, sequence: u64, local: u64, memory: &dyn Memory) -> Option<Method> {
        let low = u64::from(low & CHECKED) << 3;
        let home = sequence & !(WINDOW - 1);
        let near = (1..=WINDOWS).flat_map(|number| {
            let distance = number.wrapping_mul(WINDOW);
            [home.wrapping_add(distance), home.wrapping_sub(distance)]
        });
        let windows = std::iter::once(home).chain(self.distant.iter().copied()).chain(near);
        let (window, method) = windows
            .filter_map(|window| Some((window, method_at(window | low, [sequence, local], memory)?)))
            .next()?;
        if window != home && !self.distant.contains(&window) {
            self.distant.truncate(MAX_DISTANT - 1);
            self.distant.insert(0, window);
        }
        Some(method)
    }

    /// Returns the path of a file: a string, or an array of the path as given and the real one.
    fn path(&self, object: u64, memory: &dyn Memory) -> Result<String, Reason> {
        let flags = object::flags(object, memory)?;
        let path = match flags & kind::MASK {
            kind::ARRAY => object::element(object, 0, &self.offsets, memory)?,
            _ => object,
        };
        object::text(path, &self.offsets, memory)
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        match address & KIND {
            ruby::kind::PLAIN | ruby::kind::METHOD | ruby::kind::DEFINED => {
                self.sequence(address, check, memory)
            }
            ruby::kind::FUNCTION => self.c_function(address & !KIND, check, memory),
            ruby::kind::COLLECTION => Ok(Function::new(COLLECTION)),
            _ => Err(Reason::Implausible),
        }
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        match address & KIND {
            ruby::kind::COLLECTION => Ok(true),
            ruby::kind::FUNCTION => Ok(is_entry_of(&words(address & !KIND, memory)?, check)),
            _ => {
                let sequence = address & !KIND & ((1 << IDENTITY_SHIFT) - 1);
                let body = memory.u64(sequence.wrapping_add(ruby::BODY))?;
                Ok(is_check_of(self.identity(body, memory)?, address, check))
            }
        }
    }
}

/// Returns `true` if these are the words of a method entry of a method in C with a check.
fn is_entry_of(words: &[u8; method_entry::READ as usize], check: u32) -> bool {
    let identity = [method_entry::DEFINITION, method_entry::CALLED, method_entry::OWNER];
    let identity = fold(&identity.map(|at| word(words, at)), 3);
    is_entry(word(words, 0)) && identity & CHECKED == check & CHECKED
}

/// Returns `true` if a frame with an address and a check is of the instruction sequence with this
/// check.
fn is_check_of(identity: u32, address: u64, check: u32) -> bool {
    match address & KIND {
        ruby::kind::PLAIN => identity & CHECKED == check & CHECKED,
        _ => u64::from(identity) & 0xff == address >> IDENTITY_SHIFT & 0xff,
    }
}

/// Returns the method of the entry at an address, if it is one of these instruction sequences or a
/// block.
fn method_at(address: u64, sequences: [u64; 2], memory: &dyn Memory) -> Option<Method> {
    let words = words::<{ method_entry::READ as usize }>(address, memory).ok()?;
    if !is_entry(word(&words, 0)) {
        return None;
    }
    let defined: [u8; 40] = self::words(word(&words, method_entry::DEFINITION), memory).ok()?;
    let definition = word(&defined, 0) & definition::MASK;
    let is_right = match definition {
        definition::SEQUENCE => sequences.contains(&word(&defined, definition::BODY)),
        definition::BLOCK => true,
        _ => false,
    };
    is_right.then(|| Method {
        definition,
        name: word(&defined, definition::NAME),
        owner: word(&words, method_entry::OWNER),
    })
}

/// Returns `true` if these are the flags of a method entry.
fn is_entry(flags: u64) -> bool {
    flags & kind::MASK == imemo::OBJECT && flags >> imemo::SHIFT & imemo::TYPE == imemo::METHOD_ENTRY
}

fn words<const N: usize>(address: u64, memory: &dyn Memory) -> Result<[u8; N], Reason> {
    if !object::is_address(address) {
        return Err(Reason::Implausible);
    }
    Ok(memory.array(address)?)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default();
    bytes.first_chunk().copied().map_or(0, u64::from_le_bytes)
}
