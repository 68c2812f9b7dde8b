//! A message that is too large for a collector, made into two.
//!
//! What it was made of is gone, or was on disk for a day, so the message itself is taken apart. Each part has half of
//! the samples, and tables with what those refer to and nothing else:
//!
//! ```text
//!   samples ──► stacks ──► locations ──► mappings, functions ──► attributes ──► strings
//! ```
//!
//! On this way each element gets its new number when it is first met, and its old one waits until its own table is
//! written. All else is copied as it stands.

mod field;
mod schema;

use std::ops::Range;

use field::{Field, Kind, fields, put_bytes, put_number, put_varint, varints};
use schema::{REQUEST, Role, Schema, TABLES};

/// Two messages with half of the samples each; none where there are no two samples, or it is no such message.
pub(super) fn divide(message: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut all = Part::new(message, 0..0)?;
    all.rewrite(message, REQUEST, &mut Vec::new())?;
    let (half, all) = (all.seen / 2, all.seen);
    if half == 0 {
        return None;
    }
    Some([Part::new(message, 0..half)?.write(message)?, Part::new(message, half..all)?.write(message)?])
}

/// Those samples of a message that have these places.
struct Part<'m> {
    wanted: Range<usize>,
    seen: usize,
    kept: usize,
    tables: [Table<'m>; TABLES.len()],
}

/// A table of the message, and which of its elements are needed.
#[derive(Default)]
struct Table<'m> {
    elements: Vec<&'m [u8]>,
    /// New numbers by old ones.
    numbers: Vec<Option<u32>>,
    /// Old numbers by new ones.
    order: Vec<usize>,
}

impl<'m> Part<'m> {
    fn new(message: &'m [u8], wanted: Range<usize>) -> Option<Part<'m>> {
        let mut tables: [Table<'m>; TABLES.len()] = Default::default();
        for field in fields(message) {
            let field = field?;
            if field.number == schema::DICTIONARY {
                Table::read(field.content, &mut tables)?;
            }
        }
        // The element that stands for nothing is in every table.
        tables.iter_mut().try_for_each(|table| {
            table.numbers = vec![None; table.elements.len()];
            table.number(0).map(drop)
        })?;
        Some(Part { wanted, seen: 0, kept: 0, tables })
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

    /// Appends a message with the new numbers; none if it isn't one.
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
        let wanted = self.wanted.contains(&self.seen);
        self.seen += 1;
        if !wanted {
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
    fn what_is_no_message_is_not_divided() {
        for message in [&b""[..], b"\x0a", b"\x0a\xff", b"\x12\x00", b"\x0a\x02\x12\x00", b"not a message"] {
            assert_eq!(divide(message), None, "{message:?}");
        }
    }

    #[test]
    fn whatever_comes_it_is_divided_or_not() {
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
