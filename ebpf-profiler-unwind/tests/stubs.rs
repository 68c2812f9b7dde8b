//! Code that nothing describes and that is known by its instructions.

use ebpf_profiler_unwind::Table;

const BASE: u64 = 0x40_0000;

/// A program without sections or unwind data: one segment, code at its end, at the first byte of
/// which it begins.
fn program(machine: u16, code: &[u8]) -> (Table, u64) {
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, machine].map(u16::to_le_bytes).as_flattened());
    file.extend(1u32.to_le_bytes());
    file.extend([BASE + HEADERS, 64, 0].map(u64::to_le_bytes).as_flattened());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).as_flattened());
    file.extend([1u32, 5].map(u32::to_le_bytes).as_flattened());
    file.extend([0, BASE, BASE, size, size, 4096].map(u64::to_le_bytes).as_flattened());
    file.extend(code);
    (Table::from_elf(&file).expect("the headers are right"), BASE + HEADERS)
}

fn rule(table: &Table, address: u64) -> String {
    table.rule(address).map_or_else(|| "none".to_owned(), |rule| rule.to_string())
}

#[test]
fn of_musl_on_x86_64() {
    let start = b"\x48\x31\xed\x48\x89\xe7\x48\x8d\x35\x00\x2d\0\0\x48\x83\xe4\xf0\xe8\x05\0\0\0";
    let code = [&start[..], &[0x90; 100], b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", &[0xc3; 8]].concat();
    let (table, entry) = program(62, &code);
    let signal_return = entry + start.len() as u64 + 100;
    // The return address of the first function lies behind the entry's call, and is looked up one byte
    // before.
    let entries = [entry, entry + 21, entry + 22].map(|address| rule(&table, address));
    assert_eq!(entries, ["outermost frame", "outermost frame", "none"]);
    for address in [signal_return - 1, signal_return, signal_return + 8, signal_return + 9] {
        assert_eq!(rule(&table, address), "all registers in the signal frame at rsp");
    }
    assert_eq!(rule(&table, signal_return - 2), "none");
    assert_eq!(rule(&table, signal_return + 10), "none");
}

/// In a linked program it stands between functions that are described: the room is small, but the
/// header names it.
#[test]
fn an_entry_in_a_small_gap() {
    let start = b"\x48\x31\xed\x48\x89\xe7\x48\x8d\x35\x00\x2d\0\0\x48\x83\xe4\xf0\xe8\x05\0\0\0";
    let (table, entry) = program(62, start);
    assert_eq!([entry, entry + 21].map(|address| rule(&table, address)), ["outermost frame"; 2]);
}

#[test]
fn of_musl_on_arm64() {
    let words = [0xd280_001du32, 0xd280_001e, 0x9100_03e0, 0x1400_0001].into_iter();
    let words = words.chain([0xd503_201f; 25]).chain([0xd280_1168, 0xd400_0001, 0xd65f_03c0]);
    let code: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let (table, entry) = program(183, &code);
    let entries = [entry, entry + 12, entry + 16].map(|address| rule(&table, address));
    assert_eq!(entries, ["outermost frame", "outermost frame", "none"]);
    let signal_return = entry + 29 * 4;
    for address in [signal_return - 1, signal_return, signal_return + 4, signal_return + 8] {
        assert_eq!(rule(&table, address), "all registers in the signal frame at sp + 128");
    }
    assert_eq!(rule(&table, signal_return + 9), "none");
}

#[test]
fn where_there_are_none_there_is_no_table() {
    for machine in [62, 183] {
        let (table, _) = program(machine, &[0; 200]);
        assert_eq!(table.rows().count(), 0);
    }
}
