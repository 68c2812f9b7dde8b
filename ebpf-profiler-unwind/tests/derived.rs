//! Rows of functions without unwind data.

mod elf;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::unwind::{BareFunction, Entry, UnwindCompiler};
use ebpf_profiler_unwind::{Table, tables};

/// Returns the rows of a function, with their offsets.
fn rows(entry: Entry, code: &[&[u8]]) -> Vec<(u64, String)> {
    let (code, padding) = (code.concat(), [0xcc; 16]);
    let elf = elf::open(elf::with_code(elf::X86_64, &[&code[..], &padding].concat()));
    let functions = [BareFunction { range: elf::BARE..elf::BARE + code.len() as u64, entry }];
    let compiled = tables().compile_with(&elf, &functions).expect("the headers are right");
    let table = Table::from_image(compiled.image, Arch::X86_64).expect("it was built");
    table.rows().map(|row| (row.address - elf::BARE, row.rule.to_string())).collect()
}

fn check(entry: Entry, code: &[&[u8]], expected: &[(u64, &str)]) {
    let size: usize = code.iter().map(|part| part.len()).sum();
    let rows = rows(entry, code);
    let found: Vec<(u64, &str)> = rows.iter().map(|(at, rule)| (*at, &**rule)).collect();
    // The last row is behind the function.
    let end = (size as u64, NONE);
    let is_known_at_end = expected.last().is_none_or(|(_, rule)| *rule != NONE);
    let expected: Vec<_> = expected.iter().copied().chain(is_known_at_end.then_some(end)).collect();
    assert_eq!(found, expected);
}

const NONE: &str = "no unwind data";
const ENTERED: &str = "cfa = rsp + 8, ra = [cfa - 8]";
const PUSHED: &str = "cfa = rsp + 16, ra = [cfa - 8]";
const FRAMED: &str = "cfa = rbp + 16, rbp = [cfa - 16], ra = [cfa - 8]";

const PUSH_RBP: &[u8] = b"\x55";
const MOV_RBP_RSP: &[u8] = b"\x48\x89\xe5";
const MOV_RSP_RBP: &[u8] = b"\x48\x89\xec";
const POP_RBP: &[u8] = b"\x5d";
const RET: &[u8] = b"\xc3";
const INT3: &[u8] = b"\xcc";
/// To a function behind this one.
const CALL: &[u8] = b"\xe8\x00\x10\x00\x00";
const JMP: &[u8] = b"\xe9\x00\x10\x00\x00";

#[test]
fn frame_is_pushed_and_popped() {
    // push 34; sub rsp, 24
    let code = [PUSH_RBP, MOV_RBP_RSP, b"\x6a\x22\x48\x83\xec\x18", CALL, MOV_RSP_RBP, POP_RBP, RET];
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (19, ENTERED)]);
    // leave; ret 8
    let code = [PUSH_RBP, MOV_RBP_RSP, b"\xc9\xc2\x08\x00"];
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (5, ENTERED)]);
}

#[test]
fn stack_pointer_is_followed_without_a_frame() {
    // push rbx; sub rsp, 16; call; add rsp, 16; pop rbx; ret
    let code = [b"\x53\x48\x83\xec\x10", CALL, b"\x48\x83\xc4\x10\x5b", RET];
    let pushed = "cfa = rsp + 16, ra = [cfa - 8]";
    let moved = "cfa = rsp + 32, ra = [cfa - 8]";
    check(Entry::Called, &code, &[(0, ENTERED), (1, pushed), (5, moved), (14, pushed), (15, ENTERED)]);
    // lea rsp, [rsp - 32]; lea rsp, [rsp + 32]; ret
    let code = [b"\x48\x8d\x64\x24\xe0", &b"\x48\x8d\x64\x24\x20"[..], RET];
    check(Entry::Called, &code, &[(0, ENTERED), (5, "cfa = rsp + 40, ra = [cfa - 8]"), (10, ENTERED)]);
}

#[test]
fn frame_is_left_before_a_jump_to_another_function() {
    // push 34; mov rbp, [rbp]; mov rdi, rax; add rsp, 16
    let code =
        [PUSH_RBP, MOV_RBP_RSP, b"\x6a\x22\x48\x8b\x6d\x00", b"\x48\x89\xc7", b"\x48\x83\xc4\x10", JMP];
    let left = "cfa = rsp + 24, ra = [cfa - 8]";
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (10, left), (17, ENTERED)]);
}

#[test]
fn stack_pointer_is_counted_back_from_the_end() {
    // Behind the frame is a number of arguments that isn't known: jne over push rax.
    let arguments = b"\x75\x01\x50";
    // mov rbp, [rbp]; mov rax, [rsp + 8]; add rsp, 16
    let leave = b"\x48\x8b\x6d\x00\x48\x8b\x44\x24\x08\x48\x83\xc4\x10";
    let left = "cfa = rsp + 24, ra = [cfa - 8]";
    let code = [PUSH_RBP, MOV_RBP_RSP, arguments, leave, JMP];
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (11, left), (20, ENTERED)]);
    // The same, but the end is a trap.
    let code = [PUSH_RBP, MOV_RBP_RSP, arguments, leave, INT3];
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (11, NONE)]);
    // push rcx; ret: a jump, so the return address is above.
    let code = [arguments, &b"\x51"[..], RET];
    let jump = "cfa = rsp + 16, ra = [cfa - 8]";
    check(Entry::Called, &code, &[(0, ENTERED), (4, jump)]);
}

