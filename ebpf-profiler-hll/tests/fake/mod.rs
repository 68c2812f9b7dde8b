//! A synthetic runtime: a file with the symbols and accessor functions of CPython, and the memory
//! of a process that runs it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{LoadedFile, Memory, Unreadable};
use ebpf_profiler_core::process::LoadBias;

/// Load address of the file in the process.
pub(crate) const BIAS: u64 = 0x10_0000;

/// In the file: the runtime's variables, among them the key, and the type of code objects.
pub(crate) const RUNTIME: u64 = 0x2000;
pub(crate) const KEY: u64 = RUNTIME + 0x954;
/// The address of the first interpreter.
pub(crate) const INTERPRETERS: u64 = RUNTIME + 0x800;
pub(crate) const CODE_TYPE: u64 = 0x2a00;

/// In the file: functions.
const EVAL: u64 = 0x1800;
const ACCESSOR: u64 = 0x1a00;
const HEAD: u64 = 0x1a60;
const GET_SPECIFIC: u64 = 0x1a40;

/// Returns a file that holds CPython 2.7 or 3 of this version; its C library is musl.
pub(crate) fn file(version: (u8, u8), debug_offsets: &[u8]) -> Vec<u8> {
    let hex = u32::from_be_bytes([version.0, version.1, 0, 0xf0]).to_le_bytes();
    let mut exports = vec![
        ("PyGILState_GetThisThreadState", ACCESSOR),
        ("PyInterpreterState_Head", HEAD),
        ("PyCode_Type", CODE_TYPE),
        ("_dlstart", 0x1a80),
        ("pthread_getspecific", GET_SPECIFIC),
    ];
    match version {
        (2, _) => exports.extend([("_PyThreadState_Current", RUNTIME), ("PyString_Type", 0x2b00)]),
        _ => exports.extend([("_PyRuntime", RUNTIME)]),
    }
    exports.push(match version {
        (2, _) => ("PyEval_EvalFrameEx", EVAL),
        _ => ("_PyEval_EvalFrameDefault", EVAL),
    });
    let since = [("PyCode_NewWithPosOnlyArgs", 8), ("PyThreadState_GetFrame", 9), ("PyIter_Send", 10)];
    exports.extend(since.iter().filter(|(_, minor)| version >= (3, *minor)).map(|(name, _)| (*name, 0x1a80)));
    if version >= (3, 11) {
        exports.push(("Py_Version", 0x2b80));
    }
    let mut image = elf(&exports);
    place(&mut image, ACCESSOR, &accessor());
    place(&mut image, GET_SPECIFIC, GET_SPECIFIC_CODE);
    place(
        &mut image,
        HEAD,
        &[b"\x48\x8b\x05".as_slice(), &relative(INTERPRETERS, HEAD + 7), b"\xc3"].concat(),
    );
    place(&mut image, 0x2b80, &hex);
    place(&mut image, RUNTIME, debug_offsets);
    image
}

/// `mov %fs:0, %rax; mov 0x80(%rax), %rax; mov %edi, %edi; mov (%rax,%rdi,8), %rax; ret`.
const GET_SPECIFIC_CODE: &[u8] =
    b"\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x8b\x80\x80\x00\x00\x00\x89\xff\x48\x8b\x04\xf8\xc3";

/// `cmpq $0, made(%rip); mov key(%rip), %edi; jmp …`: the flag precedes the key.
fn accessor() -> Vec<u8> {
    let mut code = b"\x48\x83\x3d".to_vec();
    code.extend(relative(KEY - 12, ACCESSOR + 8));
    code.extend(b"\x00\x8b\x3d");
    code.extend(relative(KEY, ACCESSOR + 14));
    code.extend(b"\xe9\x00\x10\x00\x00");
    code
}

/// Returns the distance from the instruction at `next` to an address.
fn relative(to: u64, next: u64) -> [u8; 4] {
    (to.wrapping_sub(next) as u32).to_le_bytes()
}

