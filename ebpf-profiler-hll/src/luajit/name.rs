//! Reads the names of functions.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};
use ebpf_programs::abi::interpreter::fold;
use ebpf_programs::abi::luajit::{kind, shape, value};
use ebpf_programs::abi::record::frame::SHAPE_SHIFT;
use ebpf_programs::walk::identity::luajit::Prototype;

use super::build::Build;
use super::caller;
use super::prototype;
use ebpf_profiler_core::language::Words;

/// The bits of a check that a frame holds.
const CHECKED: u32 = 0xff_ffff;

/// Name of functions in C that have none.
const NATIVE: &str = "[C]";

/// Name of code of a file outside functions.
const MAIN: &str = "main chunk";

/// Maximum length of the source text in the name of a chunk, in bytes.
const MAX_SOURCE: usize = 48;

/// Names the functions of one process.
pub(super) struct Names(pub(super) Build);

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        self.named(address, check, None, memory)
    }

    fn called_function(
        &mut self,
        address: u64,
        check: u32,
        caller: (u64, u32),
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        // A caller that cannot be read names nothing.
        let name = self.call_name(caller, memory).ok().flatten();
        self.named(address, check, name, memory)
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let current = match address >> SHAPE_SHIFT {
            shape::LUA => {
                let prototype = Prototype::read(&mut Words::new(memory), address, self.0.is_compact());
                prototype.ok_or(Reason::Unreadable)?.check & CHECKED
            }
            _ => self.native_check(address & value::ADDRESS, memory)?,
        };
        Ok(current == check & CHECKED)
    }
}

impl Names {
    /// Returns the check of a function in C.
    fn native_check(&self, address: u64, memory: &dyn Memory) -> Result<u32, Reason> {
        let code = memory.u64(address.wrapping_add(self.0.layout.function.native as u64))?;
        Ok(fold(&[code, 0, 0], 1) & CHECKED)
    }

    /// Returns the name by which a caller's instruction calls a function.
    fn call_name(
        &self,
        (address, position): (u64, u32),
        memory: &dyn Memory,
    ) -> Result<Option<String>, Reason> {
        if address >> SHAPE_SHIFT != shape::LUA {
            return Ok(None);
        }
        caller::name(&prototype::Prototype::read(address, self.0, memory)?, position, memory)
    }

    fn named(
        &mut self,
        address: u64,
        check: u32,
        name: Option<String>,
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        match address >> SHAPE_SHIFT {
            shape::LUA => self.lua(address, check, name, memory),
            shape::NATIVE => self.native(address & value::ADDRESS, check, name, memory),
            _ => Err(Reason::Implausible),
        }
    }

    fn lua(
        &mut self,
        address: u64,
        check: u32,
        name: Option<String>,
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        let prototype = prototype::Prototype::read(address, self.0, memory)?;
        if !self.is_current(address, check, memory)? {
            return Err(Reason::Replaced);
        }
        let chunk = prototype.chunk(memory)?;
        let file = file(&chunk);
        let start_line = prototype.first_line();
        let name = match name {
            Some(name) => name,
            None if start_line == 0 => MAIN.to_owned(),
            None => format!("{}:{start_line}", file.rsplit('/').next().unwrap_or(&file)),
        };
        // A function with an unreadable line table still has its name.
        let lines = prototype.lines(memory).unwrap_or_else(|_| Lines::default());
        Ok(Function::new(name).with_file(file).with_start_line(start_line).with_lines(lines))
    }

    fn native(
        &self,
        address: u64,
        check: u32,
        name: Option<String>,
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        let layout = self.0.layout;
        let head: [u8; 16] = memory.array(address)?;
        if head[layout.kind] != kind::FUNCTION || head[layout.function.number] == 0 {
            return Err(Reason::Implausible);
        }
        if self.native_check(address, memory)? != check & CHECKED {
            return Err(Reason::Replaced);
        }
        Ok(Function::new(name.unwrap_or_else(|| NATIVE.to_owned())))
    }
}

/// Returns the file of a chunk, from its name.
fn file(chunk: &str) -> String {
    if let Some(rest) = chunk.strip_prefix(['@', '=']) {
        return rest.to_owned();
    }
    let line = chunk.lines().next().unwrap_or_default();
    let end = (0..=line.len().min(MAX_SOURCE)).rev().find(|&end| line.is_char_boundary(end)).unwrap_or(0);
    let dots = if end < chunk.len() { "…" } else { "" };
    format!("[string \"{}{dots}\"]", &line[..end])
}

#[test]
fn chunks_have_files_names_or_source() {
    assert_eq!(file("@/app/shapes.lua"), "/app/shapes.lua");
    assert_eq!(file("=stdin"), "stdin");
    assert_eq!(file("return 1"), "[string \"return 1\"]");
    assert_eq!(file("x = 1\ny = 2"), "[string \"x = 1…\"]");
    assert_eq!(file(&"é".repeat(50)), format!("[string \"{}…\"]", "é".repeat(24)));
}
