//! Operands of probes: the registers or memory that hold a value.

use ebpf_programs::abi::cookie::operand as bits;

/// The place of an integer at a probe, as [in the cookie](bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    base: u64,
    index: u64,
    scale: u64,
    size: u64,
    displacement: i32,
    is_signed: bool,
    is_memory: bool,
}

/// Word of the program counter in the kernel's registers of x86_64.
const PC: u64 = 16;

/// Words of the registers of the arguments of a function, in their order.
const ARGUMENTS: [u64; 6] =
    if cfg!(target_arch = "aarch64") { [0, 1, 2, 3, 4, 5] } else { [14, 13, 12, 11, 9, 8] };

/// Word of the register of the result of a function.
const RESULT: u64 = if cfg!(target_arch = "aarch64") { 0 } else { 10 };

/// Number of arguments of a function in registers.
pub(super) const MAX_ARGUMENTS: u32 = ARGUMENTS.len() as u32;

impl Operand {
    /// The constant 1.
    pub(super) const ONE: Operand = Operand {
        base: bits::NONE,
        index: bits::NONE,
        scale: 0,
        size: 3,
        displacement: 1,
        is_signed: false,
        is_memory: false,
    };

    /// The result of a function, at its return.
    pub(super) const RESULT: Operand =
        Operand { displacement: 0, base: RESULT, is_signed: true, ..Operand::ONE };

    /// Returns argument `index` of a function, at its entry; 1 if it is not in a register.
    pub(super) const fn argument(index: u32) -> Operand {
        if index >= MAX_ARGUMENTS {
            return Operand::ONE;
        }
        Operand { displacement: 0, base: ARGUMENTS[index as usize], ..Operand::ONE }
    }

    /// Returns a word of the arguments of a function of the kernel, or its result. `size` is the
    /// logarithm of its size in bytes.
    pub(super) fn word_of_function(word: u32, size: u32, is_signed: bool) -> Operand {
        let (base, size) = (u64::from(word).min(bits::NONE - 1), u64::from(size).min(bits::LOG));
        Operand { displacement: 0, base, size, is_signed, ..Operand::ONE }
    }

    /// Returns the product of two arguments of a function, from 0 to 5, at its entry.
    pub(super) const fn product(first: usize, second: usize) -> Operand {
        let (base, index) = (ARGUMENTS[first], ARGUMENTS[second]);
        Operand { displacement: bits::PRODUCT, base, index, ..Operand::ONE }
    }

    /// Parses an operand of a static probe on x86_64. `symbol` returns the distance from the probe
    /// to a symbol.
    ///
    /// ```text
    ///   4@%edi                 register
    ///   -8@-16(%rbp,%rax,8)    signed, in memory
    ///   4@counter(%rip)        variable
    ///   -4@$-1                 constant
    /// ```
    pub(super) fn parse(text: &str, symbol: impl Fn(&str) -> Option<i64>) -> Option<Operand> {
        let (size, place) = text.split_once('@')?;
        let (is_signed, size) = size.strip_prefix('-').map_or((false, size), |size| (true, size));
        let size = ["1", "2", "4", "8"].iter().position(|&known| known == size)? as u64;
        let operand = Operand { size, is_signed, displacement: 0, ..Operand::ONE };
        if let Some(constant) = place.strip_prefix('$') {
            return Some(Operand { displacement: fits(number(constant)?, size)?, ..operand });
        }
        if place.starts_with('%') {
            let (base, width) = register(place)?;
            return Some(Operand { base, size: size.min(width), ..operand });
        }
        let (before, inner) = place.strip_suffix(')')?.split_once('(')?;
        let mut parts = inner.split(',').map(str::trim);
        let base = match parts.next()? {
            "" => bits::NONE,
            "%rip" => PC,
            name => word(name)?,
        };
        let index = parts.next().map_or(Some(bits::NONE), word)?;
        let scale = parts.next().unwrap_or("1");
        let scale = ["1", "2", "4", "8"].iter().position(|&known| known == scale)? as u64;
        if parts.next().is_some() || (base, index) == (bits::NONE, bits::NONE) {
            return None;
        }
        let symbol = |name: &str| if base == PC { symbol(name) } else { None };
        let displacement = i32::try_from(displacement(before, symbol)?).ok()?;
        Some(Operand { base, index, scale, displacement, is_memory: true, ..operand })
    }

    /// Returns the bits of its words in a cookie.
    pub(super) fn words(&self) -> u64 {
        self.base << bits::BASE_SHIFT | self.index << bits::INDEX_SHIFT
    }

    /// Returns its bits of a cookie.
    pub(super) fn cookie(&self) -> u64 {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        self.words()
            | self.scale << bits::SCALE_SHIFT
            | self.size << bits::SIZE_SHIFT
            | flag(self.is_signed, bits::SIGNED)
            | flag(self.is_memory, bits::MEMORY)
            | u64::from(self.displacement.cast_unsigned()) << bits::DISPLACEMENT_SHIFT
    }
}

/// Returns a constant whose lowest bytes are those of `value`; `None` if there is none of 32 bits.
fn fits(value: i64, size: u64) -> Option<i32> {
    i32::try_from(value).ok().or_else(|| {
        let unsigned = u32::try_from(value).ok().filter(|_| size < 3)?;
        Some(unsigned.cast_signed())
    })
}

