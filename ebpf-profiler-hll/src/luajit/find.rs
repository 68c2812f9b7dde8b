//! Recognizes files that hold LuaJIT.
//!
//! The library exports its functions to C, whatever the name of the file; a program that contains
//! it has them in its symbol table. The loop has no exported symbol. Its unwind rules are those of
//! one frame from the first instruction to the last:
//!
//! ```text
//!   stack pointer + 80: end of the frame; rbp, rbx, r15 and r14 saved below the return address
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};
use ebpf_programs::abi::luajit::parameter;

use super::build::Build;
use super::{attach, offsets};
use crate::fde::Fdes;

/// A function of LuaJIT's interface that Lua's doesn't have.
const MARK: &str = "luaJIT_setmode";

/// A function whose code shows the layout of a state: it reads a byte behind the first pointer in
/// it.
const GET_HOOK_MASK: &str = "lua_gethookmask";

/// Minimum size of the loop, in bytes; it has some 15,000.
const MIN_LOOP: u64 = 4096;

/// Maximum number of bytes of the loop that are read.
const MAX_LOOP: usize = 1 << 17;

/// The unwind rules of the loop.
const RULES: &[u8] = &[0x0e, 80, 0x86, 2, 0x83, 3, 0x8f, 4, 0x8e, 5];

/// A function that LuaJIT 2.0 doesn't have.
const LATER: &str = "luaJIT_profile_start";

/// `mov rax, [rdi + 16]`: the first pointer in a state with references of 8 bytes.
const LOAD: &[u8] = &[0x48, 0x8b, 0x47, 0x10];

/// `mov eax, [rdi + 8]`: the same with references of 4 bytes.
const COMPACT_LOAD: &[u8] = &[0x8b, 0x47, 0x08];

/// `endbr64`.
const BRANCH_TARGET: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// A file that holds LuaJIT.
#[derive(Debug)]
pub(super) struct File {
    loops: Vec<Range<u64>>,
    /// The layout of its objects, and the walker's parameters; `None` if that is unknown.
    build: Option<(Build, [u64; parameter::COUNT])>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    if elf.arch() != Arch::X86_64 {
        return None;
    }
    let exports = elf.exports();
    let exported = |name| exports.and_then(|exports| exports.get(name)).map(|symbol| symbol.address);
    let mut accessor = exported(GET_HOOK_MASK);
    if exported(MARK).is_none() {
        if !elf.has_symbol(&[MARK]) {
            return None;
        }
        elf.for_each_symbol_with(&[GET_HOOK_MASK.as_bytes()], |name, symbol| {
            if name == GET_HOOK_MASK.as_bytes() {
                accessor = Some(symbol.address);
            }
        });
    }
    let Some(range) = Fdes::open(elf).and_then(|fdes| fdes.with_rules(MIN_LOOP, RULES)) else {
        return Some(File { loops: Vec::new(), build: None });
    };
    let is_later = || exported(LATER).is_some() || elf.has_symbol(&[LATER]);
    let build = accessor.and_then(|address| build(elf, address, is_later));
    // Without offsets the base of a trace is unknown, and only the frames behind it are shown.
    let build = build.map(|build| (build, of_code(elf, &range, build).unwrap_or_default()));
    Some(File { loops: vec![range], build })
}

fn of_code(elf: &Elf, range: &Range<u64>, build: Build) -> Option<[u64; parameter::COUNT]> {
    let mut code = vec![0; usize::try_from(range.end - range.start).ok()?.min(MAX_LOOP)];
    elf.read(range.start, &mut code).ok()?;
    offsets::parameters(&code, build)
}

/// Returns the build by the references in a state, which the function at `address` reads.
fn build(elf: &Elf, address: u64, is_later: impl Fn() -> bool) -> Option<Build> {
    let mut code = [0; 8];
    elf.read(address, &mut code).ok()?;
    let code = code.strip_prefix(BRANCH_TARGET).unwrap_or(&code);
    if code.starts_with(LOAD) {
        return Some(Build::WIDE);
    }
    code.starts_with(COMPACT_LOAD).then(|| Build::compact(!is_later()))
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, _: &Target<'_>) -> Result<Attachment, Reason> {
        let (build, parameters) = self.build.as_ref().ok_or(Reason::Unsupported)?;
        let mut parameters = *parameters;
        parameters[parameter::IS_COMPACT] = build.is_compact().into();
        attach::attach(*build, &parameters)
    }
}
