//! Tables of random rows against a map, and invalid tables.

#[path = "../../tests/random/mod.rs"]
mod random;
#[path = "../../tests/searches/mod.rs"]
mod searches;

use std::collections::BTreeMap;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::process::LoadBias;
use ebpf_programs::abi::arena::{BLOCK, UNIT};
use ebpf_programs::abi::table::{
    ALIGNMENT as PAGE, GROUP_ROWS, Group, Header, NO_DATA, PAGE_BITS, Page, Row, Rule, cfa, fp, ra,
};
use ebpf_programs::abi::{VERSION, registers::x86_64};

use random::Random;
use searches::Searches;

use super::build::Builder;
use super::rules::Packed;
use super::validate::{Invalid, validate};
use super::view::View;
use super::{Row as TableRow, Table};
use crate::modules::{Mapping, Modules};
use crate::walk::Walk;

/// Returns rule number `number`: rules differ in the size of their frame.
fn rule(number: u32) -> Rule {
    Rule {
        cfa: cfa::REGISTER,
        register: x86_64::SP as u8,
        ra: ra::BELOW,
        fp: fp::SAME,
        offset: 8 * (number as i32 + 1),
        ..Rule::NO_DATA
    }
}

/// Rules by the address of their row; `None` without unwind data.
type Model = BTreeMap<u64, Option<u32>>;

fn build(model: &Model) -> Vec<u8> {
    let mut builder = Builder::new(model.keys().next().copied().unwrap_or(0));
    for (&address, &number) in model {
        builder.push(address, number.map_or(Packed::NO_DATA, |number| Packed::of(&rule(number))));
    }
    let built = builder.finish();
    assert_eq!(built.dropped, 0);
    assert_eq!(validate(&built.image), Ok(()));
    built.image
}

/// Returns the rule of a model at an address.
fn expected(model: &Model, address: u64) -> Rule {
    let row = model.range(..=address).next_back();
    row.and_then(|(_, &number)| number).map_or(Rule::NO_DATA, rule)
}

/// Compares all readers with the model at each row, beside it and at random addresses; the table is
/// anywhere in the arena.
fn check(model: &Model, place: u32, random: &mut Random) -> Vec<u8> {
    let image = build(model);
    let (view, searches) = (View::new(&image).unwrap(), Searches::new(&image, place));
    let (&first, &last) = (model.keys().next().unwrap(), model.keys().next_back().unwrap());
    let anywhere: Vec<u64> = (0..500).map(|_| first + random.below(last - first + 2 * PAGE)).collect();
    let beside = model.keys().flat_map(|&row| [row, row + 1, row.wrapping_sub(1)]);
    let far = [0, u64::MAX, first.wrapping_sub(PAGE), last + 8 * PAGE, last + (1 << 40)];
    for address in beside.chain(anywhere).chain(far) {
        let told = expected(model, address);
        assert_eq!(searches.find(address), [Some(told); 3], "{address:x} at place {place}");
        searches.find_called(address);
        let number = view.find(address).unwrap_or(NO_DATA);
        assert_eq!(view.rule(number), Some(told), "{address:x}");
    }
    // One row per change of the rule.
    let mut before = view.rule(NO_DATA);
    for (address, number) in view.rows() {
        let told = view.rule(number);
        assert_ne!(told, before, "{address:x}");
        assert_eq!(told, Some(expected(model, address)));
        before = told;
    }
    image
}

/// Dense and sparse rows with gaps.
fn scattered(random: &mut Random) -> Model {
    let mut address = random.below(1 << 30);
    let mut model = Model::new();
    for _ in 0..1 + random.below(40) {
        address += [1, 500, PAGE, 40 * PAGE, 900 * PAGE][random.below(5) as usize] + random.below(3 * PAGE);
        address &= !random.below(2).wrapping_mul(PAGE - 1);
        let step = [1, 3, 16, 4000][random.below(4) as usize];
        for number in 0..1 + random.below(300) {
            let gap = random.below(9) == 0;
            model.insert(address, (!gap).then_some((number % 50) as u32));
            address += 1 + random.below(step);
        }
        // Some functions extend to the next one, over pages without rows.
        if random.below(8) != 0 {
            model.insert(address, None);
        }
        address += 1;
    }
    model.insert(address, None);
    model
}

#[test]
fn both_readers_find_what_was_pushed() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..60 {
        let model = scattered(&mut random);
        let places = (BLOCK / UNIT) as u64 * 2;
        let place = random.below(places) as u32;
        check(&model, place, &mut random);
    }
}

