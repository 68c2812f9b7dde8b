//! Writer of cases.

use std::fmt;

use ebpf_profiler_core::elf::Arch;

use super::{Case, CaseMapping};
use crate::rule::Rule;

/// Maximum number of words of memory per line.
const WORDS: usize = 4;

pub(super) const X86_64: &str = "x86_64";
pub(super) const AARCH64: &str = "aarch64";

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "case 1\nabout {}", self.about)?;
        writeln!(f, "arch {}", if self.arch == Arch::X86_64 { X86_64 } else { AARCH64 })?;
        writeln!(f, "pc {:x}", self.registers.pc)?;
        for (number, value) in self.registers.values.iter().enumerate() {
            if self.registers.known >> number & 1 != 0 {
                writeln!(f, "register {number} {value:x}")?;
            }
        }
        if self.registers.thread != 0 {
            writeln!(f, "thread {:x}", self.registers.thread)?;
        }
        for interpreter in &self.interpreters {
            writeln!(f, "interpreter {interpreter}")?;
        }
        self.mappings.iter().try_for_each(|mapping| self.write_mapping(mapping, f))?;
        self.write_memory(f)?;
        for (frame, name) in self.expected.frames.iter().zip(&self.names) {
            let comment = if name.is_empty() { "" } else { "  # " };
            writeln!(f, "frame {frame}{comment}{name}")?;
        }
        writeln!(f, "stop {}  # {}", self.expected.stop as u8, self.expected.stop)
    }
}

impl Case {
    fn write_mapping(&self, mapping: &CaseMapping, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaseMapping { start, end, bias, build_id, path, .. } = mapping;
        let kind = match (mapping.has_table, mapping.is_owned) {
            (true, _) => "table",
            (_, true) => "runtime",
            _ => "bare",
        };
        write!(f, "mapping {start:x} {end:x} {bias:x} {kind}")?;
        match mapping.interpreter {
            0 => f.write_str(" ")?,
            interpreter => write!(f, ":{interpreter} ")?,
        }
        match build_id[..] {
            [] => f.write_str("-")?,
            _ => build_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?,
        }
        writeln!(f, "{}{path}", if path.is_empty() { "" } else { " " })?;
        for &(address, rule) in &mapping.rows {
            let kinds = [rule.cfa, rule.register, rule.ra, rule.fp].map(|kind| kind.to_string()).join(" ");
            let numbers = [rule.offset, rule.aux, rule.fp_offset].map(|number| number.to_string()).join(" ");
            writeln!(f, "row {address:x} {kinds} {numbers}  # {}", Rule::new(rule, self.arch))?;
        }
        Ok(())
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line: Option<(u64, Vec<u64>)> = None;
        for (address, word) in self.memory.iter() {
            match &mut line {
                Some((start, words)) if words.len() < WORDS && *start + words.len() as u64 * 8 == address => {
                    words.push(word);
                }
                _ => {
                    write_words(line.replace((address, vec![word])), f)?;
                }
            }
        }
        write_words(line, f)
    }
}

fn write_words(line: Option<(u64, Vec<u64>)>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some((address, words)) = line else { return Ok(()) };
    write!(f, "memory {address:x}")?;
    words.iter().try_for_each(|word| write!(f, " {word:x}"))?;
    writeln!(f)
}
