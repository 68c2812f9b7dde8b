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

/// Returns the derived rows of code whose functions are not known: offsets and rules.
fn region(code: &[&[u8]]) -> Vec<(u64, String)> {
    let code = code.concat();
    let elf = elf::open(elf::with_code(elf::X86_64, &code));
    let table = Table::with_derived_rules(&elf).expect("the headers are right");
    let rule = |at| table.rule(elf::BARE + at).map_or(NONE.to_owned(), |rule| rule.to_string());
    let rows = (0..=code.len() as u64).map(|at| (at, rule(at).replace(" (derived)", "")));
    let mut rows: Vec<(u64, String)> = rows.collect();
    rows.dedup_by(|next, row| next.1 == row.1);
    rows
}

/// Compares the rows of code of `size` bytes; behind it there is nothing.
fn check_region(code: &[&[u8]], expected: &[(u64, &str)]) {
    let size: usize = code.iter().map(|part| part.len()).sum();
    let rows = region(code);
    let found: Vec<(u64, &str)> = rows.iter().map(|(at, rule)| (*at, &**rule)).collect();
    let end = (size as u64, NONE);
    let is_known_at_end = expected.last().is_some_and(|(_, rule)| *rule != NONE);
    let expected: Vec<_> = expected.iter().copied().chain(is_known_at_end.then_some(end)).collect();
    assert_eq!(found, expected);
}

const PUSH_RBX: &[u8] = b"\x53";
const POP_RBX: &[u8] = b"\x5b";

/// The parts of OpenBLAS's `dgemm_kernel_HASWELL` that touch the frame.
#[test]
fn frame_of_a_matrix_kernel_starts_from_a_saved_register() {
    let code: [&[u8]; 10] = [
        b"\x48\x83\xec\x60\x48\x89\x1c\x24",
        b"\x48\x89\x6c\x24\x08\x4c\x89\x64\x24\x10\xc5\xf8\x77",
        b"\x48\x89\xe3\x48\x81\xec\x80\x70\x00\x00",
        b"\x48\x81\xe4\x00\xf0\xff\xff",
        // je to the end, then rbp is a pointer: lea rbp, [rax + r10 * 2]
        b"\x48\x83\xff\x00\x74\x0c",
        b"\x4c\x89\x74\x24\x28\x4a\x8d\x2c\x50",
        b"\xc5\xf8\x77",
        b"\x48\x89\xdc\x48\x8b\x1c\x24",
        b"\x48\x8b\x6c\x24\x08\x4c\x8b\x64\x24\x10\x48\x83\xc4\x60",
        RET,
    ];
    let expected = [
        (0, "cfa = rsp + 8, ra = [cfa - 8]"),
        (4, "cfa = rsp + 104, ra = [cfa - 8]"),
        (13, "cfa = rsp + 104, rbp = [cfa - 96], ra = [cfa - 8]"),
        (31, "cfa = rsp + 28904, rbp = [cfa - 96], ra = [cfa - 8]"),
        (38, "cfa = rbx + 104, rbp = [cfa - 96], ra = [cfa - 8]"),
        (59, "cfa = rsp + 104, rbp = [cfa - 96], ra = [cfa - 8]"),
        (77, "cfa = rsp + 8, ra = [cfa - 8]"),
    ];
    check_region(&code, &expected);
}

/// As x264's macros and GCC do: the word above the lower part is the stack pointer before.
#[test]
fn realigned_frame_starts_from_a_stack_word() {
    // mov rax, rsp; sub rsp, 64; and rsp, -32; mov [rsp + 32], rax; xor eax, eax; mov rsp, [rsp + 32]; ret
    let code: [&[u8]; 7] = [
        b"\x48\x89\xe0",
        b"\x48\x83\xec\x40",
        b"\x48\x83\xe4\xe0",
        b"\x48\x89\x44\x24\x20",
        b"\x31\xc0",
        b"\x48\x8b\x64\x24\x20",
        RET,
    ];
    let expected = [
        (0, ENTERED),
        (7, "cfa = rsp + 72, ra = [cfa - 8]"),
        (11, "cfa = rax + 8, ra = [cfa - 8]"),
        (18, "cfa = [rsp + 32] + 8, ra = [cfa - 8]"),
        (23, ENTERED),
    ];
    check_region(&code, &expected);
}