/// Many pages of one row each, for which the largest page size is best.
fn lone_rows(first_page: u64) -> impl Iterator<Item = (u64, Option<u32>)> {
    let row = move |page: u64| ((first_page + page) * PAGE, (page != 1999).then_some(page as u32 % 50));
    (0..2000).map(row)
}

/// Full pages with the border between two blocks at each row.
#[test]
fn a_pages_rows_go_on_in_the_next_block() {
    let mut random = Random(0xfedc_ba98_7654_3211);
    // Behind the header there are 8 rows fewer than in a block.
    for first in [1, 100, GROUP_ROWS as u64 - 9, GROUP_ROWS as u64 - 8] {
        let rows = |page: u64, count: u64| {
            (0..count).map(move |row| (page * PAGE + row * 3, Some((row % 700) as u32)))
        };
        let pages = [rows(3, first), rows(20, GROUP_ROWS as u64), rows(40, 7000), rows(90, 7000)];
        let model: Model = pages.into_iter().flatten().chain(lone_rows(92)).collect();
        for place in [0, 777] {
            let image = check(&model, place, &mut random);
            assert_eq!(page_bits(&image), *PAGE_BITS.end());
        }
    }
}

fn page_bits(image: &[u8]) -> u32 {
    View::new(image).unwrap().header().page_bits.into()
}

/// Small pages for dense rows, large ones for sparse rows, and at most the maximum of rows in a
/// group.
#[test]
fn pages_are_as_small_as_they_pay_for() {
    let mut random = Random(0x0dd0_1234_5678_9abc);
    for (step, bits) in
        [(1, 10), (50, 10), (100, 11), (200, 12), (400, 13), (900, 14), (2000, 15), (4000, 16), (40_000, 16)]
    {
        let rule = |row: u64| (row != 19_999).then_some(row as u32 % 700);
        let model = (0..20_000).map(|row| (row * step, rule(row))).collect();
        let image = check(&model, 5, &mut random);
        assert_eq!(page_bits(&image), bits, "a row each {step} bytes");
    }
    let dense = (0..4 * GROUP_ROWS as u64).map(|row| (row, Some((row % 700) as u32)));
    let image = check(&dense.chain(lone_rows(1)).collect(), 5, &mut random);
    assert_eq!(page_bits(&image), 10);
    // All groups would have pages, were these twice as large.
    let dense = (0..2 * GROUP_ROWS as u64).map(|row| (row, Some((row % 700) as u32)));
    let image = check(&dense.chain([(3500 << 10, None)]).collect(), 5, &mut random);
    assert_eq!((page_bits(&image), View::new(&image).unwrap().header().whole), (10, 0));
}

#[test]
fn what_lies_between_costs_next_to_nothing() {
    let tiny = |at: u64| [(at, Some(1)), (at + 16, None)];
    let far: Model = tiny(0x1000).into_iter().chain(tiny(0x1000 + u64::from(u32::MAX))).collect();
    let mut random = Random(1);
    let image = check(&far, 0, &mut random);
    assert_eq!(View::new(&image).unwrap().header().whole, 0);
    assert!(image.len() < 33 << 10, "{} bytes", image.len());
    // A program of which only a part has unwind data: one page of thirty has some hundred rows.
    let pages = (0..120u64).flat_map(|page| {
        (0..300).map(move |row| (page * 30 * PAGE + row * 100, (row != 299).then_some(row as u32 % 50)))
    });
    let image = check(&pages.collect(), 0, &mut random);
    let header = View::new(&image).unwrap().header();
    let bytes = image.len() - header.rules as usize * size_of::<Rule>();
    assert!(bytes as f64 <= 4.2 * f64::from(header.rows), "{bytes} bytes for {} rows", header.rows);
}

/// If few groups have no rows, all groups have pages.
#[test]
fn a_gap_in_a_whole_directory() {
    let rows =
        |from: u64| (0..8000u64).map(move |row| (from + row * 40, (row != 7999).then_some(row as u32 % 50)));
    let mut random = Random(1);
    for (gap, expected) in [(0, (10, 1)), (90 << 10, (10, 1)), (40 << 20, (13, 0))] {
        let model = rows(0).chain(rows(320_000 + gap)).collect();
        let header = View::new(&check(&model, 3, &mut random)).unwrap().header();
        assert_eq!((header.page_bits, header.whole), expected, "a gap of {gap} bytes");
    }
}