#[test]
fn return_address_is_in_a_register() {
    // pop r10; lea rsp, [rsp + rcx * 8]; push r10; ret
    let code = [&b"\x41\x5a"[..], b"\x48\x8d\x24\xcc", b"\x41\x52", RET];
    check(Entry::Called, &code, &[(0, ENTERED), (2, "cfa = rsp, ra = r10"), (8, ENTERED)]);
    // pop r11; push rax; dec rcx; jne to the push; push r11; jmp
    let code = [&b"\x41\x5b"[..], b"\x50\x48\xff\xc9\x75\xfa", b"\x41\x53", JMP];
    check(Entry::Called, &code, &[(0, ENTERED), (2, "cfa = rsp, ra = r11"), (10, ENTERED)]);
    // The register is overwritten: mov r11, rax.
    let code = [&b"\x41\x5b"[..], b"\x49\x89\xc3", b"\x41\x53", JMP];
    let rows = rows(Entry::Called, &code);
    assert_eq!(rows[..2], [(0, ENTERED.to_owned()), (2, "cfa = rsp, ra = r11".to_owned())]);
    assert!(rows[2..].iter().all(|(_, rule)| !rule.contains("r11")), "{rows:?}");
}

#[test]
fn stack_moved_by_a_register_is_found_by_another() {
    // mov r8, rsp; sub rsp, r10; mov rax, [r8]; mov [rsp], rax; xor r8d, r8d; jmp
    let code = [&b"\x49\x89\xe0"[..], b"\x4c\x29\xd4", b"\x49\x8b\x00\x48\x89\x04\x24", b"\x45\x31\xc0", JMP];
    let by_copy = "cfa = r8 + 8, ra = [cfa - 8]";
    check(Entry::Called, &code, &[(0, ENTERED), (6, by_copy), (16, ENTERED)]);
}

#[test]
fn code_that_no_jump_reaches_has_the_frame_that_all_paths_agree_with() {
    // A handler of exceptions jumps to the end of the function: mov rbx, rax; jmp -14
    let code = [PUSH_RBP, MOV_RBP_RSP, b"\x53", CALL, MOV_RSP_RBP, POP_RBP, RET, b"\x48\x89\xc3\xeb\xf6"];
    let expected = [(0, ENTERED), (1, PUSHED), (4, FRAMED), (14, ENTERED), (15, FRAMED)];
    check(Entry::Called, &code, &expected);
    // It returns with the frame.
    let code = [PUSH_RBP, MOV_RBP_RSP, MOV_RSP_RBP, POP_RBP, RET, b"\x48\x89\xc3", b"\x53", RET];
    check(Entry::Called, &code, &[(0, ENTERED), (1, PUSHED), (4, FRAMED), (8, ENTERED), (9, NONE)]);
}

#[test]
fn callee_that_throws_does_not_return_into_code_with_another_frame() {
    // jae over: push rbp; mov rbp, rsp; call; then ret
    let code = [b"\x73\x09", PUSH_RBP, MOV_RBP_RSP, CALL, b"\x48\x31\xc0", RET];
    check(Entry::Called, &code, &[(0, ENTERED), (3, PUSHED), (6, FRAMED), (11, ENTERED)]);
}

#[test]
fn overlapping_instructions_have_no_rule() {
    // jne into the number of mov eax, 0x90909090
    assert_eq!(rows(Entry::Called, &[b"\x75\x01\xb8\x90\x90\x90\x90", RET]), []);
}

#[test]
fn continued_frame_begins_before_the_function() {
    let function = [b"\x58", MOV_RSP_RBP, POP_RBP, RET].concat();
    let code = [RET, &[0xcc; 7][..], &function].concat();
    let elf = elf::open(elf::with_code(elf::X86_64, &code));
    let start = elf::BARE + 8;
    let functions = [
        BareFunction { range: elf::BARE..elf::BARE + 1, entry: Entry::Called },
        BareFunction { range: start..start + function.len() as u64, entry: Entry::Framed },
    ];
    let compiled = tables().compile_with(&elf, &functions).expect("the headers are right");
    let table = Table::from_image(compiled.image, Arch::X86_64).expect("it was built");
    let rules = [elf::BARE, start - 2, start - 1, start, start + 5]
        .map(|address| table.rule(address).map_or_else(|| NONE.to_owned(), |rule| rule.to_string()));
    assert_eq!(rules, [ENTERED, NONE, FRAMED, FRAMED, ENTERED]);
}
