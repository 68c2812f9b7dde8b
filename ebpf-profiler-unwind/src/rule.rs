//! Readable form of rules.

use std::fmt;

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::table::{self, cfa, fp, kept, ra};

use crate::arch::Registers;

/// Flag of a rule's return address: the rule was derived from instructions. Return addresses of x86_64 are not signed, so walkers ignore
/// it, but they do not apply the rule in a run.
pub(crate) const DERIVED: u8 = ra::SIGNED;

/// A rule: the location of the caller's registers for one instruction.
///
/// `Display` prints equations; `[x]` is the word at address `x`:
///
/// ```text
/// cfa = rsp + 16, rbp = [cfa - 16], ra = [cfa - 8]
/// ```
///
/// A frame pointer that is not mentioned is unchanged. Rules that were derived from instructions end in `(derived)`. Some files compute `cfa` from a third register, such as `rbx`: in their
/// rules its location is printed too, unless it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    raw: table::Rule,
    arch: Arch,
}

impl Rule {
    // For the tests and tools of this project: it shows the layout of the table.
    #[doc(hidden)]
    pub fn new(raw: table::Rule, arch: Arch) -> Rule {
        Rule { raw, arch }
    }

    // For the tests and tools of this project: it shows the layout of the table.
    #[doc(hidden)]
    pub fn raw(&self) -> table::Rule {
        self.raw
    }

    /// Returns `true` if the file has unwind data for the code, even if no rule can express it.
    pub fn is_described(&self) -> bool {
        self.raw.cfa != cfa::NO_DATA
    }

    /// Returns `true` if the rule was derived from the instructions of code without unwind data.
    pub fn is_derived(&self) -> bool {
        self.arch == Arch::X86_64 && self.raw.cfa >= cfa::REGISTER && self.raw.ra & DERIVED != 0
    }

    fn frame_pointer(&self) -> Name {
        Name(self.arch, Registers::of(self.arch).map_or(u16::MAX, |registers| registers.fp) as u8)
    }

    fn cfa(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table::Rule { cfa, offset, aux, .. } = self.raw;
        let sum = Sum(Name(self.arch, self.raw.register), offset);
        match cfa {
            cfa::REGISTER => write!(f, "cfa = {sum}"),
            cfa::DEREF => write!(f, "cfa = {}", Sum(format_args!("[{sum}]"), aux)),
            cfa::PLT => write!(f, "cfa = {sum} + (pc & 15 >= {aux} ? 8 : 0)"),
            cfa::DEPTH => write!(f, "cfa = {}", Sum(format_args!("top - [{sum}]"), aux)),
            other => write!(f, "cfa of unknown kind {other}"),
        }
    }

    fn fp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.frame_pointer();
        let offset = self.raw.fp_offset;
        match self.raw.fp & fp::KIND {
            fp::SAME => Ok(()),
            fp::SAVED => write!(f, ", {name} = [{}]", Sum("cfa", offset)),
            fp::DIRECT => write!(f, ", {name} = [{}]", Sum(&name, offset)),
            _ => write!(f, ", {name} = ?"),
        }
    }

    fn kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Name(self.arch, self.raw.ra >> kept::SHIFT & kept::NUMBER);
        match (name.1, self.raw.fp >> kept::SHIFT) {
            (0, _) | (_, kept::SAME) => Ok(()),
            (_, kept::LOST) => write!(f, ", {name} = ?"),
            (_, place) => write!(f, ", {name} = [{}]", Sum("cfa", -8 - 8 * i32::from(place))),
        }
    }

    fn ra(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aux = self.raw.aux;
        let is_signed = self.arch != Arch::X86_64 && self.raw.ra & ra::SIGNED != 0;
        let (before, behind) = if is_signed { ("strip(", ")") } else { ("", "") };
        write!(f, ", ra = {before}")?;
        match self.raw.ra & ra::KIND {
            ra::BELOW => write!(f, "[cfa - 8]"),
            ra::SAVED => write!(f, "[{}]", Sum("cfa", aux)),
            ra::REGISTER => write!(f, "{}", Name(self.arch, aux as u8)),
            _ => write!(f, "?"),
        }?;
        f.write_str(behind)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.raw.cfa {
            cfa::NO_DATA => f.write_str("no unwind data"),
            cfa::CANNOT => f.write_str("not expressible by a rule"),
            cfa::END if self.raw.aux != 0 => f.write_str("outermost frame of a coroutine"),
            cfa::END => f.write_str("outermost frame"),
            cfa::SIGNAL => {
                let place = Sum(Name(self.arch, self.raw.register), self.raw.offset);
                write!(f, "all registers in the signal frame at {place}")
            }
            _ => {
                self.cfa(f)?;
                self.fp(f)?;
                self.kept(f)?;
                self.ra(f)?;
                f.write_str(if self.is_derived() { " (derived)" } else { "" })
            }
        }
    }
}

