//! Identities and paths of mapped files, each once.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::process::FileName;
use crate::sample::{FileId, MapEvent};

/// The interned names of files.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: HashSet<Arc<FileName>>,
    /// The path of all anonymous memory.
    anonymous: Option<Arc<str>>,
    /// Bytes of all paths.
    bytes: usize,
    /// Number of names at which those without users are dropped.
    prune_at: usize,
}

/// Bytes of a path that are kept beyond the limit.
const MAX_SHORT_PATH: usize = 64;

/// Names at most.
const MAX_NAMES: usize = 1 << 16;

/// Bytes that a name takes besides its path.
const NAME_OVERHEAD: usize = 128;

impl Names {
    /// Returns the name of the file of `map`. Its path is shortened if the paths would take more
    /// than `limit` bytes.
    ///
    /// A new name counts in `new`, the names that the process brought. `None` if there are already
    /// `most` of them.
    pub(super) fn intern(
        &mut self,
        map: &MapEvent,
        limit: usize,
        new: &mut usize,
        most: usize,
    ) -> Option<Arc<FileName>> {
        let path = match map.file {
            // `[heap]`, `[stack]` and the names that programs give.
            FileId::Anonymous => self.anonymous.get_or_insert_with(|| "//anon".into()),
            _ => &map.path,
        };
        let name = FileName { file: map.file.clone(), path: path.clone() };
        if let Some(known) = self.names.get(&name) {
            return Some(known.clone());
        }
        if *new >= most || self.names.len() >= MAX_NAMES {
            return None;
        }
        *new += 1;
        let size = map.path.len() + NAME_OVERHEAD;
        if self.names.len() >= self.prune_at {
            self.prune();
        }
        if self.bytes + size <= limit {
            return Some(self.insert(name));
        }
        let short = FileName { path: ending(&map.path).into(), ..name };
        let known = self.names.get(&short).cloned();
        Some(known.unwrap_or_else(|| self.insert(short)))
    }

    fn insert(&mut self, name: FileName) -> Arc<FileName> {
        self.bytes += name.path.len() + NAME_OVERHEAD;
        let name = Arc::new(name);
        self.names.insert(name.clone());
        name
    }

    /// Drops the names that nothing refers to.
    fn prune(&mut self) {
        self.names.retain(|name| Arc::strong_count(name) > 1);
        self.bytes = self.names.iter().map(|name| name.path.len() + NAME_OVERHEAD).sum();
        self.prune_at = (self.names.len() + self.names.len() / 4).clamp(64, MAX_NAMES - 1);
    }
}

/// The last part of a path, at most [`MAX_SHORT_PATH`] bytes of it.
fn ending(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let start = name.len().saturating_sub(MAX_SHORT_PATH);
    (start..).find_map(|start| name.get(start..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(number: u64, path: &str) -> MapEvent {
        let file = FileId::Inode { device: (8, 1), inode: number };
        MapEvent { start: 0, end: 1, offset: 0, file, path: path.into() }
    }

    #[test]
    fn one_file_has_one_name() {
        let mut names = Names::default();
        let [a, b] = [(); 2].map(|()| names.intern(&map(1, "/bin/cat"), 1 << 20, &mut 0, 1).unwrap());
        assert!(Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn names_without_users_make_room() {
        let mut names = Names::default();
        let long = "x".repeat(3600);
        for number in 0..100_000 {
            let map = map(number, &format!("/{long}/ü{long}"));
            let name = names.intern(&map, 1 << 20, &mut 0, 1).unwrap();
            assert!(name.path.len() >= MAX_SHORT_PATH - 1);
        }
        assert!(names.bytes <= 2 << 20, "{} bytes", names.bytes);
    }

    #[test]
    fn paths_in_use_are_shortened_beyond_the_limit() {
        let mut names = Names::default();
        let long = "y".repeat(3600);
        let mut name = |number| {
            let map = map(number, &format!("/{long}/{number}"));
            names.intern(&map, 1 << 20, &mut 0, 1).unwrap()
        };
        let used: Vec<_> = (0..5_000).map(&mut name).collect();
        assert_eq!(&*used[4_999].path, "4999");
        assert_eq!(used[0].path.len(), 3602 + 1);
        assert!(names.bytes <= 2 << 20, "{} bytes", names.bytes);
    }

    #[test]
    fn a_process_brings_a_limited_number_of_names() {
        let (mut names, mut new) = (Names::default(), 0);
        let mut bring = |number| names.intern(&map(number, "/bin/x"), 1 << 20, &mut new, 3).is_some();
        assert_eq!([1, 2, 3, 4, 1].map(&mut bring), [true, true, true, false, true]);
    }
}
