//! Return addresses that uretprobes have replaced, and code that uprobes moved: see [`abi::uretprobe`](crate::abi::uretprobe).
//!
//! ```text
//!   return address in no mapping ──► the trampoline? ──► RETURNS: an instance a step ──► its address is the caller
//!   leaf in the page ──┬─ a copied instruction ──► the original one
//!                      └─ the trampoline ──► RETURNS, or the word that its last instruction returns to
//! ```
//!
//! The instance is the one whose word is that of the walked frame, so those that `longjmp` left behind don't count. While the
//! trampoline itself runs, the word is near the stack pointer.

use super::arch::Arch;
use super::interpreter::phase;
use super::{Walk, is_null};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::uretprobe::{MAX_INSTANCES, PAGE, PUSHED};
use crate::machine::Machine;

/// State of the search for replaced return addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplacedReturns {
    /// Address of the instance with which the next search begins; 0 at the end.
    first: u64,
    /// Address of the next instance of this search; 0 at the end.
    next: u64,
    /// Address of the word whose original is searched.
    word: u64,
    /// Number of bytes above it in which the word may be instead.
    above: u64,
    /// Address of a word with the return address if there is no instance; 0 for none.
    pushed: u64,
    /// Address of the word that was found for a guess; 0 for none.
    found: u64,
    /// Its original.
    address: u64,
    /// Number of instances that this search visited.
    visited: u32,
    /// 1 once a search began.
    is_begun: u32,
    /// 1 once a search found nothing.
    is_over: u32,
    reserved: u32,
}

impl ReplacedReturns {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.found = 0;
        self.is_begun = 0;
        self.is_over = 0;
    }

    /// Returns the original of the return address in the word at `word`, if that was just found to be replaced.
    #[inline(always)]
    pub(super) fn original(&self, word: u64) -> Option<u64> {
        (self.found == word && word != 0).then_some(self.address)
    }
}

/// Starts the search at a frame whose program counter is in no mapping, or finds its caller at once. Returns `false` if the frame
/// is not in the page.
#[inline(always)]
pub(super) fn begin<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> bool {
    let pc = walk.registers.pc & frame::ADDRESS;
    let is_leaf = walk.flags & frame::EXACT != 0;
    let offset = pc % PAGE;
    if walk.uretprobe.is_over != 0 || !is_leaf && offset != 0 || !is_page(machine, pc) {
        return false;
    }
    if is_leaf && offset >= A::UPROBE_SLOT {
        return restore_instruction(walk, machine, pc);
    }
    let sp = walk.registers.values[A::SP];
    let (mut above, mut pushed) = (0, 0);
    if is_leaf {
        let is_left = A::returns_behind(machine, pc);
        if let Some(bytes) = is_left {
            pushed = sp.wrapping_add(bytes);
        }
        if is_left.is_some_and(|bytes| bytes < PUSHED - 8) {
            return take_pushed::<A, M>(walk, machine, pushed);
        }
        above = PUSHED;
    }
    let state = &mut walk.uretprobe;
    (state.above, state.pushed) = (above, pushed);
    begin_at(walk, machine, sp.wrapping_sub(A::RETURN_BELOW));
    true
}

/// Starts the search for the original of the return address `target`, which is in no mapping, in the word at `word`, if it is the
/// trampoline. The guess is made again at its end.
#[inline(always)]
pub(super) fn begin_guess<M: Machine>(walk: &mut Walk, machine: &mut M, target: u64, word: u64) {
    if target.is_multiple_of(PAGE) && is_page(machine, target) {
        (walk.uretprobe.above, walk.uretprobe.pushed) = (0, 0);
        begin_at(walk, machine, word);
    }
}

/// Returns `true` if the leaf at `pc`, in memory without a file, is in the page.
#[inline(always)]
pub(super) fn is_leaf<M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> bool {
    walk.flags & frame::EXACT != 0 && is_page(machine, pc)
}

#[inline(always)]
fn is_page<M: Machine>(machine: &mut M, pc: u64) -> bool {
    machine.uprobes_page() == Some(pc - pc % PAGE)
}

/// Continues at the instruction whose copy the leaf executes. Returns `false` if it is unknown.
#[inline(always)]
fn restore_instruction<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> bool {
    let original = machine.original_instruction(pc);
    walk.registers.pc = original.unwrap_or(pc);
    original.is_some()
}

#[inline(always)]
fn begin_at<M: Machine>(walk: &mut Walk, machine: &mut M, word: u64) {
    let state = &mut walk.uretprobe;
    if state.is_begun == 0 {
        (state.first, state.is_begun) = (machine.first_replaced().unwrap_or(0), 1);
    }
    (state.next, state.visited, state.word) = (state.first, 0, word);
    walk.interpreter.phase = phase::RETURNS;
}

/// Visits an instance.
#[inline(always)]
pub(super) fn search<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<(), Stop> {
    let state = &mut walk.uretprobe;
    let at = state.next;
    let instance = if at == 0 { None } else { machine.replaced(at) };
    let instance = instance.unwrap_or_default();
    state.next = instance.next;
    state.visited += 1;
    let is_found = instance.stack != 0 && instance.stack.wrapping_sub(state.word) <= state.above;
    if !is_found && state.next != 0 && state.visited < MAX_INSTANCES {
        return Ok(());
    }
    walk.interpreter.phase = phase::OUTSIDE;
    if is_found {
        // Calls are nested as their frames are: the next search goes on behind.
        state.first = state.next;
    }
    if walk.guesses != 0 {
        if is_found {
            (state.found, state.address) = (instance.stack, instance.address);
            walk.guesses -= 1;
        }
        return Ok(());
    }
    if is_found {
        walk.registers.pc = instance.address;
        walk.registers.values[A::SP] = instance.stack.wrapping_add(A::RETURN_BELOW);
        return Ok(());
    }
    let pushed = state.pushed;
    if pushed != 0 && take_pushed::<A, M>(walk, machine, pushed) {
        return Ok(());
    }
    walk.uretprobe.is_over = 1;
    Err(Stop::Unmapped)
}

/// Continues at the return address in the word at `at`, to which the trampoline is about to return.
#[inline(always)]
fn take_pushed<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, at: u64) -> bool {
    // Before the system call has written the return address, the word holds a result.
    let address = machine.read_stack(at).filter(|&address| !is_null(address));
    walk.registers.pc = A::strip(address.unwrap_or(0));
    walk.registers.values[A::SP] = at.wrapping_add(A::RETURN_BELOW);
    address.is_some()
}
