//! x86_64.

mod instruction;

mod state;

use ebpf_profiler_core::elf::Elf;

use super::Origin;
use instruction::{TWO_BYTES, decode};
use state::{Next, State};

/// Instructions at most that are followed in one function.
const MAX_STEPS: usize = 256;

/// Branches at most that wait to be followed.
const MAX_BRANCHES: usize = 8;

/// The longest instruction.
const LONGEST: usize = 15;

pub(super) fn returned(elf: &Elf, address: u64, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
    follow(elf, address, is_key, |_| None)
}

pub(super) fn field(elf: &Elf, address: u64) -> Option<i64> {
    let mut field = None;
    follow(elf, address, &|_| false, |state| {
        field = state.field;
        // Whatever it is, it ends here.
        field.map(|offset| Origin::Static { offset })
    });
    field
}

/// Goes through the code at `address`, both ways where it branches, until it is known what it returns.
fn follow(
    elf: &Elf,
    address: u64,
    is_key: &dyn Fn(u64) -> bool,
    mut seen: impl FnMut(&State) -> Option<Origin>,
) -> Option<Origin> {
    let mut waiting = vec![(address, State::default())];
    let mut steps = 0;
    while let Some((mut at, mut state)) = waiting.pop() {
        while steps < MAX_STEPS {
            steps += 1;
            let Some(instruction) = window(elf, at).and_then(|(bytes, len)| decode(&bytes[..len])) else {
                break;
            };
            let next = at.wrapping_add(instruction.len);
            let then = state.step(&instruction, next, is_key);
            if let Some(origin) = seen(&state) {
                return Some(origin);
            }
            match then {
                Next::On => at = next,
                Next::Jump(target) => at = target,
                Next::Branch(target) => {
                    if waiting.len() < MAX_BRANCHES {
                        waiting.push((target, state.clone()));
                    }
                    at = next;
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
    (1..=LONGEST)
        .rev()
        .step_by(2)
        .find_map(|len| elf.read(address, &mut bytes[..len]).ok().map(|()| (bytes, len)))
}

pub(super) fn jumps(code: &[u8], start: u64) -> Vec<u64> {
    const SHORT: u32 = 0xeb;
    const LONG: u32 = 0xe9;
    let mut targets = Vec::new();
    let mut at = 0;
    while at < code.len() {
        // What isn't understood is left byte by byte; code is soon in step again.
        let Some(instruction) = decode(&code[at..]) else {
            at += 1;
            continue;
        };
        at += instruction.len as usize;
        let jump = matches!(instruction.opcode, SHORT | LONG | 0x70..=0x7f)
            || (TWO_BYTES | 0x80..=TWO_BYTES | 0x8f).contains(&instruction.opcode);
        if jump {
            targets.push(start.wrapping_add(at as u64).wrapping_add_signed(instruction.immediate));
        }
    }
    targets
}

/// The length of an instruction, 0 where it isn't understood.
#[cfg(test)]
pub(super) fn len(bytes: &[u8]) -> u64 {
    decode(bytes).map_or(0, |instruction| instruction.len)
}
