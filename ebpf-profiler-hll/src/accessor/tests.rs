//! Instruction lengths against `objdump`, and accessors of thread words as compilers emit them.

use std::io::Cursor;
use std::process::Command;

use ebpf_profiler_core::elf::Elf;

use super::*;

/// Address of the code of [`elf`].
const CODE: u64 = 0x1000;

/// Address of a key.
const KEY: u64 = 0x5000;

/// Returns a file with one segment, which holds `code`.
fn elf(code: &[u8]) -> Elf {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    // Shared library, x86_64.
    bytes.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0u64, 64, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([0u8; 4]);
    for half in [64u16, 56, 1, 64, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let size = code.len() as u64;
    for word in [120, CODE, CODE, size, size, 0x1000] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(code);
    Elf::open(Cursor::new(bytes)).unwrap()
}

fn of(code: &[u8]) -> Option<Origin> {
    returned(&elf(code), CODE, &|place| place == KEY)
}

#[test]
fn finds_word_of_memory() {
    let word = |code: &[u8]| word(&elf(code), CODE);
    // mov 0x100(%rip), %rax; ret                                                          (2.7, and
    // linked into a program)
    let direct = b"\x48\x8b\x05\x00\x01\x00\x00\xc3";
    assert_eq!(word(direct), Some(Location::at(CODE + 7 + 0x100)));
    // endbr64; mov 0x100(%rip), %rax; mov 0x278(%rax), %rax; ret                          (3.13)
    let listed = b"\xf3\x0f\x1e\xfa\x48\x8b\x05\x00\x01\x00\x00\x48\x8b\x80\x78\x02\x00\x00\xc3";
    assert_eq!(word(listed), Some(Location { pointer: Some(CODE + 11 + 0x100), plus: 0x278 }));
    // xor %eax, %eax; ret; and a loop without end
    assert_eq!(word(b"\x31\xc0\xc3"), None);
    assert_eq!(word(b"\xeb\xfe"), None);
}

#[test]
fn finds_key_passed_by_number() {
    // cmpq $0, 0x563d50(%rip); je 0x1000 + 0x100; mov 0x563d50(%rip), %edi; jmp …      (3.11 in one
    // piece)
    let code = b"\x48\x83\x3d\x50\x3d\x56\x00\x00\x0f\x84\xf2\x00\x00\x00\x8b\x3d\x50\x3d\x56\x00\xe9\x00\x01\x00\x00";
    let created = Some(Location::at(CODE + 8 + 0x56_3d50));
    assert_eq!(of(code), Some(Origin::Key { number: Location::at(CODE + 20 + 0x56_3d50), created }));
}

#[test]
fn finds_key_passed_by_address() {
    // mov 0x100(%rip), %rax; cmpq $0, 0x248(%rax); je +15; lea 0x250(%rax), %rdi; jmp …   (3.10)
    let code = b"\x48\x8b\x05\x00\x01\x00\x00\x48\x83\xb8\x48\x02\x00\x00\x00\x74\x0f\x48\x8d\xb8\x50\x02\x00\x00\xe9\x00\x00\x00\x10";
    let at = |plus| Location { pointer: Some(CODE + 7 + 0x100), plus };
    assert_eq!(of(code), Some(Origin::Key { number: at(0x254), created: Some(at(0x250)) }));
    // mov 0x100(%rip), %rax; push %rbx; lea 0x608(%rax), %rbx; mov %rbx, %rdi; call …     (3.12)
    let code =
        b"\x48\x8b\x05\x00\x01\x00\x00\x53\x48\x8d\x98\x08\x06\x00\x00\x48\x89\xdf\xe8\x00\x00\x00\x10";
    assert_eq!(of(code), Some(Origin::Key { number: at(0x60c), created: Some(at(0x608)) }));
    // lea 0x3ff9(%rip), %rdi; jmp …                                                       (linked into
    // a program)
    let code = b"\x48\x8d\x3d\xf9\x3f\x00\x00\xe9\x00\x00\x00\x10";
    assert_eq!(
        of(code),
        Some(Origin::Key { number: Location::at(KEY + 4), created: Some(Location::at(KEY)) })
    );
    // mov $0x5000, %edi; jmp …                                                            (at a fixed
    // address)
    let code = b"\xbf\x00\x50\x00\x00\xe9\x00\x00\x00\x10";
    assert_eq!(
        of(code),
        Some(Origin::Key { number: Location::at(KEY + 4), created: Some(Location::at(KEY)) })
    );
}

#[test]
fn finds_key_behind_taken_branch() {
    // xor %eax, %eax; cmpq $0, 0x100(%rip); jne +1; ret; mov 0x200(%rip), %edi; jmp …
    let code =
        b"\x31\xc0\x48\x83\x3d\x00\x01\x00\x00\x00\x75\x01\xc3\x8b\x3d\x00\x02\x00\x00\xe9\x00\x00\x00\x10";
    let Some(Origin::Key { number, created }) = of(code) else { panic!("no origin found") };
    assert_eq!((number, created), (Location::at(CODE + 19 + 0x200), Some(Location::at(CODE + 10 + 0x100))));
}

#[test]
fn finds_thread_local_variables_of_all_models() {
    // mov %fs:-16, %rax; ret                                                              (local-exec)
    let code = b"\x64\x48\x8b\x04\x25\xf0\xff\xff\xff\xc3";
    assert_eq!(of(code), Some(Origin::Static { offset: -16 }));
    // mov $-8, %rax; mov %fs:(%rax), %rax; ret
    let code = b"\x48\xc7\xc0\xf8\xff\xff\xff\x64\x48\x8b\x00\xc3";
    assert_eq!(of(code), Some(Origin::Static { offset: -8 }));
    // mov %fs:0, %rax; mov -24(%rax), %rax; ret
    let code = b"\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x8b\x40\xe8\xc3";
    assert_eq!(of(code), Some(Origin::Static { offset: -24 }));
    // mov 0x100(%rip), %rax; mov %fs:(%rax), %rax; ret
    // (initial-exec)
    let code = b"\x48\x8b\x05\x00\x01\x00\x00\x64\x48\x8b\x00\xc3";
    assert_eq!(of(code), Some(Origin::Slot { slot: CODE + 7 + 0x100, plus: 0 }));
    // mov %fs:0, %rax; add 0x100(%rip), %rax; mov (%rax), %rax; ret
    let code = b"\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x03\x05\x00\x01\x00\x00\x48\x8b\x00\xc3";
    assert_eq!(of(code), Some(Origin::Slot { slot: CODE + 16 + 0x100, plus: 0 }));
    // sub $8, %rsp; data16 lea 0x100(%rip), %rdi; data16 … call __tls_get_addr; mov (%rax), %rax; …;
    // ret
    let code = b"\x48\x83\xec\x08\x66\x48\x8d\x3d\x00\x01\x00\x00\x66\x66\x48\xe8\x00\x00\x00\x10\x48\x8b\x00\x48\x83\xc4\x08\xc3";
    assert_eq!(of(code), Some(Origin::Module { pair: CODE + 12 + 0x100, plus: 0 }));
    // lea 0x100(%rip), %rdi; call __tls_get_addr; mov 8(%rax), %rax; ret
    // (local-dynamic)
    let code = b"\x48\x8d\x3d\x00\x01\x00\x00\xe8\x00\x00\x00\x10\x48\x8b\x40\x08\xc3";
    assert_eq!(of(code), Some(Origin::Module { pair: CODE + 7 + 0x100, plus: 8 }));
    // lea 0x100(%rip), %rax; call *(%rax); mov %fs:(%rax), %rax; ret                      (descriptor)
    let code = b"\x48\x8d\x05\x00\x01\x00\x00\xff\x10\x64\x48\x8b\x00\xc3";
    assert_eq!(of(code), Some(Origin::Descriptor { pair: CODE + 7 + 0x100, plus: 0 }));
}

#[test]
fn finds_field_of_thread() {
    // mov %fs:0, %rax; mov 0x80(%rax), %rax; mov %edi, %edi; mov (%rax,%rdi,8), %rax; ret   (musl's
    // getspecific)
    let code =
        b"\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x8b\x80\x80\x00\x00\x00\x89\xff\x48\x8b\x04\xf8\xc3";
    assert_eq!(field(&elf(code), CODE), Some(0x80));
    assert_eq!(of(code), None);
}

#[test]
fn finds_no_origin_in_other_or_endless_code() {
    assert_eq!(of(b""), None);
    assert_eq!(of(b"\xc3"), None);
    assert_eq!(of(b"\xeb\xfe"), None);
    assert_eq!(of(&[0x74, 0xfe].repeat(40)), None);
    assert_eq!(of(&[0x90; 600]), None);
    // A jump to an unmapped address.
    assert_eq!(of(b"\xe9\xff\xff\xff\x7f"), None);
}

#[test]
fn finds_jumps_that_leave_function() {
    // je +0x10; nop; jmp -0x20; call +0x100; je -5; ret
    let code = b"\x0f\x84\x10\x00\x00\x00\x90\xe9\xe0\xff\xff\xff\xe8\x00\x01\x00\x00\x74\xfb\xc3";
    let function = CODE..CODE + code.len() as u64;
    assert_eq!(jumps(&elf(code), &function), [CODE + 12 - 0x20, CODE + 6 + 0x10]);
}

/// Origins in arm64 code against the linker's relocations at the same addresses.
#[test]
#[ignore = "needs gcc for arm64"]
fn finds_words_of_arm64_threads() {
    test_needs::programs!("aarch64-linux-gnu-gcc", "readelf");
    let models = [
        (&["-shared", "-fPIC", "-mtls-dialect=trad"][..], "TLS_DTPMOD"),
        (&["-shared", "-fPIC"], "TLSDESC"),
        (&["-shared", "-fPIC", "-ftls-model=initial-exec"], "TLS_TPREL"),
    ];
    for (options, relocation) in models {
        let (path, elf) = arm64(options, "own.c");
        let get = elf.exports().unwrap().get("get_own").unwrap().address;
        let found = returned(&elf, get, &|_| false);
        let place = match found {
            Some(Origin::Module { pair, plus: 0 } | Origin::Descriptor { pair, plus: 0 }) => pair,
            Some(Origin::Slot { slot, plus: 0 }) => slot,
            _ => panic!("{options:?}: {found:x?}"),
        };
        let listed = Command::new("readelf").args(["-rW", &path]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let row = listed.lines().find(|row| row.starts_with(&format!("{place:016x} ")));
        assert!(row.is_some_and(|row| row.contains(relocation)), "{options:?}: {row:?}");
        std::fs::remove_file(path).unwrap();
    }
    for options in [&["-rdynamic"][..], &["-static"], &["-no-pie", "-rdynamic"]] {
        let (path, elf) = arm64(options, "threads.c");
        let mut symbols = std::collections::HashMap::new();
        elf.for_each_symbol(|name, symbol| {
            symbols.insert(name.to_vec(), symbol.address);
        });
        for (get, key) in [("get_first", "first_key"), ("get_last", "last_key")] {
            let found = returned(&elf, symbols[get.as_bytes()], &|_| false);
            let number = Location::at(symbols[key.as_bytes()]);
            assert_eq!(found, Some(Origin::Key { number, created: None }), "{options:?} {get}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

fn arm64(options: &[&str], source: &str) -> (String, Elf) {
    let source = format!("{}/tests/workload/{source}", env!("CARGO_MANIFEST_DIR"));
    let program = std::env::temp_dir().join(format!("arm64-{}", std::process::id()));
    let mut command = Command::new("aarch64-linux-gnu-gcc");
    let command = command.arg("-O2").args(options).arg(source).arg("-o").arg(&program);
    assert!(command.stderr(std::process::Stdio::null()).status().unwrap().success());
    let elf = Elf::open(std::fs::File::open(&program).unwrap()).unwrap();
    (program.to_string_lossy().into_owned(), elf)
}

/// Compares the lengths of all instructions of three system files with `objdump`.
#[test]
#[ignore = "needs objdump, and takes seconds"]
fn instruction_lengths_match_objdump() {
    test_needs::programs!("objdump", "python3");
    for path in
        ["/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"]
    {
        let elf = Elf::open(std::fs::File::open(path).unwrap()).unwrap();
        let listed = Command::new("objdump").args(["-d", "-w", "-j", ".text", path]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout);
        let instructions = parse(&listed);
        let mut wrong = 0;
        for pair in instructions.windows(2) {
            let ((address, text), (next, _)) = (&pair[0], &pair[1]);
            let mut bytes = [0; 15];
            if text.contains("(bad)") || elf.read(*address, &mut bytes).is_err() {
                continue;
            }
            let len = x86_64::len(&bytes);
            if len != next - address {
                wrong += 1;
                eprintln!("{path}: {address:x}: {text}: {len} instead of {}", next - address);
            }
        }
        eprintln!("{path}: {} instructions, {wrong} with wrong length", instructions.len());
        assert!(instructions.len() > 10_000 && wrong == 0);
    }
}

/// Returns address and text of each instruction: `  401000:\tf3 0f 1e fa \tendbr64`.
fn parse(listed: &str) -> Vec<(u64, &str)> {
    listed
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.split_once(":\t")?;
            Some((u64::from_str_radix(address.trim(), 16).ok()?, rest.split_once('\t')?.1))
        })
        .collect()
}
