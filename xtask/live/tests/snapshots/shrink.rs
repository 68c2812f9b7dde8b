//! Leaves out bytes that make no difference.

use std::sync::Arc;

use crate::snapshot::{Snapshot, Sparse};

/// Size of the parts of a file that are tried last, in bytes.
const FILE_PART: usize = 8;

/// The same for memory, of which more than [`MAX_MEMORY`] is recorded.
const MEMORY_PART: usize = 64;

/// Size of memory that is kept as it is, in bytes.
const MAX_MEMORY: usize = 24 << 10;

/// Returns a snapshot with the same outcome in which as many bytes as possible are 0.
pub(crate) fn shrink(mut snapshot: Snapshot) -> Snapshot {
    let outcome = snapshot.outcome();
    for number in 0..snapshot.files.len() {
        zero(&mut snapshot, &outcome, FILE_PART, |snapshot| {
            Arc::make_mut(&mut snapshot.files[number].contents)
        });
    }
    let size: usize = snapshot.memory.0.iter().map(|(_, bytes)| bytes.len()).sum();
    if size > MAX_MEMORY {
        zero(&mut snapshot, &outcome, MEMORY_PART, |snapshot| &mut snapshot.memory);
    }
    snapshot.files.iter_mut().for_each(|file| Arc::make_mut(&mut file.contents).trim());
    assert_eq!(snapshot.outcome(), outcome);
    snapshot
}

/// Tries to zero parts, large ones first.
fn zero(snapshot: &mut Snapshot, outcome: &str, least: usize, of: impl Fn(&mut Snapshot) -> &mut Sparse) {
    let pieces = of(snapshot).0.len();
    let mut rest: Vec<(usize, usize, usize)> = (0..pieces).map(|piece| (piece, 0, usize::MAX)).collect();
    while let Some((piece, from, to)) = rest.pop() {
        let bytes = &mut of(snapshot).0[piece].1;
        let to = to.min(bytes.len());
        if bytes[from..to].iter().all(|&byte| byte == 0) {
            continue;
        }
        let before = bytes[from..to].to_vec();
        bytes[from..to].fill(0);
        if snapshot.outcome() == outcome {
            continue;
        }
        of(snapshot).0[piece].1[from..to].copy_from_slice(&before);
        let middle = (from + (to - from) / 2).next_multiple_of(least);
        if to - from > least && middle > from && middle < to {
            rest.extend([(piece, from, middle), (piece, middle, to)]);
        }
    }
}

impl Sparse {
    /// Removes zeros at the ends of pieces.
    fn trim(&mut self) {
        for (start, bytes) in &mut self.0 {
            let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
            bytes.drain(..first);
            *start += first as u64;
            let last = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(last);
        }
        self.0.retain(|(_, bytes)| !bytes.is_empty());
    }
}
