//! Files of processes that stay open.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files of processes that stay open, those used last first.
#[derive(Debug)]
pub(super) struct KeptFiles {
    files: Vec<KeptFile>,
    limit: usize,
}

#[derive(Debug)]
struct KeptFile {
    pid: u32,
    file: Arc<File>,
    opened: Instant,
}

/// Time after which a file is opened again. Such a file belongs to the memory that the process had when it was
/// opened. After `vfork` that is the memory of its parent, and stays readable after the exec.
const MAX_AGE: Duration = Duration::from_secs(1);

impl KeptFiles {
    /// Returns a cache of at most `limit` files.
    pub(super) fn new(limit: usize) -> KeptFiles {
        KeptFiles { files: Vec::new(), limit }
    }

    /// Returns the file of a process.
    pub(super) fn get(&mut self, pid: u32) -> Option<Arc<File>> {
        let index = self.files.iter().position(|kept| kept.pid == pid)?;
        if self.files[index].opened.elapsed() > MAX_AGE {
            self.files.remove(index);
            return None;
        }
        self.files[..=index].rotate_right(1);
        Some(self.files[0].file.clone())
    }

    /// Keeps the file of a process.
    pub(super) fn insert(&mut self, pid: u32, file: File) -> Arc<File> {
        self.remove(pid);
        self.files.truncate(self.limit - 1);
        let kept = KeptFile { pid, file: Arc::new(file), opened: Instant::now() };
        self.files.insert(0, kept);
        self.files[0].file.clone()
    }

    /// Closes the file of a process.
    pub(super) fn remove(&mut self, pid: u32) {
        self.files.retain(|kept| kept.pid != pid);
    }
}

#[test]
fn files_used_last_are_kept() {
    let file = || File::open("/proc/self/maps").unwrap();
    let mut kept = KeptFiles::new(3);
    for pid in 1..=3 {
        kept.insert(pid, file());
    }
    assert!(kept.get(1).is_some());
    kept.insert(4, file());
    assert_eq!([1, 2, 3, 4].map(|pid| kept.get(pid).is_some()), [true, false, true, true]);
    kept.remove(3);
    kept.insert(1, file());
    assert_eq!((kept.get(3).is_none(), kept.files.len()), (true, 2));
    kept.files[0].opened -= MAX_AGE + MAX_AGE;
    assert!(kept.get(1).is_none());
}