/// Returns the sum of the terms before a parenthesis: numbers, and names of symbols.
fn displacement(text: &str, symbol: impl Fn(&str) -> Option<i64>) -> Option<i64> {
    let (mut rest, mut sum, mut is_first) = (text.trim(), 0i64, true);
    while !rest.is_empty() {
        let is_negative = rest.starts_with('-');
        let term = rest.strip_prefix(['-', '+']);
        if term.is_none() && !is_first {
            return None;
        }
        let term = term.unwrap_or(rest);
        let end = term.find(['-', '+']).unwrap_or(term.len());
        let value = number(&term[..end]).or_else(|| symbol(&term[..end]).filter(|_| !is_negative))?;
        sum = if is_negative { sum.checked_sub(value)? } else { sum.checked_add(value)? };
        (rest, is_first) = (&term[end..], false);
    }
    Some(sum)
}

fn number(text: &str) -> Option<i64> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if !digits.starts_with(|byte: char| byte.is_ascii_digit()) {
        return None;
    }
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if is_negative { -value } else { value })
}

/// Returns the word of a register of 64 bits.
fn word(name: &str) -> Option<u64> {
    register(name).filter(|&(_, width)| width == 3).map(|(word, _)| word)
}

/// Returns the word of a register, and the logarithm of its bytes.
fn register(name: &str) -> Option<(u64, u64)> {
    /// Word in the kernel's registers, and names with 64, 32, 16 and 8 bits.
    const NAMED: [(u64, [&str; 4]); 8] = [
        (10, ["rax", "eax", "ax", "al"]),
        (5, ["rbx", "ebx", "bx", "bl"]),
        (11, ["rcx", "ecx", "cx", "cl"]),
        (12, ["rdx", "edx", "dx", "dl"]),
        (13, ["rsi", "esi", "si", "sil"]),
        (14, ["rdi", "edi", "di", "dil"]),
        (4, ["rbp", "ebp", "bp", "bpl"]),
        (19, ["rsp", "esp", "sp", "spl"]),
    ];
    /// Words of r8 to r15.
    const NUMBERED: [u64; 8] = [9, 8, 7, 6, 3, 2, 1, 0];
    let name = name.strip_prefix('%')?;
    for (word, names) in NAMED {
        if let Some(at) = names.iter().position(|&known| known == name) {
            return Some((word, 3 - at as u64));
        }
    }
    let digits = name.strip_prefix('r')?;
    let end = digits.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let width = [("", 3), ("d", 2), ("w", 1), ("b", 0)].iter().find(|&&(known, _)| known == suffix)?.1;
    let number: usize = number.parse().ok().filter(|_| !number.starts_with('0'))?;
    Some((*NUMBERED.get(number.checked_sub(8)?)?, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Operand> {
        Operand::parse(text, |name| (name == "counter").then_some(0x100))
    }

    #[test]
    fn registers_memory_variables_and_constants_are_parsed() {
        let none = Operand { displacement: 0, ..Operand::ONE };
        let memory = Operand { is_memory: true, ..none };
        for (text, operand) in [
            ("8@%rdi", Operand { base: 14, ..none }),
            ("-4@%r13d", Operand { base: 2, size: 2, is_signed: true, ..none }),
            ("8@%edx", Operand { base: 12, size: 2, ..none }),
            ("1@%r8b", Operand { base: 9, size: 0, ..none }),
            ("-8@-80(%rbx)", Operand { base: 5, displacement: -80, is_signed: true, ..memory }),
            ("4@(%rsp)", Operand { base: 19, size: 2, ..memory }),
            ("8@0x10(%rax,%r9,4)", Operand { base: 10, index: 8, scale: 2, displacement: 16, ..memory }),
            ("8@8(,%rcx,8)", Operand { index: 11, scale: 3, displacement: 8, ..memory }),
            ("8@counter(%rip)", Operand { base: 16, displacement: 0x100, ..memory }),
            ("8@-8+counter(%rip)", Operand { base: 16, displacement: 0xf8, ..memory }),
            ("8@counter+8(%rip)", Operand { base: 16, displacement: 0x108, ..memory }),
            ("-4@$-1", Operand { size: 2, displacement: -1, is_signed: true, ..none }),
            ("4@$4294967295", Operand { size: 2, displacement: -1, ..none }),
        ] {
            assert_eq!(parse(text), Some(operand), "{text}");
        }
    }

    #[test]
    fn other_operands_are_rejected() {
        for text in [
            "",
            "@",
            "8",
            "8@",
            "3@%rax",
            "8f@%xmm0",
            "8@%xmm0",
            "1@%ah",
            "8@rax",
            "8@%r16",
            "8@%r08",
            "8@%r7",
            "8@$",
            "8@$x",
            "8@$4294967296",
            "8@(%eax)",
            "8@(%rax",
            "8@()",
            "8@x(%rax)",
            "8@other(%rip)",
            "8@counter(%rax)",
            "8@1 2(%rax)",
            "8@(%rax,%rbx,3)",
            "8@(%rax,%rbx,1,1)",
            "8@%fs:8(%rax)",
            "8@99999999999(%rax)",
            "8@--8(%rax)",
            "8@$--1",
            "--8@%rax",
            "8@[sp, 12]",
            "4@x0",
            "8@-counter(%rip)",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn fields_of_cookies_are_apart() {
        let all = Operand {
            base: 31,
            index: 31,
            scale: 3,
            size: 3,
            displacement: -1,
            is_signed: true,
            is_memory: true,
        };
        assert_eq!(all.cookie(), !0xffff);
        assert_eq!(Operand::ONE.cookie() >> bits::DISPLACEMENT_SHIFT, 1);
    }
}
