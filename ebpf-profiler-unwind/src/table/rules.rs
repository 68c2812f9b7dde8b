//! The distinct rules of a table.

use ebpf_programs::abi::table::{NO_DATA, Rule, fp, ra};
use hashbrown::HashMap;

/// A set of rules with numbers.
pub(crate) struct Rules {
    list: Vec<Packed>,
    numbers: HashMap<Packed, u16>,
    /// Numbers of rules used before, by a cheap hash: nearly every row's rule is found here.
    recent: Box<[u16; RECENT]>,
}

/// Size of that cache: a power of two, several times the number of rules in most files.
const RECENT: usize = 4096;

/// Number of [`Rule::CANNOT`] in every table.
pub(crate) const CANNOT: u16 = 1;

impl Rules {
    pub(crate) fn new() -> Rules {
        let list = vec![Packed::NO_DATA, Packed::CANNOT];
        let numbers = HashMap::from_iter([(Packed::NO_DATA, NO_DATA), (Packed::CANNOT, CANNOT)]);
        Rules { list, numbers, recent: Box::new([NO_DATA; RECENT]) }
    }

    /// Returns the number of a rule, or `None` if there are too many rules.
    pub(crate) fn number(&mut self, rule: Packed) -> Option<u16> {
        let number = match self.numbers.get(&rule) {
            Some(&number) => number,
            None => self.add(rule)?,
        };
        self.recent[rule.slot()] = number;
        Some(number)
    }

    /// Returns the number of a rule if it is cached.
    #[inline]
    pub(crate) fn recent(&self, rule: Packed) -> Option<u16> {
        let recent = self.recent[rule.slot()];
        (self.list.get(usize::from(recent)) == Some(&rule)).then_some(recent)
    }

    fn add(&mut self, rule: Packed) -> Option<u16> {
        let number = u16::try_from(self.list.len()).ok()?;
        self.list.push(rule);
        self.numbers.insert(rule, number);
        Some(number)
    }

    /// Returns all rules by number.
    pub(crate) fn list(&self) -> &[Packed] {
        &self.list
    }
}

/// A rule in two words, as in the table.
///
/// Stays in registers: composing rules byte by byte in memory and reading them as a whole would take most of the time per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Packed {
    /// Kinds and offset.
    low: u64,
    /// Second number, and offset of the frame pointer.
    high: u64,
}

impl Packed {
    pub(crate) const NO_DATA: Packed = Packed::of(&Rule::NO_DATA);
    pub(crate) const CANNOT: Packed = Packed::of(&Rule::CANNOT);
    pub(crate) const END: Packed = Packed::of(&Rule::END);
    pub(crate) const COROUTINE: Packed = Packed::of(&Rule::COROUTINE);

    /// Creates a rule from its kinds (CFA, register, return address and frame pointer, the first lowest) and numbers.
    #[inline]
    pub(crate) const fn new(kinds: u32, offset: i32, aux: i32, fp_offset: i32) -> Packed {
        Packed { low: join(kinds, offset as u32), high: join(aux as u32, fp_offset as u32) }
    }

    /// Returns the kind of canonical frame address.
    #[inline]
    pub(crate) const fn cfa(self) -> u8 {
        self.low as u8
    }

    /// Returns the register that it starts from.
    #[inline]
    pub(crate) const fn register(self) -> u8 {
        (self.low >> 8) as u8
    }

    /// Returns its offset.
    #[inline]
    pub(crate) const fn offset(self) -> i32 {
        (self.low >> 32) as i32
    }

    /// Returns the kind of return address.
    #[inline]
    pub(crate) const fn ra(self) -> u8 {
        (self.low >> 16) as u8
    }

    /// Returns the kind of frame pointer.
    #[inline]
    pub(crate) const fn fp(self) -> u8 {
        (self.low >> 24) as u8
    }

    /// Returns the second number.
    #[inline]
    pub(crate) const fn aux(self) -> i32 {
        self.high as i32
    }

    /// Returns the offset of the frame pointer.
    #[inline]
    pub(crate) const fn fp_offset(self) -> i32 {
        (self.high >> 32) as i32
    }