#[test]
fn no_rows_at_all() {
    let image = Builder::new(0x1234_5678).finish().image;
    assert_eq!(validate(&image), Ok(()));
    assert_eq!(image.len(), size_of::<Header>() + 2 * size_of::<Rule>() + 2 * size_of::<Page>());
    assert_eq!(Searches::new(&image, 0).find(0x1234_5678), [Some(Rule::NO_DATA); 3]);
    let mut changed = image.clone();
    changed[image.len() - 4] += 1;
    assert_eq!(validate(&changed), Err(Invalid::Parts));
}

/// For a call that would end in a row of one byte the next row is used, also across blocks and
/// pages.
#[test]
fn the_row_behind_one_of_one_byte() {
    // The rows from the second page on reach over the border by these many.
    let cases = [0, 1, 2, 3].map(|behind| [0x100, 0xfff, 0xffff].map(|distance| (behind, PAGE + distance)));
    for (behind, at) in cases.into_iter().flatten() {
        let full = (BLOCK - size_of::<Header>()) / size_of::<Row>() - 4 + behind;
        let first = (0..full as u64).map(|row| (row * 2, Some(row as u32 % 100)));
        let second = [(PAGE, 3), (PAGE + 8, 4), (at, 200), (at + 1, 1), (at + 0x100, 5)];
        let mut model: Model = first.chain(second.map(|(address, rule)| (address, Some(rule)))).collect();
        model.insert(3 * PAGE, None);
        let table = Table::from_image(build(&model), Arch::X86_64).unwrap();
        assert_eq!(page_bits(table.image()), 10);
        let mapping = Mapping::new(PAGE..3 * PAGE, LoadBias::ZERO).with_table(&table);
        let modules = Modules::new(Arch::X86_64, &[mapping]);
        // A frame of rule 3, called from where the row of one byte is; that frame has two words, as rule 1
        // says.
        let stack = |address: u64| match address {
            0x7000_0018 => Some(at + 1),
            0x7000_0028 => Some(at + 0x101),
            _ => Some(0),
        };
        let mut registers = ebpf_programs::abi::registers::Registers {
            pc: PAGE,
            known: 1 << x86_64::SP,
            ..Default::default()
        };
        registers.values[x86_64::SP] = 0x7000_0000;
        let frames = Walk::new(&modules, &registers, stack).filter_map(|frame| frame.native().copied());
        let addresses: Vec<u64> = frames.map(|frame| frame.address).collect();
        assert_eq!(addresses, [PAGE, at, at + 0x100], "{behind} rows behind the border, {at:x}");
    }
}

fn write(image: &mut [u8], at: u64, word: u32) {
    image[at as usize..][..4].copy_from_slice(&word.to_le_bytes());
}