#[test]
fn each_function_of_a_gap_is_tried() {
    let padding = [0xcc; 13];
    let refused = [PUSH_RBX, RET, &[0xcc; 14]].concat();
    let data = [0x06; 16];
    let code = [PUSH_RBX, POP_RBX, RET, &padding, &refused, &data, PUSH_RBX, POP_RBX, RET];
    let expected =
        [(0, ENTERED), (1, PUSHED), (2, ENTERED), (16, NONE), (48, ENTERED), (49, PUSHED), (50, ENTERED)];
    check_region(&code, &expected);
}

#[test]
fn code_that_returns_elsewhere_is_refused() {
    // push rax; ret: a jump
    check_region(&[b"\x50", RET], &[(0, NONE)]);
    // pop rax; ret: the part of another function
    check_region(&[b"\x58", RET], &[(0, NONE)]);
    // jmp to itself
    check_region(&[b"\xeb\xfe"], &[(0, NONE)]);
    // je to push rbx; or not: both then pop
    check_region(&[b"\x74\x01", PUSH_RBX, POP_RBX, RET], &[(0, NONE)]);
    // mov [rsp], rax; ret
    check_region(&[b"\x48\x89\x04\x24", RET], &[(0, NONE)]);
}

#[test]
fn code_behind_a_call_and_padding_is_this_function_or_the_next_one() {
    // je to ret; sub rsp, 8; call; int3; ret; int3
    let call: [&[u8]; 5] =
        [b"\x74\x0a\x48\x83\xec\x08", b"\xe8\x00\x10\x00\x00", &[0xcc; 1], RET, &[0xcc; 3]];
    let rest = [PUSH_RBX, POP_RBX, RET];
    let code: Vec<&[u8]> = call.into_iter().chain(rest).collect();
    let deeper = "cfa = rsp + 16, ra = [cfa - 8]";
    let expected = [(0, ENTERED), (6, deeper), (12, ENTERED), (17, PUSHED), (18, ENTERED)];
    check_region(&code, &expected);
    // push rbx; call; nop; pop rbx; ret
    check_region(&[PUSH_RBX, CALL, b"\x90", POP_RBX, RET], &[(0, ENTERED), (1, PUSHED), (8, ENTERED)]);
    // call; nop; ret: with such a stack pointer nothing is called
    check_region(&[CALL, b"\x90", RET], &[(0, NONE), (6, ENTERED)]);
}

#[test]
fn target_of_a_jump_table_has_the_frame_of_the_jump() {
    // push rbx; test edi, edi; je; jmp rax; pop rbx; ret; (only by the table:) xor eax, eax; pop rbx; ret
    let code: [&[u8]; 8] =
        [PUSH_RBX, b"\x85\xff\x74\x02", b"\xff\xe0", POP_RBX, RET, b"\x31\xc0", POP_RBX, RET];
    let expected = [(0, ENTERED), (1, PUSHED), (8, ENTERED), (9, PUSHED), (12, ENTERED)];
    check_region(&code, &expected);
}

#[test]
fn derived_rules_are_marked() {
    let elf = elf::open(elf::with_code(elf::X86_64, RET));
    let table = Table::with_derived_rules(&elf).expect("the headers are right");
    let rule = table.rule(elf::BARE).expect("it was derived");
    assert!(rule.is_derived());
    assert_eq!(rule.to_string(), "cfa = rsp + 8, ra = [cfa - 8] (derived)");
    assert_eq!(Table::of(&elf).expect("the headers are right").rule(elf::BARE), None);
}
