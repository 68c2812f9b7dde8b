//! Frames in a linked list.

use ebpf_programs::abi::interpreter::{Description, Interpreter, Others, position, run};

use super::layout::{Layout, function_fields, memory_fields};
use super::{FramePath, FrameWalker, InvalidWalker};

/// Builder of a [`FrameWalker`] for frames in a linked list; see [`FrameWalker::list`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ListWalker {
    pub(super) path: FramePath,
    pub(super) layout: Layout,
    pub(super) others: Others,
}

/// The lists of thread states of all interpreters in a process, for threads that run several
/// interpreters.
///
/// ```text
///   [head] ──► interpreter ──next──► interpreter ──next──► 0
///                   │ entries             │ entries
///                   ▼                     ▼
///                 entry ──link──► …     entry ──link──► entry ──link──► 0
/// ```
///
/// An entry belongs to one thread, whose thread pointer it holds. All offsets default to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLists(pub(super) Others);

memory_fields!(ListWalker);

function_fields!(ListWalker);

impl ListWalker {
    pub(super) fn new(path: FramePath) -> ListWalker {
        ListWalker { path, layout: Layout::new(), others: Others::default() }
    }

    /// Sets the offset of the caller's frame address in a frame; default 0. A multiple of 8.
    pub fn caller(mut self, offset: u32) -> ListWalker {
        self.layout.frames.caller = offset;
        self
    }

    /// Sets the lists of thread states of all interpreters. When a list of frames ends and the
    /// stack still has loops, the walk continues with another entry of the thread.
    ///
    /// The first `hops_to_entry` offsets of the path lead to an entry, the others from there to the
    /// innermost frame.
    pub fn thread_lists(mut self, lists: ThreadLists, hops_to_entry: usize) -> ListWalker {
        self.others = Others { hop: u32::try_from(hops_to_entry).unwrap_or(u32::MAX), ..lists.0 };
        self
    }

    /// Checks the parameters and returns the walker.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if the path is empty or has more than eight offsets, a field is not
    /// aligned or lies beyond the first 256 bytes of a frame, or the identity or the lists are
    /// out of bounds.
    pub fn build(self) -> Result<FrameWalker, InvalidWalker> {
        let top = self.path.check()?;
        let (frames, check_words) = self.layout.check()?;
        let others = self.others;
        if others.head != 0 && !(1..top.hops).contains(&others.hop) {
            let reason = "the path must lead to an entry, and from there to the innermost frame";
            return Err(InvalidWalker::of("hops to an entry", others.hop.into(), reason));
        }
        let none = FrameWalker::UNAVAILABLE.0;
        let interpreter = Interpreter { top, frames, others, check_words, ..none.interpreter };
        Ok(FrameWalker(Description { interpreter, ..none }))
    }
}

impl ThreadLists {
    /// Lists of the interpreters whose first one is at `[head]`.
    pub fn new(head: u64) -> ThreadLists {
        ThreadLists(Others { head, ..Others::default() })
    }

    /// Sets the offset, within an interpreter, of the pointer to the next interpreter.
    #[must_use]
    pub fn next(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { next: offset, ..self.0 })
    }

    /// Sets the offset, within an interpreter, of the pointer to its first entry.
    #[must_use]
    pub fn entries(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { entries: offset, ..self.0 })
    }

    /// Sets the offset, within an entry, of the pointer to the next entry.
    #[must_use]
    pub fn link(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { link: offset, ..self.0 })
    }

    /// Sets the offset of the thread pointer in an entry.
    #[must_use]
    pub fn thread(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { thread: offset, ..self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_rejects_what_the_kernel_side_cannot_read() {
        let list = || FrameWalker::list(FramePath::from_thread_pointer(&[8]));
        assert!(list().build().is_ok());
        assert!(list().caller(248).build().is_ok());
        for bad in [
            FrameWalker::list(FramePath::from_thread_pointer(&[])),
            FrameWalker::list(FramePath::from_thread_pointer(&[0; 9])),
            FrameWalker::list(FramePath::from_entry_in_use(8, 0, &[0; 8], &[8])),
            list().caller(4),
            list().caller(256),
            list().function(u32::MAX),
            list().position_number(2),
            list().position_address(4),
            list().run_ends_with(256, 1, 1),
            list().identity_number(2),
            list().identity_number(1 << 20),
            list().identity_words(8, 0),
            list().identity_words(8, 4),
            list().thread_lists(ThreadLists::new(8), 0),
            list().thread_lists(ThreadLists::new(8), 1),
        ] {
            assert!(bad.clone().build().is_err(), "{bad:?}");
        }
    }
}