/// A register's name.
struct Name(Arch, u8);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Registers::of(self.0).map_or(&[][..], |registers| registers.names);
        match names.get(usize::from(self.1)) {
            Some(name) => f.write_str(name),
            None => write!(f, "register {}", self.1),
        }
    }
}

/// A value plus or minus a number.
struct Sum<T>(T, i32);

impl<T: fmt::Display> fmt::Display for Sum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            0 => write!(f, "{}", self.0),
            1.. => write!(f, "{} + {}", self.0, self.1),
            _ => write!(f, "{} - {}", self.0, self.1.unsigned_abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(raw: table::Rule, arch: Arch) -> String {
        Rule::new(raw, arch).to_string()
    }

    #[test]
    fn equations() {
        let plain = table::Rule { cfa: cfa::REGISTER, register: 7, offset: 16, ..table::Rule::CANNOT };
        assert_eq!(shown(plain, Arch::X86_64), "cfa = rsp + 16, ra = [cfa - 8]");
        let saved = table::Rule { fp: fp::SAVED, fp_offset: -16, ..plain };
        assert_eq!(shown(saved, Arch::X86_64), "cfa = rsp + 16, rbp = [cfa - 16], ra = [cfa - 8]");
        let realigned = table::Rule { cfa: cfa::DEREF, register: 6, offset: -8, fp: fp::DIRECT, ..plain };
        assert_eq!(shown(realigned, Arch::X86_64), "cfa = [rbp - 8], rbp = [rbp], ra = [cfa - 8]");
        let plt = table::Rule { cfa: cfa::PLT, offset: 8, aux: 11, ..plain };
        assert_eq!(shown(plt, Arch::X86_64), "cfa = rsp + 8 + (pc & 15 >= 11 ? 8 : 0), ra = [cfa - 8]");
        let moved = table::Rule { cfa: cfa::DEPTH, offset: 40, aux: 8, ..plain };
        assert_eq!(shown(moved, Arch::X86_64), "cfa = top - [rsp + 40] + 8, ra = [cfa - 8]");
        let signal = table::Rule { cfa: cfa::SIGNAL, offset: 0, ..plain };
        assert_eq!(shown(signal, Arch::X86_64), "all registers in the signal frame at rsp");
    }

    #[test]
    fn a_third_register() {
        let (number, kept) = (3 << kept::SHIFT, |place: u8| place << kept::SHIFT);
        let plain =
            table::Rule { cfa: cfa::REGISTER, register: 3, offset: 16, ra: number, ..table::Rule::CANNOT };
        assert_eq!(shown(plain, Arch::X86_64), "cfa = rbx + 16, ra = [cfa - 8]");
        let saved = table::Rule { fp: fp::SAVED | kept(6), fp_offset: -48, ..plain };
        let text = "cfa = rbx + 16, rbp = [cfa - 48], rbx = [cfa - 56], ra = [cfa - 8]";
        assert_eq!(shown(saved, Arch::X86_64), text);
        let lost = table::Rule { fp: kept(kept::LOST), ..plain };
        assert_eq!(shown(lost, Arch::X86_64), "cfa = rbx + 16, rbx = ?, ra = [cfa - 8]");
    }

    #[test]
    fn return_addresses() {
        let leaf = table::Rule {
            register: 31,
            cfa: cfa::REGISTER,
            ra: ra::REGISTER,
            aux: 30,
            ..table::Rule::CANNOT
        };
        assert_eq!(shown(leaf, Arch::Aarch64), "cfa = sp, ra = x30");
        let signed = table::Rule { ra: ra::SAVED | ra::SIGNED, aux: -24, fp: fp::UNKNOWN, ..leaf };
        assert_eq!(shown(signed, Arch::Aarch64), "cfa = sp, x29 = ?, ra = strip([cfa - 24])");
        assert_eq!(shown(table::Rule::END, Arch::Aarch64), "outermost frame");
    }
}
