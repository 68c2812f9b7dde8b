//! The rules of one table, each kept once.

use ebpf_programs::abi::table::{NO_DATA, Rule};
use hashbrown::HashMap;

/// A set of rules that gives out their numbers.
pub(crate) struct Rules {
    list: Vec<Rule>,
    numbers: HashMap<Rule, u16>,
    /// Rules met before, by a cheap hash: a row's rule nearly always stands here.
    recent: Vec<(Rule, u16)>,
}

const RECENT: usize = 512;

impl Rules {
    pub(crate) fn new() -> Rules {
        let list = vec![Rule::NO_DATA, Rule::CANNOT];
        let numbers = HashMap::from_iter([(Rule::NO_DATA, NO_DATA), (Rule::CANNOT, CANNOT)]);
        Rules { list, numbers, recent: vec![(Rule::NO_DATA, NO_DATA); RECENT] }
    }

    /// The number of `rule`; `None` when there are too many different ones.
    #[inline]
    pub(crate) fn number(&mut self, rule: Rule) -> Option<u16> {
        let slot = slot(&rule);
        let (recent, number) = self.recent[slot];
        if recent == rule {
            return Some(number);
        }
        let number = self.add(rule)?;
        self.recent[slot] = (rule, number);
        Some(number)
    }

    fn add(&mut self, rule: Rule) -> Option<u16> {
        if let Some(&number) = self.numbers.get(&rule) {
            return Some(number);
        }
        let number = u16::try_from(self.list.len()).ok()?;
        self.list.push(rule);
        self.numbers.insert(rule, number);
        Some(number)
    }

    /// All rules, by their numbers.
    pub(crate) fn list(&self) -> &[Rule] {
        &self.list
    }
}

/// The number of [`Rule::CANNOT`] in every table.
pub(crate) const CANNOT: u16 = 1;

/// Nearly all rules differ only in their two offsets.
#[inline]
fn slot(rule: &Rule) -> usize {
    let kinds = u32::from_le_bytes([rule.cfa, rule.register, rule.ra, rule.fp]);
    let mixed = (rule.offset as u32 >> 3)
        .wrapping_mul(31)
        .wrapping_add(rule.fp_offset as u32 >> 3)
        .wrapping_mul(31)
        .wrapping_add(kinds)
        .wrapping_add(rule.aux as u32);
    (mixed.wrapping_mul(0x9e37_79b1) >> 23) as usize
}

const _: () = assert!(RECENT == 1 << (32 - 23));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_one_number() {
        let mut rules = Rules::new();
        let rule = |offset| Rule { offset, ..Rule::END };
        let numbers: Vec<_> = (0..3000).map(|n| rules.number(rule(n * 8)).unwrap()).collect();
        for (n, number) in numbers.into_iter().enumerate() {
            assert_eq!(rules.number(rule(n as i32 * 8)), Some(number));
            assert_eq!(rules.list()[usize::from(number)], rule(n as i32 * 8));
        }
        assert_eq!(rules.number(Rule::NO_DATA), Some(NO_DATA));
        assert_eq!(rules.number(Rule::CANNOT), Some(CANNOT));
    }

    #[test]
    fn numbers_run_out() {
        let mut rules = Rules::new();
        let numbers = (0..70_000).filter_map(|offset| rules.number(Rule { offset, ..Rule::END })).count();
        assert_eq!(numbers + 2, 1 << 16);
    }
}
