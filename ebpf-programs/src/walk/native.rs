//! Frames of code that has an unwind table.

use super::Walk;
use super::arch::Arch;
use super::arena::{SEARCH_STEPS, UNIT_WORDS, block, double, half, if_at_most, word};
use crate::abi::arena::BLOCK_WORDS;
use crate::abi::mapping::{Mapping, kind};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::{GROUP_BITS, Header, NO_DATA, Rule, cfa, fp, kept, ra};
use crate::machine::Machine;

/// What a walk keeps of a table's head.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    /// Its place in the arena.
    place: u32,
    /// Of how many bits an address within a page is.
    page_bits: u16,
    /// Whether all groups have pages. Then a processor goes on to a page before its group is there.
    whole: u16,
    /// The address of the first page.
    base: u64,
    /// The page that was looked at last; callers often lie in the page of what they call.
    page: u64,
    /// How many pages there are.
    pages: u32,
    /// The word of the arena at which the table begins.
    start: u32,
    /// The word of the arena at which its rules begin.
    list: u32,
    /// How many rules there are.
    rules: u32,
    /// The row in front of those of that page, as a word of the arena.
    first: u32,
    /// How many rows there are from there to the end of the page.
    count: u32,
}

/// No table lies there.
const NONE: u32 = u32::MAX;

/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

/// Words of four bytes in a header.
const HEADER_WORDS: u32 = (size_of::<Header>() / 4) as u32;

