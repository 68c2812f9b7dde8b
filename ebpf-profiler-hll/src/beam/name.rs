//! Reads the names of functions.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};
use ebpf_programs::abi::beam::{NAME, shape};
use ebpf_programs::abi::record::frame::SHAPE_SHIFT;
use ebpf_programs::walk::identity::beam::{Locations, code, function};

use super::atom::Atoms;
use super::characters::{characters, is_list};
use super::lines;
use super::modules::{Found, Modules, words};
use super::text;
use ebpf_profiler_core::language::Words;

/// The bits of a check that a frame holds.
const CHECKED: u32 = 0xff_ffff;

/// Name of code that all modules share.
const FRAGMENT: &str = "[beam fragment]";

/// Name of the loop of a scheduler.
const MAIN: &str = "process_main";

/// Names the functions of one process.
pub(super) struct Names {
    pub(super) modules: Modules,
    pub(super) atoms: Atoms,
    /// Addresses of code that all modules share.
    pub(super) shared: (u64, u64),
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let code = address & ((1 << SHAPE_SHIFT) - 1);
        let address = Address::of(address);
        match address {
            Address::Function(_) | Address::Code(_) => self.named(address, check, memory),
            Address::Main => Ok(Function::new(MAIN)),
            Address::Fragment if self.is_shared(code) => Ok(Function::new(FRAGMENT)),
            // Code of a module that was purged, or isn't loaded completely.
            Address::Fragment => Err(Reason::Replaced),
            Address::Unknown => Err(Reason::Implausible),
        }
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        match Address::of(address) {
            address @ (Address::Function(_) | Address::Code(_)) => {
                Ok(self.find(address, check, memory)?.is_some())
            }
            _ => Ok(true),
        }
    }
}

/// An address with its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    /// An `ErtsCodeInfo`.
    Function(u64),
    /// An instruction.
    Code(u64),
    Fragment,
    Main,
    Unknown,
}

impl Address {
    fn of(address: u64) -> Address {
        let code = address & ((1 << SHAPE_SHIFT) - 1);
        match (address >> SHAPE_SHIFT) as u8 {
            shape::FUNCTION => Address::Function(code),
            shape::ADDRESS => Address::Code(code),
            shape::FRAGMENT => Address::Fragment,
            shape::MAIN => Address::Main,
            _ => Address::Unknown,
        }
    }
}

impl Names {
    /// Returns `true` if the page at an address has code that all modules share.
    fn is_shared(&self, page: u64) -> bool {
        let (start, end) = self.shared;
        start & !4095 <= page && page < end
    }

    /// Returns the function at an address, if it has this check.
    fn find(&self, address: Address, check: u32, memory: &dyn Memory) -> Result<Option<Found>, Reason> {
        let check = check & CHECKED;
        match address {
            Address::Function(info) => {
                let found = self.modules.find(info, memory)?.filter(|found| found.info == info);
                Ok(found.filter(|found| is_of(found, check, memory)))
            }
            Address::Code(at) => {
                let is_same = code(&mut Words::new(memory), at, 0) == Some(check);
                if is_same { self.modules.find(at, memory) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    fn named(&mut self, address: Address, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let found = self.find(address, check, memory)?.ok_or(Reason::Replaced)?;
        if let Address::Code(at) = address
            && self.modules.is_jump(at, &found, memory).unwrap_or(false)
        {
            return Ok(Function::new(FRAGMENT));
        }
        let [module, function, arity] = words(found.info.wrapping_add(NAME), memory)?;
        let module = self.atoms.text(module, memory)?;
        let function = self.atoms.text(function, memory)?;
        let name = text::name(&module, &function, arity as u8);
        // A function with an unreadable line table still has its name.
        let lines = lines::read(&found, memory).unwrap_or_default();
        let file = match lines.file {
            Some(term) if is_list(term) => characters(term, memory).unwrap_or_default().into(),
            Some(atom) => self.atoms.text(atom, memory).unwrap_or_default(),
            None => Box::default(),
        };
        let named = Function::new(name).with_file(file).with_start_line(lines.start_line);
        Ok(match address {
            Address::Code(at) => {
                let mut line = Lines::default();
                line.push(0, lines.lines.at(at.wrapping_sub(found.info) as u32));
                named.with_lines(line)
            }
            _ => named.with_lines(lines.lines),
        })
    }
}

/// Returns `true` if a function has this check. Where the kernel side could not read its locations,
/// the check is that of the name.
fn is_of(found: &Found, check: u32, memory: &dyn Memory) -> bool {
    let words = &mut Words::new(memory);
    let locations = Locations::read(words, found.header, found.index).unwrap_or_default();
    let checks = [locations, Locations::default()].map(|it| function(words, found.info, it));
    checks.into_iter().flatten().any(|it| it & CHECKED == check)
}
