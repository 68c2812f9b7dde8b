//! Folded text: one line a stack, as FlameGraph's tools and those after them read it.
//!
//! ```text
//!   cat;main;read;entry_SYSCALL_64_[k];vfs_read_[k] 5
//!   cat;main;print;format_[i] 2
//!   node;main;[anonymous]_[j] 1
//!   sh;[truncated: stack not readable];fork 1
//!   tree;main;walk;[… 976 frames left out];walk;visit 3
//! ```
//!
//! First the thread's name (the command's, unless it gave itself another one), then the functions from the root to the leaf,
//! then a space and the count. Equal stacks are one line; the lines are sorted, so equal profiles give equal text.
//!
//! | part | what it says |
//! | --- | --- |
//! | `_[k]` at the end | code of the kernel |
//! | `_[i]` | a function that was inlined into the one before it |
//! | `_[j]` | code made at run time |
//! | `libc.so.6+0x2e1c0` | code without a name, at this virtual address of the file: other tools may know more about it |
//! | `[truncated: reason]` after the command | the root side of the stack is missing; the [reason](crate::trace::Stop::text) |
//! | `[… 12 frames left out]` | so many frames are missing here, in the middle |
//! | `[unknown]` in front | the thread has no name |
//! | a colon inside a name | may have been a semicolon |
//! | `�` inside a name | was a control character, or one that turns the direction of writing |

use std::fmt::Write as _;
use std::io;

use crate::profile::{Call, Kind, Profile, Sample};
use crate::text::clean;

/// Writes the profile as folded text.
///
/// # Errors
///
/// When `out` can't take it.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::folded, testing};
///
/// let profile = testing::profile("cat;main;read_[k] 3\ncat;main 1");
/// let mut text = Vec::new();
/// folded::write(&profile, &mut text)?;
/// assert_eq!(String::from_utf8_lossy(&text), "cat;main 1\ncat;main;read_[k] 3\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let mut stacks: Vec<(String, u64)> =
        profile.samples().map(|sample| (stack(&sample), sample.count())).collect();
    stacks.sort_unstable();
    for same in stacks.chunk_by(|a, b| a.0 == b.0) {
        let count: u64 = same.iter().map(|(_, count)| count).sum();
        writeln!(out, "{} {count}", same[0].0)?;
    }
    Ok(())
}

fn stack(sample: &Sample<'_>) -> String {
    let name = &sample.thread().name;
    let mut line = String::new();
    push(&mut line, if name.is_empty() { "[unknown]" } else { name });
    let mut scratch = String::new();
    for call in sample.trace().calls() {
        scratch.clear();
        // Writing to a string doesn't fail.
        let _ = write!(scratch, "{call:#}");
        line.push(';');
        push(&mut line, &scratch);
        line.push_str(ending(&call));
    }
    line
}

fn push(line: &mut String, name: &str) {
    line.extend(clean(name).chars().map(|character| if character == ';' { ':' } else { character }));
}

/// What FlameGraph appends to a name to tell its kind.
fn ending(call: &Call<'_>) -> &'static str {
    match call.kind() {
        Kind::Kernel => "_[k]",
        _ if call.is_inlined() => "_[i]",
        Kind::RunTime => "_[j]",
        _ => "",
    }
}