impl Table {
    /// Forgets which table it is.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.place = NONE;
    }

    /// Reads the head of the table at `place`.
    #[inline(always)]
    pub(super) fn load<M: Machine>(machine: &M, place: u32) -> Option<Table> {
        let start = place.wrapping_mul(UNIT_WORDS);
        let block = block(machine, start)?;
        let rules = word(block, start + 3);
        // Rules begin at a multiple of their size, and so does a table.
        let list = start.wrapping_add(word(block, start + 4)).wrapping_add(HEADER_WORDS + 3) & !3;
        Some(Table {
            place,
            page_bits: (word(block, start + 6) >> 16) as u16 & 63,
            whole: (word(block, start + 6) >> 24) as u16,
            base: double(block, start),
            page: NO_PAGE,
            pages: word(block, start + 2),
            start,
            list,
            rules,
            first: 0,
            count: 0,
        })
    }

    /// The number of the rule at virtual address `address` of the file; `called` where a call should end there.
    #[inline(always)]
    fn number<M: Machine>(&mut self, machine: &M, address: u64, called: bool) -> Option<u16> {
        let page = address.wrapping_sub(self.base) >> self.page_bits;
        if page != self.page {
            self.turn_to(machine, page)?;
        }
        self.search(machine, address & 0xffff, called)
    }

    /// Makes `page` the current page.
    #[inline(always)]
    fn turn_to<M: Machine>(&mut self, machine: &M, page: u64) -> Option<()> {
        self.page = page;
        self.count = 1;
        if page >= self.pages as u64 {
            // In front of all rows stands that there is no data.
            self.first = self.start.wrapping_add(HEADER_WORDS - 1);
            return Some(());
        }
        let page = page as u32;
        let groups = self.list.wrapping_add(self.rules.wrapping_mul(4));
        let at = groups.wrapping_add((page >> GROUP_BITS) * 2);
        let group = block(machine, at)?;
        let (first, pages) = (word(group, at), word(group, at + 1));
        self.first = self.start.wrapping_add(first).wrapping_sub(1);
        let (begin, end) = if self.whole != 0 {
            let pages = groups.wrapping_add(self.pages.div_ceil(1 << GROUP_BITS) * 2);
            (half(machine, pages, page)?, half(machine, pages, page.wrapping_add(1))?)
        } else if pages != 0 {
            let at = pages.wrapping_add(page & ((1 << GROUP_BITS) - 1));
            (half(machine, self.start, at)?, half(machine, self.start, at.wrapping_add(1))?)
        } else {
            return Some(());
        };
        self.first = self.first.wrapping_add(begin.wrapping_sub(first) & 0xffff);
        self.count = (end.wrapping_sub(begin) & 0xffff) + 1;
        Some(())
    }

    /// The rule of the last row at or below `low` in the current page, or of the row in front of the page's.
    ///
    /// No call is as short as a row of one byte. Where one should end in such a row, it wasn't called: the address behind it
    /// is where an exception will be handled, behind a `ret`, and the next row holds.
    #[inline(always)]
    fn search<M: Machine>(&self, machine: &M, low: u64, called: bool) -> Option<u16> {
        let (mut base, mut left) = (self.first, self.count);
        let room = BLOCK_WORDS as u32 - (base & (BLOCK_WORDS as u32 - 1));
        if left > room {
            // The first step goes to the border between two blocks, so that all further ones stay in one.
            let border = base.wrapping_add(room);
            let row = word(block(machine, border)?, border) as u64 & 0xffff;
            base = base.wrapping_add(if_at_most(row, low, room));
            left = room.wrapping_add(if_at_most(row, low, left.wrapping_sub(room * 2)));
        }
        let rows = block(machine, base)?;
        let few = if M::VERIFIED { 1 } else { (LINES * LINE) as u32 };
        for _ in 0..SEARCH_STEPS {
            if left <= few {
                break;
            }
            let half = left / 2;
            let middle = base.wrapping_add(half);
            base = base.wrapping_add(if_at_most(word(rows, middle) as u64 & 0xffff, low, half));
            left -= half;
        }
        if !M::VERIFIED {
            let rows = rows.get(base as usize & (BLOCK_WORDS - 1)..)?.get(..left as usize)?;
            base = base.wrapping_add(last_at_most(rows, low as u32));
        }
        let row = word(rows, base);
        if called && row as u64 & 0xffff == low && base != self.first {
            let next = base.wrapping_add(1);
            let next = word(block(machine, next)?, next);
            if next as u64 & 0xffff == (low + 1) & 0xffff && next >> 16 != NO_DATA as u32 {
                return Some((next >> 16) as u16);
            }
        }
        Some((row >> 16) as u16)
    }

    /// Rule number `number`.
    #[inline(always)]
    fn rule<M: Machine>(&self, machine: &M, number: u16) -> Option<Rule> {
        if number as u32 >= self.rules {
            return None;
        }
        let at = self.list.wrapping_add(number as u32 * 4);
        let block = block(machine, at)?;
        let kinds = word(block, at);
        Some(Rule {
            cfa: kinds as u8,
            register: (kinds >> 8) as u8,
            ra: (kinds >> 16) as u8,
            fp: (kinds >> 24) as u8,
            offset: word(block, at + 1) as i32,
            aux: word(block, at + 2) as i32,
            fp_offset: word(block, at + 3) as i32,
        })
    }
}

/// Rows in a line of a processor's cache.
const LINE: usize = 16;

/// Lines of which the first rows are looked at all at once: one half after the other, each would be waited for.
const LINES: usize = 16;

/// The number of the last row at or below `low`, 0 where there is none, in at most so many lines.
#[inline(always)]
fn last_at_most(rows: &[u32], low: u32) -> u32 {
    let is_at_most = |row: &u32| row & 0xffff <= low;
    let firsts = (1..LINES).map_while(|line| rows.get(line * LINE));
    let first = LINE * firsts.filter(|row| is_at_most(row)).count();
    let behind = rows.get(first + 1..rows.len().min(first + LINE)).unwrap_or(&[]);
    (first + behind.partition_point(is_at_most)) as u32
}

/// The rule of the table at `place` for virtual address `address` of the file; `None` for a broken table.
#[inline(always)]
pub fn find_rule<M: Machine>(machine: &M, place: u32, address: u64) -> Option<Rule> {
    let mut table = Table::load(machine, place)?;
    match table.number(machine, address, false)? {
        NO_DATA => Some(Rule::NO_DATA),
        number => table.rule(machine, number),
    }
}