/// Each property of a table, violated once.
#[test]
fn lies_are_found() {
    let mut model = Model::new();
    for page in [0, 1, 40, 41, 101u64] {
        model.extend((0..7).map(|row| (page * PAGE + row * 16, (row != 6).then_some(row as u32))));
    }
    let image = build(&model);
    let header = View::new(&image).unwrap().header();
    let changed = |at: u64, word: u32| {
        let mut image = image.clone();
        write(&mut image, at, word);
        validate(&image)
    };
    let word = |at: u64| u32::from_le_bytes(image[at as usize..][..4].try_into().unwrap());
    let group = |number: u64| header.groups_at() + number * size_of::<Group>() as u64;
    let first_page = (header.pages_at() / size_of::<Page>() as u64) as u32;
    let page = |number: u64, row: u16| {
        let mut image = image.clone();
        let at = header.pages_at() + number * size_of::<Page>() as u64;
        image[at as usize..][..2].copy_from_slice(&row.to_le_bytes());
        validate(&image)
    };
    let broken = |number: u32| Err(Invalid::Page(first_page + number));
    // The rows of the five pages begin at 8, 15, 22, 29 and 36 and end at 43. Groups 0, 2 and 6 have
    // some: pages 0 to 15, 16 to 31 and 32 to 37 of those named.
    assert_eq!((header.pages, header.groups(), header.rows, header.page_bits), (102, 7, 35, 16));
    assert_eq!(validate(&image[..31]), Err(Invalid::Short));
    assert_eq!(changed(0, 8), Err(Invalid::Base(8)));
    assert_eq!(changed(24, 16 << 16 | (VERSION - 1)), Err(Invalid::Version(VERSION - 1)));
    assert_eq!(changed(24, 9 << 16 | VERSION), Err(Invalid::PageBits(9)));
    assert_eq!(changed(24, 17 << 16 | VERSION), Err(Invalid::PageBits(17)));
    assert_eq!(changed(20, header.size - 8), Err(Invalid::Size(header.size - 8)));
    assert_eq!(changed(24, 1 << 24 | 16 << 16 | VERSION), Err(Invalid::Group(1)), "a group has no pages");
    assert_eq!(changed(24, 2 << 24 | 16 << 16 | VERSION), Err(Invalid::Parts));
    assert_eq!(changed(28, 1), Err(Invalid::Parts), "something in front of the first row");
    assert_eq!(changed(12, 0), Err(Invalid::Parts));
    assert_eq!(changed(8, u32::MAX), Err(Invalid::Parts));
    assert!(changed(8, header.pages - 1).is_err(), "a page less");
    assert!(changed(8, header.pages + 1).is_err(), "a page more");
    assert!(changed(8, header.pages + 16).is_err(), "a group more");
    assert_eq!(changed(header.rows_end(), 1), Err(Invalid::Parts), "between rows and rules");
    assert_eq!(changed(header.rules_at(), 1), Err(Invalid::Parts), "rule 0");
    assert_eq!(changed(group(0), 7), Err(Invalid::Group(0)), "a row of the header");
    assert_eq!(changed(group(1), 15), Err(Invalid::Group(1)), "a row that doesn't begin there");
    assert_eq!(changed(group(6), 36 + (1 << 16)), Err(Invalid::Group(6)), "a row behind all");
    assert_eq!(changed(group(2) + 4, first_page), Err(Invalid::Group(2)), "another group's pages");
    assert_eq!(changed(group(0) + 4, 0), Err(Invalid::Group(1)), "rows in no group");
    assert_eq!(changed(group(1) + 4, first_page + 16), Err(Invalid::Group(2)), "the next group's pages");
    let mut useless = image.clone();
    let behind = header.pages_at() as usize + 16 * size_of::<Page>();
    useless.splice(behind..behind, [22, 0].repeat(16));
    for (at, word) in [(20, header.size + 32), (group(1) as u32 + 4, first_page + 16)] {
        write(&mut useless, at.into(), word);
    }
    assert_eq!(validate(&useless), Err(Invalid::Group(1)), "pages without rows");
    assert_eq!(changed(group(6) + 4, 0), Err(Invalid::Pages(102)), "a last group without rows");
    assert_eq!(page(0, 7), broken(0), "a row of the header");
    assert_eq!(page(0, 9), broken(0), "a row of no page");
    assert_eq!(page(1, 8), Err(Invalid::Row(15)), "rows of another page");
    assert_eq!(page(1, 16), Err(Invalid::Row(15)), "rows of the next page");
    assert_eq!(page(1, 14), Err(Invalid::Row(15)), "rows of the page before");
    assert_eq!(page(1, 7), broken(0), "less than none");
    assert_eq!(page(1, u16::MAX), broken(0));
    assert_eq!(page(38, 42), Err(Invalid::Rows(35)), "a row behind all pages");
    assert_eq!(page(37, 43), Err(Invalid::Pages(102)), "a last page without rows");
    assert_eq!(page(39, 1), Err(Invalid::Parts), "behind the pages");
    assert_eq!(changed(32 + 4 * 2, word(32 + 4)), Err(Invalid::Row(10)), "an address twice");
    assert_eq!(changed(32 + 4, 16 | header.rules << 16), Err(Invalid::Row(9)), "no such rule");
    let last = [&image[..], &[0; 8]].concat();
    assert_eq!(validate(&last), Err(Invalid::Size(header.size)));
    let mut last = last;
    write(&mut last, 20, header.size + 8);
    assert_eq!(validate(&last), Err(Invalid::Parts), "something behind the pages");
    let mut high = image.clone();
    high[..8].copy_from_slice(&(0u64.wrapping_sub(101 * PAGE)).to_le_bytes());
    assert_eq!(validate(&high), Err(Invalid::Base(0u64.wrapping_sub(101 * PAGE))));
    high[..8].copy_from_slice(&(0u64.wrapping_sub(103 * PAGE)).to_le_bytes());
    assert_eq!(validate(&high), Ok(()));
}

/// More rows than a group can have, while each of its pages is small enough.
#[test]
fn a_group_too_full_is_found() {
    let rows = GROUP_ROWS as u64 + 1;
    let model = (0..rows).map(|row| (row * 8, Some(row as u32 % 7))).collect();
    let mut image = build(&model);
    let header = View::new(&image).unwrap().header();
    assert_eq!((header.page_bits, u64::from(header.rows)), (10, rows));
    image.truncate(header.groups_at() as usize);
    let pages = (image.len() + size_of::<Group>()) / size_of::<Page>();
    image.extend([8, pages as u32].map(u32::to_le_bytes).as_flattened());
    image.extend([8, 8 + (1 << 13), 8 + (1 << 14), 8 + rows as u16].map(u16::to_le_bytes).as_flattened());
    let size = image.len() as u32;
    write(&mut image, 8, 3);
    write(&mut image, 20, size);
    write(&mut image, 24, 16 << 16 | VERSION);
    assert_eq!(validate(&image), Err(Invalid::Group(0)));
}

