//! Divides a message that is too large for a collector.
//!
//! The profile is gone, and the message may come from the spool, so the encoded message is divided.
//! Each part has half of the samples, and a dictionary with the elements that they refer to:
//!
//! ```text
//!   samples ──► stacks ──► locations ──► mappings, functions ──► attributes ──► strings
//! ```
//!
//! In this order, an element gets its new index when it is first referred to, and is rewritten when
//! its own table is written. Everything else is copied.

mod field;
mod schema;

use std::ops::Range;

use field::{Field, Kind, fields, put_bytes, put_number, put_varint, varints};
use schema::{REQUEST, Role, Schema, TABLES};

/// Returns two messages with half of the samples each; `None` for fewer than two samples or a
/// malformed message.
pub(super) fn divide(message: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut all = Part::new(message, 0..0)?;
    all.rewrite(message, REQUEST, &mut Vec::new())?;
    let (half, all) = (all.seen / 2, all.seen);
    if half == 0 {
        return None;
    }
    Some([Part::new(message, 0..half)?.write(message)?, Part::new(message, half..all)?.write(message)?])
}

/// The samples of a message at a range of positions.
struct Part<'m> {
    samples: Range<usize>,
    seen: usize,
    kept: usize,
    tables: [Table<'m>; TABLES.len()],
}

/// A table of the message and the elements that are kept.
#[derive(Default)]
struct Table<'m> {
    elements: Vec<&'m [u8]>,
    /// New indices by old ones.
    numbers: Vec<Option<u32>>,
    /// Old indices by new ones.
    order: Vec<usize>,
}

impl<'m> Part<'m> {
    fn new(message: &'m [u8], samples: Range<usize>) -> Option<Part<'m>> {
        let mut tables: [Table<'m>; TABLES.len()] = Default::default();
        for field in fields(message) {
            let field = field?;
            if field.number == schema::DICTIONARY {
                Table::read(field.content, &mut tables)?;
            }
        }
        // All tables begin with the empty element.
        tables.iter_mut().try_for_each(|table| {
            table.numbers = vec![None; table.elements.len()];
            table.number(0).map(drop)
        })?;
        Some(Part { samples, seen: 0, kept: 0, tables })
    }

    fn write(mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut dictionary) = (Vec::new(), Vec::new());
        self.rewrite(message, REQUEST, &mut out)?;
        for (place, table) in TABLES.iter().enumerate() {
            let mut next = 0;
            while let Some(&old) = self.tables[place].order.get(next) {
                let element = self.tables[place].elements[old];
                let mut rewritten = Vec::with_capacity(element.len());
                match table.schema {
                    Some(schema) => self.rewrite(element, schema, &mut rewritten)?,
                    None => rewritten.extend_from_slice(element),
                }
                put_bytes(table.field, &rewritten, &mut dictionary);
                next += 1;
            }
        }
        put_bytes(schema::DICTIONARY, &dictionary, &mut out);
        Some(out)
    }

    /// Appends a message with the new indices; `None` if it is malformed.
    fn rewrite(&mut self, message: &[u8], schema: Schema, out: &mut Vec<u8>) -> Option<()> {
        for field in fields(message) {
            let field = field?;
            let role = schema.iter().find(|(number, _)| *number == field.number).map(|(_, role)| *role);
            match (role, field.kind) {
                (None, _) => out.extend_from_slice(field.all),
                (Some(Role::Dictionary), _) => {}
                (Some(Role::Number(table) | Role::Numbers(table)), Kind::Varint(old)) => {
                    put_number(field.number, self.number(table, old)?, out);
                }
                (Some(Role::Numbers(table)), Kind::Bytes) => {
                    let mut packed = Vec::with_capacity(field.content.len());
                    for old in varints(field.content) {
                        put_varint(self.number(table, old?)?, &mut packed);
                    }
                    put_bytes(field.number, &packed, out);
                }
                (Some(Role::Message(inner)), Kind::Bytes) => {
                    let mut nested = Vec::new();
                    self.rewrite(field.content, inner, &mut nested)?;
                    put_bytes(field.number, &nested, out);
                }
                (Some(Role::Sample(inner)), Kind::Bytes) => self.sample(&field, inner, out)?,
                (Some(Role::AroundSamples(inner)), Kind::Bytes) => {
                    let (before, mut nested) = (self.kept, Vec::new());
                    self.rewrite(field.content, inner, &mut nested)?;
                    if self.kept > before {
                        put_bytes(field.number, &nested, out);
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn sample(&mut self, field: &Field<'_>, inner: Schema, out: &mut Vec<u8>) -> Option<()> {
        let is_included = self.samples.contains(&self.seen);
        self.seen += 1;
        if !is_included {
            return Some(());
        }
        self.kept += 1;
        let mut nested = Vec::with_capacity(field.content.len());
        self.rewrite(field.content, inner, &mut nested)?;
        put_bytes(field.number, &nested, out);
        Some(())
    }

    fn number(&mut self, table: usize, old: u64) -> Option<u64> {
        self.tables[table].number(usize::try_from(old).ok()?)
    }
}

impl<'m> Table<'m> {
    fn read(dictionary: &'m [u8], tables: &mut [Table<'m>]) -> Option<()> {
        for field in fields(dictionary) {
            let Field { number, kind: Kind::Bytes, content, .. } = field? else { return None };
            let place = TABLES.iter().position(|table| table.field == number)?;
            tables[place].elements.push(content);
        }
        Some(())
    }

    fn number(&mut self, old: usize) -> Option<u64> {
        let next = self.order.len() as u32;
        let number = self.numbers.get_mut(old)?;
        if number.is_none() {
            *number = Some(next);
            self.order.push(old);
        }
        number.map(u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_messages_are_not_divided() {
        for message in [&b""[..], b"\x0a", b"\x0a\xff", b"\x12\x00", b"\x0a\x02\x12\x00", b"not a message"] {
            assert_eq!(divide(message), None, "{message:?}");
        }
    }

    #[test]
    fn random_messages_do_not_panic() {
        let mut seed = 1u64;
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8 & 0x1b
        };
        for len in 0..20_000 {
            let message: Vec<u8> = (0..len % 100).map(|_| byte()).collect();
            divide(&message);
        }
    }
}