/// Whether a table says that the function at `pc`, in `mapping`, is the outermost of its stack.
#[inline(always)]
pub(super) fn is_outermost<M: Machine>(machine: &M, mapping: &Mapping, pc: u64) -> bool {
    if mapping.kind != kind::TABLE {
        return false;
    }
    let rule = find_rule(machine, mapping.table, pc.wrapping_add(mapping.bias));
    rule.is_some_and(|rule| rule.cfa == cfa::END)
}

/// The rule for the frame at `pc`, whose mapping is the current one; `None` where nothing describes the code.
#[inline(always)]
pub(super) fn rule<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<Option<Rule>, Stop> {
    let place = walk.mapping.table;
    let address = pc.wrapping_add(walk.mapping.bias);
    let called = walk.flags & frame::EXACT == 0;
    // The same address may have another rule where a call should end there.
    let key = address << 1 | called as u64;
    if let Some(rule) = machine.remembered(place, key) {
        return Ok(Some(rule));
    }
    if walk.table.place != place {
        walk.table = Table::load(machine, place).ok_or(Stop::BadTable)?;
    }
    let rule = match walk.table.number(machine, address, called).ok_or(Stop::BadTable)? {
        NO_DATA => return Ok(None),
        number => walk.table.rule(machine, number).ok_or(Stop::BadTable)?,
    };
    machine.remember(place, key, &rule);
    Ok(Some(rule))
}

/// Takes the current frame and goes to its caller's where its rule is at hand and as most are, and what it reads is near; else
/// nothing happens.
#[inline(always)]
pub(super) fn usual<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let pc = (walk.registers.pc & frame::ADDRESS).wrapping_sub(1);
    if pc.wrapping_sub(walk.mapping.start) >= walk.mapping.end.wrapping_sub(walk.mapping.start) {
        return None;
    }
    let rule = if M::VERIFIED {
        machine.remembered(walk.mapping.table, pc.wrapping_add(walk.mapping.bias) << 1 | 1)?
    } else {
        rule(walk, machine, pc).ok()??
    };
    if rule.cfa != cfa::REGISTER {
        return None;
    }
    // Elsewhere is where arm64 has it.
    let from_cfa = match rule.ra {
        ra::BELOW => -8,
        kind if !M::VERIFIED && kind & !ra::SIGNED == ra::SAVED => rule.aux as i64,
        _ => return None,
    };
    let sp = walk.registers.values[A::SP];
    let base = if rule.register == A::SP as u8 {
        sp
    } else if rule.register == A::FP as u8 && !M::VERIFIED {
        walk.register(A::FP as u8)?
    } else {
        return None;
    };
    let cfa = base.wrapping_add(rule.offset as i64 as u64);
    if base == 0 || cfa <= sp {
        return None;
    }
    let (fp, known) = match rule.fp {
        fp::SAME => (walk.registers.values[A::FP], walk.registers.known & (1 << A::SP | 1 << A::FP)),
        fp::SAVED => (machine.near(cfa.wrapping_add(rule.fp_offset as i64 as u64))?, 1 << A::SP | 1 << A::FP),
        _ => return None,
    };
    let return_address = A::strip(machine.near(cfa.wrapping_add(from_cfa as u64))?);
    if return_address == 0 {
        return None;
    }
    machine.frame(pc);
    walk.taken += 1;
    walk.words += 1;
    walk.registers.pc = return_address;
    walk.registers.values[A::SP] = cfa;
    walk.registers.values[A::FP] = fp;
    walk.registers.known = known;
    Some(())
}

