//! Follows the control flow of a function and tracks the values of its registers.

use ebpf_profiler_core::elf::Elf;

use super::value::Value;
use super::{Location, Origin};

/// Maximum number of instructions followed in one function.
const MAX_STEPS: usize = 256;

/// Maximum number of pending branches.
const MAX_BRANCHES: usize = 8;

/// Length of the longest instruction, in bytes.
const MAX_INSTRUCTION: usize = 15;

/// The tracked state of the registers at one instruction.
pub(super) trait State: Clone + Default {
    /// Executes the instruction at the start of `bytes`, whose address is `at`. Returns its length
    /// and the control flow behind it, `None` if it cannot be decoded.
    fn step(&mut self, bytes: &[u8], at: u64, is_key: &dyn Fn(u64) -> bool) -> Option<(u64, Next)>;

    /// Returns the first distance from the thread pointer that was read at.
    fn field(&self) -> Option<i64>;

    /// Returns the value of the return register.
    fn result(&self) -> Value;

    /// Returns the first word of the running thread that was dereferenced.
    fn dereferenced(&self) -> Option<Origin>;

    /// Returns the last variable of the file that was loaded, eight bytes.
    fn loaded(&self) -> Option<u64>;
}

/// Control flow behind an instruction.
pub(super) enum Next {
    /// To the following instruction.
    On,
    Jump(u64),
    /// To the target or the following instruction.
    Branch(u64),
    /// The origin is determined.
    Found(Origin),
    End,
}

/// Returns the origin of the word that the function at `address` returns.
pub(super) fn returned<S: State>(elf: &Elf, address: u64, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
    follow::<S>(elf, address, is_key, |_| None)
}

/// Returns the first distance from the thread pointer that the function at `address` reads at.
pub(super) fn field<S: State>(elf: &Elf, address: u64) -> Option<i64> {
    let mut field = None;
    follow::<S>(elf, address, &|_| false, |state| {
        field = state.field();
        // Any result ends the search.
        field.map(|offset| Origin::Static { offset })
    });
    field
}

/// Returns the origin of the first word of the running thread that the function at `address`
/// dereferences.
pub(super) fn dereferenced<S: State>(elf: &Elf, address: u64) -> Option<Origin> {
    follow::<S>(elf, address, &|_| false, |state| state.dereferenced())
}

/// Returns the addresses of the variables, eight bytes each, that the function at `address` loads,
/// in order.
pub(super) fn loads<S: State>(elf: &Elf, address: u64) -> Vec<u64> {
    let mut loads = Vec::new();
    follow::<S>(elf, address, &|_| false, |state| {
        if let Some(address) = state.loaded().filter(|address| !loads.contains(address)) {
            loads.push(address);
        }
        None
    });
    loads
}

/// Returns the location of the eight bytes that the function at `address` returns; `None` if it
/// branches.
pub(super) fn word<S: State>(elf: &Elf, address: u64) -> Option<Location> {
    let (mut at, mut state) = (address, S::default());
    for _ in 0..MAX_STEPS {
        let (bytes, count) = window(elf, at)?;
        let (len, then) = state.step(&bytes[..count], at, &|_| false)?;
        at = match then {
            Next::On => at.wrapping_add(len),
            Next::Jump(target) => target,
            Next::End => break,
            Next::Branch(_) | Next::Found(_) => return None,
        };
    }
    match state.result() {
        Value::Word64(location) => Some(location),
        _ => None,
    }
}

/// Follows the code at `address`, both ways at branches, until the origin of its result is
/// determined.
fn follow<S: State>(
    elf: &Elf,
    address: u64,
    is_key: &dyn Fn(u64) -> bool,
    mut inspect: impl FnMut(&S) -> Option<Origin>,
) -> Option<Origin> {
    let mut pending = vec![(address, S::default())];
    let mut steps = 0;
    while let Some((mut at, mut state)) = pending.pop() {
        while steps < MAX_STEPS {
            steps += 1;
            let Some((bytes, count)) = window(elf, at) else { break };
            let Some((len, then)) = state.step(&bytes[..count], at, is_key) else { break };
            if let Some(origin) = inspect(&state) {
                return Some(origin);
            }
            at = at.wrapping_add(len);
            match then {
                Next::On => {}
                Next::Jump(target) => at = target,
                Next::Branch(target) => {
                    if pending.len() < MAX_BRANCHES {
                        pending.push((target, state.clone()));
                    }
                }
                Next::Found(origin) => return Some(origin),
                Next::End => break,
            }
        }
    }
    None
}

/// Reads up to [`MAX_INSTRUCTION`] bytes at `address`; fewer at the end of a segment.
fn window(elf: &Elf, address: u64) -> Option<([u8; MAX_INSTRUCTION], usize)> {
    let mut bytes = [0; MAX_INSTRUCTION];
    (1..=MAX_INSTRUCTION)
        .rev()
        .find_map(|len| elf.read(address, &mut bytes[..len]).ok().map(|()| (bytes, len)))
}
