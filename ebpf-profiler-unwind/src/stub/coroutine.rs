//! Bases of coroutines: code below which a stack, or a slice of a stack, of its own begins. What
//! lies above isn't its caller.
//!
//! | coroutines of | base | recognized by |
//! | --- | --- | --- |
//! | `makecontext` of glibc | `__start_context`, to which a coroutine's first function returns | its address in `makecontext`, its first instructions |
//! | greenlet, gevent | `UserGreenlet::inner_bootstrap`, up to version 1 `g_initialstub`, which the starter of a greenlet calls on its own stack and never returns to | its name |
//! | boost.context, fibers of PHP | the end of `make_fcontext`, to which a coroutine's first function returns | its instructions: see [`x86_64`](super::x86_64) |
//!
//! A greenlet's slice of the stack ends in the caller of this function; other greenlets use the
//! memory above.

use ebpf_profiler_core::elf::{Arch, Elf};

/// Exported names of the functions that greenlets begin with: of versions 2, and 3.
const BOOTSTRAPS: [&str; 2] = [
    "_ZN8greenlet12UserGreenlet15inner_bootstrapERNS_4refs14_OwnedGreenletI9_greenletXadL_ZNS1_15GreenletCheckerEPvEEEERNS1_14OwnedReferenceI7_objectXadL_ZNS1_11NoOpCheckerES4_EEEE",
    "_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object",
];

/// The same up to version 1, which doesn't export it.
const INITIAL_STUB: &[u8] = b"g_initialstub";

/// Type that greenlet exports.
const GREENLET_TYPE: &str = "PyGreenlet_Type";

/// `mov rsp, rbx; mov rdi, [rsp]; test rdi, rdi`, the first instructions of `__start_context`.
const START_CONTEXT: [u8; 10] = *b"\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85\xff";

/// `endbr64`, which may precede them.
const ENDBR64: [u8; 4] = *b"\xf3\x0f\x1e\xfa";

/// Number of bytes of `makecontext` that are searched for the address.
const MAX_MAKECONTEXT: u64 = 1024;

/// Returns the addresses of functions that are the base of a coroutine's stack, sorted.
pub(super) fn functions(elf: &Elf) -> Vec<u64> {
    let mut found = Vec::new();
    if elf.arch() != Arch::X86_64 {
        return found;
    }
    let Some(exports) = elf.exports() else { return found };
    found.extend(BOOTSTRAPS.iter().filter_map(|name| exports.get(name)).map(|symbol| symbol.address));
    if exports.get(GREENLET_TYPE).is_some() {
        elf.for_each_symbol_with(&[INITIAL_STUB], |name, symbol| {
            if name == INITIAL_STUB {
                found.push(symbol.address);
            }
        });
    }
    if let Some(maker) = exports.get("makecontext") {
        let mut code = vec![0; maker.size.min(MAX_MAKECONTEXT) as usize];
        if elf.read(maker.address, &mut code).is_ok() {
            found.extend(loaded_addresses(maker.address, &code).find(|&address| is_start(elf, address)));
        }
    }
    found.sort_unstable();
    found
}

/// Returns the addresses that code at `address` loads by `lea reg, [rip + n]`.
fn loaded_addresses(address: u64, code: &[u8]) -> impl Iterator<Item = u64> {
    (0u64..).zip(code.windows(7)).filter_map(move |(at, lea)| {
        let &[prefix, 0x8d, operand, ref distance @ ..] = lea else { return None };
        let distance = i32::from_le_bytes(*distance.first_chunk()?);
        let target = address.wrapping_add(at + 7).wrapping_add(i64::from(distance) as u64);
        (prefix & 0xfb == 0x48 && operand & 0xc7 == 5).then_some(target)
    })
}

fn is_start(elf: &Elf, address: u64) -> bool {
    let mut code = [0; START_CONTEXT.len() + ENDBR64.len()];
    if elf.read(address, &mut code).is_err() {
        return false;
    }
    code.strip_prefix(&ENDBR64).unwrap_or(&code).starts_with(&START_CONTEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_loaded_addresses() {
        // nop; lea rax, [rip + 0x10]; lea rcx, [rsp + 8]; lea r8, [rip - 1]
        let code = b"\x90\x48\x8d\x05\x10\0\0\0\x48\x8d\x4c\x24\x08\x4c\x8d\x05\xff\xff\xff\xff";
        assert_eq!(loaded_addresses(0x1000, code).collect::<Vec<_>>(), [0x1018, 0x1013]);
    }

    /// As greenlet 1.1 has them.
    #[test]
    fn greenlets_of_version_1_have_one() {
        test_needs::programs!("gcc");
        let source = "int PyGreenlet_Type; static __attribute__((noinline)) int g_initialstub(int *a) \
                      { return *a; } int start(int *a) { return g_initialstub(a) + 1; }";
        let folder = std::env::temp_dir().join(format!("greenlet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, library) = (folder.join("greenlet.c"), folder.join("greenlet.so"));
        std::fs::write(&file, source).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        let status = gcc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&file).status();
        assert!(status.unwrap().success());
        let elf = Elf::open(std::fs::File::open(&library).unwrap()).unwrap();
        let found = functions(&elf);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_c_library_has_one() {
        let path = "/lib/x86_64-linux-gnu/libc.so.6";
        let Ok(file) = std::fs::File::open(path) else { return };
        let elf = Elf::open(file).unwrap();
        assert_eq!(functions(&elf).len(), 1);
    }
}