/// Page and rule behind the last ones are not read.
#[test]
fn nothing_is_taken_from_behind_the_last_one() {
    let model: Model = (0..8000).map(|row| (row * 40, Some(row as u32 % 7))).collect();
    let mut image = build(&model);
    let header = View::new(&image).unwrap().header();
    assert_eq!((header.pages, header.page_bits, header.whole), (313, 10, 1));
    // That page would begin and end with the last row, which has a rule.
    image.extend_from_within(image.len() - size_of::<Page>()..);
    let find = |image: &[u8], address| Searches::new(image, 3).find(address);
    let behind = u64::from(header.pages) << header.page_bits;
    assert_eq!(find(&image, behind), [Some(Rule::NO_DATA); 3]);
    assert_eq!(find(&image, behind - 1), [Some(rule(7999 % 7)); 3]);
    // The first row, of address 0.
    let row = size_of::<Header>() as u64;
    write(&mut image, row, header.rules << 16);
    assert_eq!(find(&image, 0), [None; 3]);
    write(&mut image, row, (header.rules - 1) << 16);
    assert_eq!(find(&image, 0), [Some(rule(6)); 3]);
}

/// Invalid tables do no harm to the kernel side's reader, validated or not.
#[test]
fn any_word_may_be_anything() {
    let mut random = Random(0xabcd_ef01_2345_6789);
    let model: Model = scattered(&mut random).into_iter().take(200).collect();
    let image = build(&model);
    let addresses: Vec<u64> = model.keys().copied().step_by(5).chain([0, u64::MAX]).collect();
    for _ in 0..3000 {
        let mut image = image.clone();
        for _ in 0..1 + random.below(3) {
            let near = [0, 1, 31, 0xffff, 1 << 14, 1 << 31, u32::MAX - 1, u32::MAX];
            let word = near[random.below(8) as usize].wrapping_add(random.below(3) as u32);
            let front = random.below(2) == 0;
            let words = if front { 8 } else { image.len() as u64 / 4 };
            write(&mut image, random.below(words) * 4, word);
        }
        let searches = Searches::new(&image, 3);
        let found: Vec<_> = addresses.iter().map(|&address| searches.find(address)).collect();
        if let Ok(table) = Table::from_image(image, Arch::X86_64) {
            for (&address, found) in addresses.iter().zip(found) {
                let told = found.map(|found| found.filter(|rule| rule.cfa != cfa::NO_DATA));
                assert_eq!(told, [table.rule(address).map(|rule| rule.raw()); 3], "{address:x}");
            }
            let rows: Vec<TableRow> = table.rows().collect();
            assert_eq!(rows.len(), View::new(table.image()).unwrap().header().rows as usize);
            for TableRow { address, rule } in rows {
                assert_eq!(table.rule(address), Some(rule).filter(|rule| rule.is_described()));
            }
        }
    }
}

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/image");

/// A fuzzer gains nothing from tables of another version.
#[test]
fn seeds_are_tables() {
    let seeds: Vec<_> = std::fs::read_dir(SEEDS).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 3);
    for seed in seeds {
        assert_eq!(validate(&std::fs::read(&seed).unwrap()), Ok(()), "{}", seed.display());
    }
}

/// Writes seeds of the fuzzer of tables: pages of several groups, and small pages; that of a Go
/// program gets the version.
#[test]
#[ignore = "writes files"]
fn write_seeds() {
    let far = [0, 1, 70, 95u64]
        .map(|page| [(page * PAGE, Some(1)), (page * PAGE + 9, Some(2)), (page * PAGE + 10, None)]);
    let dense = (0..600).map(|row| (row * 40, (row != 599).then_some(row as u32 % 7))).collect();
    for (name, model) in [("far", far.into_iter().flatten().collect()), ("dense", dense)] {
        std::fs::write(format!("{SEEDS}/{name}"), build(&model)).unwrap();
    }
    let go = format!("{SEEDS}/go");
    let mut image = std::fs::read(&go).unwrap();
    let version = std::mem::offset_of!(Header, version);
    image[version..][..2].copy_from_slice(&(VERSION as u16).to_le_bytes());
    std::fs::write(go, image).unwrap();
}
