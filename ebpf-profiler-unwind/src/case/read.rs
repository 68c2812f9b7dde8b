//! Parser of cases; accepts any text.

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::InvalidWalker;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::registers::{COUNT, Registers};
use ebpf_programs::abi::table::Rule;

use super::write::{AARCH64, X86_64};
use super::{Case, CaseMapping, Outcome, Words};

/// Parse error of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseError {
    /// Line number, from 1 on.
    pub line: usize,
    /// Description of the error.
    pub what: &'static str,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for CaseError {}

type Result<T> = std::result::Result<T, &'static str>;

/// Maximum distance of the rows of one mapping: the reach of a table.
const MAX_REACH: u64 = 1 << 32;

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> std::result::Result<Case, CaseError> {
        let mut reader = Reader::new();
        let mut count = 0;
        for line in text.lines() {
            count += 1;
            reader.line(line).map_err(|what| CaseError { line: count, what })?;
        }
        reader.finish().map_err(|what| CaseError { line: count, what })
    }
}

/// A partly parsed case.
struct Reader {
    case: Case,
    has_version: bool,
    stop: Option<Stop>,
}

impl Reader {
    fn new() -> Reader {
        let case = Case {
            about: String::new(),
            arch: Arch::X86_64,
            registers: Registers::default(),
            interpreters: Vec::new(),
            mappings: Vec::new(),
            memory: Words::default(),
            expected: Outcome { frames: Vec::new(), stop: Stop::Root },
            names: Vec::new(),
        };
        Reader { case, has_version: false, stop: None }
    }

    fn finish(mut self) -> Result<Case> {
        self.case.expected.stop = self.stop.ok_or("the end is missing")?;
        Ok(self.case)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if self.stop.is_some() {
            return Err("something behind the end");
        }
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !self.has_version {
            self.has_version = true;
            return if line == "case 1" { Ok(()) } else { Err("not a case of version 1") };
        }
        let mut words = Fields(rest.split_whitespace());
        match keyword {
            "about" => self.case.about = rest.to_owned(),
            "arch" => self.case.arch = arch(rest)?,
            "pc" => self.case.registers.pc = words.hex()?,
            "register" => self.register(&mut words)?,
            "thread" => self.case.registers.thread = words.hex()?,
            "interpreter" => {
                let walker = rest.parse().map_err(|error: InvalidWalker| error.reason())?;
                self.case.interpreters.push(walker);
                return Ok(());
            }
            "mapping" => return self.mapping(rest),
            "row" => self.row(&mut words)?,
            "memory" => return self.memory(&mut words),
            "frame" => return self.frame(rest),
            "stop" => self.stop = Some(Stop::from_number(words.number()?).ok_or("an unknown reason")?),
            _ => return Err("an unknown kind of line"),
        }
        match keyword {
            "about" | "arch" => Ok(()),
            _ => words.end(),
        }
    }

    fn register(&mut self, words: &mut Fields<'_>) -> Result<()> {
        let number: usize = words.number()?;
        let value = words.hex()?;
        *self.case.registers.values.get_mut(number).ok_or("an unknown register")? = value;
        self.case.registers.known |= 1 << (number % COUNT);
        Ok(())
    }

    fn mapping(&mut self, rest: &str) -> Result<()> {
        let mut parts = rest.splitn(6, ' ');
        let mut part = || parts.next().ok_or("a mapping with too few words");
        let (start, end, bias) = (hex(part()?)?, hex(part()?)?, hex(part()?)?);
        let kind = part()?;
        let (kind, interpreter) = kind.split_once(':').unwrap_or((kind, "0"));
        let interpreter = interpreter.parse().map_err(|_| "an invalid number")?;
        let (has_table, is_owned) = match kind {
            "table" => (true, false),
            "bare" => (false, false),
            "runtime" => (false, true),
            _ => return Err("neither table nor bare nor runtime"),
        };
        let build_id = bytes(part()?)?;
        let path = part().unwrap_or_default().to_owned();
        let rows = Vec::new();
        self.case.mappings.push(CaseMapping {
            start,
            end,
            bias,
            has_table,
            interpreter,
            is_owned,
            build_id,
            path,
            rows,
        });
        Ok(())
    }

    fn row(&mut self, words: &mut Fields<'_>) -> Result<()> {
        let mapping = self.case.mappings.last_mut().filter(|mapping| mapping.has_table);
        let rows = &mut mapping.ok_or("a row without a mapping that has a table")?.rows;
        let address = words.hex()?;
        if rows.last().is_some_and(|last| address <= last.0) {
            return Err("rows that are not in order");
        }
        let first = rows.first().map_or(address, |first| first.0);
        if address - first >= MAX_REACH || address == u64::MAX {
            return Err("rows that are too far apart");
        }
        let (cfa, register, ra, fp) = (words.number()?, words.number()?, words.number()?, words.number()?);
        let (offset, aux, fp_offset) = (words.number()?, words.number()?, words.number()?);
        rows.push((address, Rule { cfa, register, ra, fp, offset, aux, fp_offset }));
        Ok(())
    }

    fn memory(&mut self, words: &mut Fields<'_>) -> Result<()> {
        let mut address = words.hex()?;
        if !address.is_multiple_of(8) {
            return Err("an address that is not a multiple of eight");
        }
        for word in words.0.by_ref() {
            self.case.memory.insert(address, hex(word)?);
            address = address.checked_add(8).ok_or("memory behind the last address")?;
        }
        Ok(())
    }

    fn frame(&mut self, rest: &str) -> Result<()> {
        let (frame, name) = rest.split_once("  # ").unwrap_or((rest, ""));
        self.case.expected.frames.push(frame.to_owned());
        self.case.names.push(name.to_owned());
        Ok(())
    }
}

fn arch(name: &str) -> Result<Arch> {
    match name {
        X86_64 => Ok(Arch::X86_64),
        AARCH64 => Ok(Arch::Aarch64),
        _ => Err("an unknown instruction set"),
    }
}

fn hex(word: &str) -> Result<u64> {
    u64::from_str_radix(word, 16).map_err(|_| "not a hexadecimal number")
}

/// Decodes two digits per byte, or `-` for no bytes.
fn bytes(word: &str) -> Result<Vec<u8>> {
    if word == "-" {
        return Ok(Vec::new());
    }
    let pairs = word.as_bytes().chunks(2);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(pair).collect::<Option<_>>().ok_or("not a build id")
}

/// The words of a line.
struct Fields<'a>(SplitWhitespace<'a>);

impl Fields<'_> {
    fn hex(&mut self) -> Result<u64> {
        hex(self.0.next().ok_or("a line with too few words")?)
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let word = self.0.next().ok_or("a line with too few words")?;
        word.parse().map_err(|_| "an invalid number")
    }

    fn end(&mut self) -> Result<()> {
        if self.0.next().is_none_or(|word| word == "#") { Ok(()) } else { Err("a line with too many words") }
    }
}
