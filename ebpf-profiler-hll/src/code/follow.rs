//! Goes through the code of a function and keeps in mind what is in its registers.

use ebpf_profiler_core::elf::Elf;

use super::value::Value;
use super::{Origin, Place};

/// Instructions at most that are followed in one function.
const MAX_STEPS: usize = 256;

/// Branches at most that wait to be followed.
const MAX_BRANCHES: usize = 8;

/// The longest instruction.
const LONGEST: usize = 15;

/// What is known at one place of a function.
pub(super) trait State: Clone + Default {
    /// Executes the first instruction of some bytes, which lie at `at`; its length, and where it goes on. Nothing
    /// where it is none.
    fn step(&mut self, bytes: &[u8], at: u64, is_key: &dyn Fn(u64) -> bool) -> Option<(u64, Next)>;

    /// The first distance from the thread pointer that was read at.
    fn field(&self) -> Option<i64>;

    /// What a function returns that ends here.
    fn result(&self) -> Value;
}

/// Where it goes on.
pub(super) enum Next {
    On,
    Jump(u64),
    /// There, or on.
    Branch(u64),
    Found(Origin),
    End,
}

/// What the function at `address` returns.
pub(super) fn returned<S: State>(elf: &Elf, address: u64, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
    follow::<S>(elf, address, is_key, |_| None)
}

/// The first distance from the thread pointer at which the function at `address` reads.
pub(super) fn field<S: State>(elf: &Elf, address: u64) -> Option<i64> {
    let mut field = None;
    follow::<S>(elf, address, &|_| false, |state| {
        field = state.field();
        // Whatever it is, it ends here.
        field.map(|offset| Origin::Static { offset })
    });
    field
}

/// The place of which the function at `address`, which has no branch, returns the eight bytes.
pub(super) fn word<S: State>(elf: &Elf, address: u64) -> Option<Place> {
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
        Value::Word(place) => Some(place),
        _ => None,
    }
}

/// Goes through the code at `address`, both ways where it branches, until it is known what it returns.
fn follow<S: State>(
    elf: &Elf,
    address: u64,
    is_key: &dyn Fn(u64) -> bool,
    mut seen: impl FnMut(&S) -> Option<Origin>,
) -> Option<Origin> {
    let mut waiting = vec![(address, S::default())];
    let mut steps = 0;
    while let Some((mut at, mut state)) = waiting.pop() {
        while steps < MAX_STEPS {
            steps += 1;
            let Some((bytes, count)) = window(elf, at) else { break };
            let Some((len, then)) = state.step(&bytes[..count], at, is_key) else { break };
            if let Some(origin) = seen(&state) {
                return Some(origin);
            }
            at = at.wrapping_add(len);
            match then {
                Next::On => {}
                Next::Jump(target) => at = target,
                Next::Branch(target) => {
                    if waiting.len() < MAX_BRANCHES {
                        waiting.push((target, state.clone()));
                    }
                }
                Next::Found(origin) => return Some(origin),
                Next::End => break,
            }
        }
    }
    None
}

/// The bytes at `address`, as many as one instruction takes at most, or as are there.
fn window(elf: &Elf, address: u64) -> Option<([u8; LONGEST], usize)> {
    let mut bytes = [0; LONGEST];
    (1..=LONGEST).rev().find_map(|len| elf.read(address, &mut bytes[..len]).ok().map(|()| (bytes, len)))
}
