//! Candidate paths of mapped files.

use std::path::{Component, Path, PathBuf};

/// Search order for mapped files.
///
/// ```text
///   ROOT/usr/lib/debug/.build-id/ab/cdef...     ROOT/usr/lib/.build-id/ab/cdef...     ROOT/.build-id/ab/cdef...
///   ROOT/path/of/the/mapping
/// ```
///
/// Roots are searched in order: the file system of a container, a folder with files of another
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    roots: Vec<PathBuf>,
}

impl Default for Search {
    fn default() -> Search {
        Search { roots: vec!["/".into()] }
    }
}

/// Folders with links or files named after build ids.
const FOLDERS: [&str; 3] = ["usr/lib/debug/.build-id", "usr/lib/.build-id", ".build-id"];

impl Search {
    /// Creates a search below these roots, in this order. The default is `/` alone.
    pub fn new(roots: impl Into<Vec<PathBuf>>) -> Search {
        Search { roots: roots.into() }
    }

    /// Returns the candidate paths of a file, best first.
    pub fn candidates(&self, path: &str, build_id: &[u8]) -> Vec<PathBuf> {
        let id = build_id_path(build_id);
        let path = inside(path);
        let of_root = |root: &PathBuf| {
            let by_id = id.iter().flat_map(|id| FOLDERS.map(|folder| root.join(folder).join(id)));
            by_id.chain(path.iter().map(|path| root.join(path))).collect::<Vec<_>>()
        };
        self.roots.iter().flat_map(of_root).collect()
    }
}

/// `ab/cdef...`
fn build_id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(&format!("{first:02x}")).join(rest))
}

/// Converts an absolute path to one below a root. Returns `None` if it leads out of it.
fn inside(path: &str) -> Option<&Path> {
    let path = Path::new(path.strip_prefix('/')?);
    let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
    (plain && !path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_come_first() {
        let search = Search { roots: vec!["/sysroot".into()] };
        let candidates = search.candidates("/bin/a", &[0xab, 0xcd, 0xef]);
        assert_eq!(candidates[0], Path::new("/sysroot/usr/lib/debug/.build-id/ab/cdef"));
        assert_eq!(candidates[3], Path::new("/sysroot/bin/a"));
        assert_eq!(search.candidates("/bin/a", &[]), [Path::new("/sysroot/bin/a")]);
    }

    #[test]
    fn no_path_leads_out_of_a_root() {
        for path in ["/../etc/passwd", "/a/../../b", "relative", "", "/", "[vdso]", "/dev/./zero/.."] {
            assert_eq!(Search::default().candidates(path, &[]), [] as [PathBuf; 0], "{path}");
        }
    }
}