/// Goes from the frame at `pc` to its caller's by a rule.
#[inline(always)]
pub(super) fn apply<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
) -> Result<(), Stop> {
    if rule.cfa < cfa::REGISTER {
        return Err(if rule.cfa == cfa::END { Stop::Root } else { Stop::Unsupported });
    }
    let register = walk.register(rule.register).ok_or(Stop::LostRegister)?;
    if register == 0 {
        // By convention the outermost frame of a stack has no frame pointer.
        return Err(Stop::Root);
    }
    let base = register.wrapping_add(rule.offset as i64 as u64);
    let cfa = match rule.cfa {
        cfa::REGISTER => base,
        cfa::DEREF => {
            let value = machine.stack(base).ok_or(Stop::Unreadable)?;
            value.wrapping_add(rule.aux as i64 as u64)
        }
        cfa::PLT if pc & 15 >= rule.aux as u64 => base.wrapping_add(8),
        cfa::PLT => base,
        cfa::DEPTH => from_top(machine, base).ok_or(Stop::Unreadable)?.wrapping_add(rule.aux as i64 as u64),
        _ => return signal::<A, M>(walk, machine, base),
    };
    // The lower word first: the machine reads ahead, upwards.
    let kept = keep(walk, machine, cfa, rule);
    let fp = frame_pointer::<A, M>(walk, machine, cfa, rule)?;
    let place = match rule.ra & ra::KIND {
        ra::BELOW => Some(cfa.wrapping_sub(8)),
        ra::SAVED => Some(cfa.wrapping_add(rule.aux as i64 as u64)),
        _ => None,
    };
    let return_address = match place {
        Some(place) => machine.stack(place).ok_or(Stop::Unreadable)?,
        None => walk.register(rule.aux as u8).ok_or(Stop::LostRegister)?,
    };
    walk.go::<A>(return_address, cfa, fp)?;
    if let Some(value) = kept {
        let number = kept_register(rule);
        walk.registers.values[number as usize] = value;
        walk.registers.known |= 1 << number;
    }
    walk.flags = 0;
    Ok(())
}

/// The caller's frame pointer, where it can be had.
#[inline(always)]
fn frame_pointer<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    cfa: u64,
    rule: &Rule,
) -> Result<Option<u64>, Stop> {
    let base = match rule.fp & fp::KIND {
        fp::SAME => return Ok(walk.register(A::FP as u8)),
        fp::SAVED => cfa,
        fp::DIRECT => walk.register(A::FP as u8).ok_or(Stop::LostRegister)?,
        _ => return Ok(None),
    };
    Ok(machine.stack(base.wrapping_add(rule.fp_offset as i64 as u64)))
}

/// The stack pointer on a stack that may have been moved, from what lies at `place`: see `DEPTH`.
#[inline(always)]
fn from_top<M: Machine>(machine: &mut M, place: u64) -> Option<u64> {
    let depth = machine.stack(place)?;
    let object = machine.stack(place.wrapping_add(8))?;
    if object == 0 {
        return Some(depth);
    }
    Some(machine.memory(object.wrapping_add(8))?.wrapping_sub(depth))
}

/// The number of the register that a rule keeps, 0 for none.
#[inline(always)]
fn kept_register(rule: &Rule) -> u8 {
    rule.ra >> kept::SHIFT & kept::NUMBER
}

/// The caller's value of that register.
#[inline(always)]
fn keep<M: Machine>(walk: &Walk, machine: &mut M, cfa: u64, rule: &Rule) -> Option<u64> {
    let number = kept_register(rule);
    if number == 0 {
        return None;
    }
    match rule.fp >> kept::SHIFT {
        kept::SAME => walk.register(number),
        kept::LOST => None,
        place => machine.stack(cfa.wrapping_sub(8 + 8 * place as u64)),
    }
}

/// Takes the registers of the code that a signal interrupted.
#[inline(always)]
fn signal<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, context: u64) -> Result<(), Stop> {
    let pc = machine.stack(context.wrapping_add(A::SIGNAL_PC)).ok_or(Stop::Unreadable)?;
    let sp = machine.stack(context.wrapping_add(A::SIGNAL_SP)).ok_or(Stop::Unreadable)?;
    let fp = machine.stack(context.wrapping_add(A::SIGNAL_FP));
    walk.stand::<A>(pc, sp, fp)?;
    walk.flags = frame::EXACT;
    Ok(())
}