    /// Replaces the offset.
    #[inline]
    pub(crate) const fn with_offset(self, offset: i32) -> Packed {
        Packed { low: join(self.low as u32, offset as u32), high: self.high }
    }

    /// Replaces the register.
    #[inline]
    pub(crate) const fn with_register(self, register: u8) -> Packed {
        Packed { low: self.low & !REGISTER | (register as u64) << 8, high: self.high }
    }

    /// Replaces the frame pointer by a slot at this offset.
    #[inline]
    pub(crate) const fn with_fp_at(self, offset: i32) -> Packed {
        let low = self.low & !FP | (fp::SAVED as u64) << 24;
        Packed { low, high: join(self.high as u32, offset as u32) }
    }

    /// Replaces the frame pointer by that of another rule.
    #[inline]
    pub(crate) const fn with_fp_of(self, other: Packed) -> Packed {
        let low = self.low & !FP | other.low & FP;
        Packed { low, high: join(self.high as u32, (other.high >> 32) as u32) }
    }

    /// Replaces the return address by a slot at this offset; the second number must be free for it.
    #[inline]
    pub(crate) const fn with_ra_at(self, offset: i32) -> Packed {
        let (kind, aux) = if offset == -8 { (ra::BELOW, 0) } else { (ra::SAVED, offset) };
        let low = self.low & !RA | (kind as u64) << 16;
        Packed { low, high: join(aux as u32, (self.high >> 32) as u32) }
    }

    /// Replaces the return address by that of another rule.
    #[inline]
    pub(crate) const fn with_ra_of(self, other: Packed) -> Packed {
        let low = self.low & !RA | other.low & RA;
        Packed { low, high: join(other.high as u32, (self.high >> 32) as u32) }
    }

    /// Toggles the signing of the return address.
    #[inline]
    pub(crate) const fn with_other_signing(self) -> Packed {
        Packed { low: self.low ^ (ra::SIGNED as u64) << 16, high: self.high }
    }

    pub(crate) const fn of(rule: &Rule) -> Packed {
        let kinds = u32::from_le_bytes([rule.cfa, rule.register, rule.ra, rule.fp]);
        Packed::new(kinds, rule.offset, rule.aux, rule.fp_offset)
    }

    /// Returns the rule as in the table.
    pub(crate) const fn unpack(self) -> Rule {
        let kinds = (self.low as u32).to_le_bytes();
        Rule {
            cfa: kinds[0],
            register: kinds[1],
            ra: kinds[2],
            fp: kinds[3],
            offset: self.offset(),
            aux: self.aux(),
            fp_offset: self.fp_offset(),
        }
    }

    /// Returns the bytes of the rule in a table.
    pub(crate) fn bytes(self) -> [u8; size_of::<Rule>()] {
        (u128::from(self.low) | u128::from(self.high) << 64).to_le_bytes()
    }

    #[inline]
    fn slot(self) -> usize {
        let mixed = (self.low ^ self.high.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - RECENT.trailing_zeros())) as usize
    }
}

/// Bits of register, kind of return address (without signing) and kind of frame pointer in the first word.
const REGISTER: u64 = 0xff << 8;
const RA: u64 = (!ra::SIGNED as u64) << 16;
const FP: u64 = 0xff << 24;

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(offset: i32) -> Packed {
        Packed::of(&Rule { offset, ..Rule::END })
    }

    #[test]
    fn each_rule_has_one_number() {
        let mut rules = Rules::new();
        let numbers: Vec<_> = (0..9000).map(|n| rules.number(rule(n * 8)).unwrap()).collect();
        for (n, number) in numbers.into_iter().enumerate() {
            assert_eq!(rules.number(rule(n as i32 * 8)), Some(number));
            assert_eq!(rules.list()[usize::from(number)], rule(n as i32 * 8));
        }
        assert_eq!(rules.number(Packed::NO_DATA), Some(NO_DATA));
        assert_eq!(rules.number(Packed::CANNOT), Some(CANNOT));
    }

    #[test]
    fn numbers_run_out() {
        let mut rules = Rules::new();
        let numbers = (0..70_000).filter_map(|offset| rules.number(rule(offset))).count();
        assert_eq!(numbers + 2, 1 << 16);
    }
}
