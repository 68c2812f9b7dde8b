//! Separate debug files of stripped files.
//!
//! ```text
//!   build id abcdef…      ──► FOLDER/.build-id/ab/cdef….debug
//!   .gnu_debuglink x.debug ──► beside the file, in .debug beside it, in FOLDER and the file's own folder
//!   .gnu_debugaltlink      ──► by build id as above, or at the path it names
//! ```
//!
//! A candidate is used only if its build id is that of the file, or else if its checksum is that of
//! the link.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crc32fast::Hasher;

use super::options::SymbolOptions;
use crate::elf::Elf;
use crate::files::target::{Links, TargetFile};

/// A debug file and its path.
pub(super) struct DebugFile {
    pub(super) path: PathBuf,
    pub(super) elf: Elf,
}

/// The result of a search.
pub(super) enum Search {
    /// A debug file that belongs to the file.
    Found(DebugFile),
    /// The file links to a debug file, but none that belongs to it exists.
    Missing,
    /// The file links to no debug file.
    Unnamed,
}

/// Finds the debug file of `elf`, which its process maps as `path`.
pub(super) fn find(elf: &Elf, path: &str, options: &SymbolOptions) -> Search {
    let build_id = elf.build_id();
    if let Some(found) = build_id.as_deref().and_then(|id| by_build_id(id, options)) {
        return Search::Found(found);
    }
    let Some(link) = Link::read(elf) else { return Search::Unnamed };
    let candidates = link.candidates(Path::new(path), options);
    let found = candidates.into_iter().find_map(|path| {
        let elf = open(&path, options)?;
        belongs(&elf, &path, build_id.as_deref(), link.crc).then_some(DebugFile { path, elf })
    });
    found.map_or(Search::Missing, Search::Found)
}

/// Finds the supplementary file that `dwz` made for several debug files.
pub(super) fn find_common(debug: &Elf, path: &Path, options: &SymbolOptions) -> Search {
    let Some((name, build_id)) = common_link(debug) else { return Search::Unnamed };
    if let Some(found) = by_build_id(&build_id, options) {
        return Search::Found(found);
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let path = folder.join(name);
    match open(&path, options) {
        Some(elf) if elf.build_id().as_deref() == Some(&*build_id) => Search::Found(DebugFile { path, elf }),
        _ => Search::Missing,
    }
}

/// Opens a debug file. The author of the file that it belongs to chose its name; links are followed
/// in the configured folders alone.
pub(super) fn open(path: &Path, options: &SymbolOptions) -> Option<Elf> {
    let is_direct = !path.components().any(|part| part == Component::ParentDir);
    let is_configured = is_direct && options.debug_folders.iter().any(|folder| path.starts_with(folder));
    let links = if is_configured { Links::All } else { Links::None };
    let file = TargetFile::find(None, path, links).ok()?.open(options.any_file_system).ok()?;
    Elf::open(file).ok()
}

fn by_build_id(id: &[u8], options: &SymbolOptions) -> Option<DebugFile> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let name = rest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    options.debug_folders.iter().find_map(|folder| {
        let path = folder.join(".build-id").join(format!("{first:02x}")).join(format!("{name}.debug"));
        let elf = open(&path, options)?;
        (elf.build_id().as_deref() == Some(id)).then_some(DebugFile { path, elf })
    })
}

/// The contents of `.gnu_debuglink`.
struct Link {
    name: PathBuf,
    crc: u32,
}

/// Maximum size of a link section, in bytes.
const MAX_LINK: u64 = 8 << 10;

impl Link {
    /// Parses `name`, a zero byte, padding to four bytes, checksum.
    fn read(elf: &Elf) -> Option<Link> {
        let (name, rest) = text_and_rest(elf, ".gnu_debuglink")?;
        let crc = rest.get((name.len() + 1).next_multiple_of(4) - name.len() - 1..)?.get(..4)?;
        let crc = u32::from_le_bytes(crc.try_into().ok()?);
        // A file name, not a path, which could lead anywhere.
        let is_name = !name.is_empty() && !name.contains(&b'/') && name != b"..";
        is_name.then(|| Link { name: PathBuf::from(std::ffi::OsStr::from_bytes(&name)), crc })
    }

    fn candidates(&self, path: &Path, options: &SymbolOptions) -> Vec<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let inner = folder.strip_prefix("/").unwrap_or(folder);
        let mut found = vec![folder.join(&self.name), folder.join(".debug").join(&self.name)];
        found.extend(options.debug_folders.iter().map(|debug| debug.join(inner).join(&self.name)));
        found.retain(|candidate| candidate != path);
        found
    }
}

/// Reads path and build id of `.gnu_debugaltlink`.
fn common_link(elf: &Elf) -> Option<(PathBuf, Box<[u8]>)> {
    let (name, build_id) = text_and_rest(elf, ".gnu_debugaltlink")?;
    Some((PathBuf::from(std::ffi::OsStr::from_bytes(&name)), build_id.into()))
}

/// Reads the text that a section begins with, and the bytes after its zero byte.
fn text_and_rest(elf: &Elf, section: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let section = elf.section(section)?;
    let mut text = elf.bytes(section.offset, section.size.min(MAX_LINK)).ok()?;
    let end = text.iter().position(|&byte| byte == 0)?;
    let rest = text.split_off(end + 1);
    text.truncate(end);
    Some((text, rest))
}

fn belongs(debug: &Elf, path: &Path, build_id: Option<&[u8]>, crc: u32) -> bool {
    match (build_id, debug.build_id()) {
        (Some(id), Some(of_debug)) => *id == *of_debug,
        _ => file_crc(debug).is_some_and(|found| found == crc) && path.is_file(),
    }
}

/// Maximum size of a file whose checksum is computed, in bytes.
const MAX_CHECKED: u64 = 512 << 20;

fn file_crc(elf: &Elf) -> Option<u32> {
    if elf.size() > MAX_CHECKED {
        return None;
    }
    let mut crc = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    while at < elf.size() {
        let size = (elf.size() - at).min(buffer.len() as u64);
        let piece = &mut buffer[..size as usize];
        elf.fill(at, piece).ok()?;
        crc.update(piece);
        at += size;
    }
    Some(crc.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_folders_of_debuggers() {
        let link = Link { name: "tool.debug".into(), crc: 0 };
        let found = link.candidates(Path::new("/usr/bin/tool"), &SymbolOptions::default());
        let expected =
            ["/usr/bin/tool.debug", "/usr/bin/.debug/tool.debug", "/usr/lib/debug/usr/bin/tool.debug"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