/// Returns a file whose offsets equal its addresses, with these exports.
fn elf(exports: &[(&str, u64)]) -> Vec<u8> {
    const DYNAMIC: u64 = 0x200;
    const HASH: u64 = 0x400;
    const SYMBOLS: u64 = 0x800;
    const NAMES: u64 = 0x1000;
    let mut image = vec![0; 0x2c00];
    place(&mut image, 0, b"\x7fELF\x02\x01\x01");
    // Shared library, x86_64; its program headers.
    place(&mut image, 16, &[3, 0, 62, 0, 1, 0, 0, 0]);
    place(&mut image, 32, &64u64.to_le_bytes());
    place(&mut image, 52, &[64, 0, 56, 0, 2, 0, 64, 0]);
    let load = [5 << 32 | 1, 0, 0, 0, image.len() as u64, image.len() as u64, 0x1000];
    let dynamic = [4 << 32 | 2, DYNAMIC, DYNAMIC, DYNAMIC, 0x100, 0x100, 8];
    place(&mut image, 64, &bytes(&load));
    place(&mut image, 120, &bytes(&dynamic));
    place(&mut image, DYNAMIC, &bytes(&[4, HASH, 5, NAMES, 6, SYMBOLS, 0, 0]));
    // One bucket with all symbols in one chain.
    let count = exports.len() as u32 + 1;
    let next = (1..count).map(|index| (index + 1) % count);
    let hash: Vec<u8> = [1, count, 1, 0].into_iter().chain(next).flat_map(u32::to_le_bytes).collect();
    place(&mut image, HASH, &hash);
    let mut name_at = 1;
    for (index, (name, address)) in (1..).zip(exports) {
        let symbol = [name_at | 0x12 << 32 | 1 << 48, *address, 0x200];
        place(&mut image, SYMBOLS + 24 * index, &bytes(&symbol));
        place(&mut image, NAMES + name_at, name.as_bytes());
        name_at += name.len() as u64 + 1;
    }
    image
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn place(image: &mut [u8], at: u64, bytes: &[u8]) {
    image[at as usize..][..bytes.len()].copy_from_slice(bytes);
}

/// Opens a synthetic file.
pub(crate) fn open(file: &[u8]) -> Elf {
    Elf::open(Cursor::new(file.to_vec())).unwrap()
}

/// Returns the synthetic file as the only file of a process.
pub(crate) fn loaded(file: &[u8]) -> Vec<LoadedFile> {
    let file: Arc<[u8]> = file.into();
    let opener = move || Ok(Box::new(Cursor::new(file.clone())) as Box<dyn ReadAt>);
    vec![LoadedFile::new("/lib/ld-musl-fake.so", LoadBias::new(BIAS), Arc::new(opener))]
}

/// Memory of a process in pieces, with a counter of reads.
#[derive(Default)]
pub(crate) struct World {
    pieces: BTreeMap<u64, Vec<u8>>,
    pub(crate) reads: Cell<u64>,
}

impl World {
    /// Writes bytes at an address, into an existing piece if they fit.
    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        let over =
            self.pieces.range_mut(..=address).next_back().and_then(|(start, piece)| {
                piece.get_mut((address - start) as usize..)?.get_mut(..bytes.len())
            });
        match over {
            Some(over) => over.copy_from_slice(bytes),
            None => drop(self.pieces.insert(address, bytes.to_vec())),
        }
    }

    pub(crate) fn put_word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }
}

impl Memory for World {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        let (start, piece) = self.pieces.range(..=address).next_back().ok_or(Unreadable)?;
        let piece = piece.get((address - start) as usize..).ok_or(Unreadable)?;
        buffer.copy_from_slice(piece.get(..buffer.len()).ok_or(Unreadable)?);
        Ok(())
    }
}

/// Returns the debug offsets of CPython 3.14.
pub(crate) fn debug_offsets() -> Vec<u8> {
    let groups = include_str!("debug_offsets_3_14.txt").lines().filter(|line| !line.starts_with('#'));
    let mut words = vec![u64::from_le_bytes(*b"xdebugpy"), 0x030e_08f0, 0];
    words.extend(groups.flat_map(str::split_whitespace).map(|word| word.parse::<u64>().unwrap()));
    bytes(&words)
}
