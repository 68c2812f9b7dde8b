//! A module's file and its cached symbols.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::debug_file::{self, DebugFile, Search};
#[cfg(feature = "symbolize")]
use super::dwarf;
use super::options::SymbolOptions;
use super::stats::SymbolStats;
use super::table::{Files, SymbolTable};
use super::{Symbol, demangle::Texts, go};
use crate::elf::{Elf, section_type};
use crate::process::{Module, Opener};

/// The identity of a file in the cache.
///
/// The build id alone is not enough: it is chosen by the author of a file, and the names of one
/// file must not get into another. Without a build id, and for files that others than root may
/// write, the opener is part of the key.
#[derive(Clone)]
pub(super) struct FileKey {
    path: Box<str>,
    build_id: Box<[u8]>,
    opener: Option<Arc<dyn Opener>>,
}

impl FileKey {
    pub(super) fn of(module: &Module) -> FileKey {
        let is_unproven = module.build_id.is_empty() || module.is_foreign;
        let opener = if is_unproven { module.opener.clone() } else { None };
        FileKey { path: module.path.clone(), build_id: module.build_id.clone(), opener }
    }

    pub(super) fn bytes(&self) -> usize {
        self.path.len() + self.build_id.len()
    }

    /// Returns the parts as comparable values. The key keeps the opener alive, so its address is
    /// not reused.
    fn parts(&self) -> (&str, &[u8], Option<*const ()>) {
        (&self.path, &self.build_id, self.opener.as_ref().map(|opener| Arc::as_ptr(opener).cast()))
    }
}

impl PartialEq for FileKey {
    fn eq(&self, other: &FileKey) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for FileKey {}

impl std::hash::Hash for FileKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts().fmt(f)
    }
}

/// A module's file and its debug files, open.
pub(super) struct OpenFiles {
    main: Elf,
    debug: Option<DebugFile>,
    common: Option<DebugFile>,
    /// Inflated sections of the file with debug information.
    #[cfg(feature = "symbolize")]
    inflated: dwarf::Inflated,
    /// Inflated sections of the supplementary file.
    #[cfg(feature = "symbolize")]
    inflated_common: dwarf::Inflated,
}

/// The cached state of a closed file.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// The symbols; `None` if they exceed the budget.
    table: Option<SymbolTable>,
    /// The index of debug information; `None` without debug information.
    #[cfg(feature = "symbolize")]
    indexes: Option<dwarf::Indexes>,
    debug_path: Option<PathBuf>,
    common_path: Option<PathBuf>,
    /// `true` if the file has Go's function table.
    is_go: bool,
    /// `true` if the file is gone or was replaced.
    useless: bool,
}

impl OpenFiles {
    pub(super) fn files(&self) -> Files<'_> {
        Files { main: &self.main, debug: self.debug.as_ref().map(|debug| &debug.elf) }
    }

    /// Returns the file with debug information and its supplementary file.
    #[cfg(feature = "symbolize")]
    fn with_dwarf(&self) -> Option<(dwarf::File<'_>, Option<dwarf::File<'_>>)> {
        let Files { main, debug } = self.files();
        let elf = [Some(main), debug].into_iter().flatten().find(|elf| dwarf::has_any(elf))?;
        let common = self.common.as_ref();
        let common = common.map(|common| dwarf::File { elf: &common.elf, inflated: &self.inflated_common });
        Some((dwarf::File { elf, inflated: &self.inflated }, common))
    }

    fn new(main: Elf, debug: Option<DebugFile>, common: Option<DebugFile>) -> OpenFiles {
        OpenFiles {
            main,
            debug,
            common,
            #[cfg(feature = "symbolize")]
            inflated: dwarf::Inflated::default(),
            #[cfg(feature = "symbolize")]
            inflated_common: dwarf::Inflated::default(),
        }
    }

    /// Opens the file for the first time.
    fn find(module: &Module, options: &SymbolOptions, stats: &mut SymbolStats) -> Option<OpenFiles> {
        let main = open_main(module, options, stats)?;
        let mut open = OpenFiles::new(main, None, None);
        if options.debug_files && !is_complete(&open.main) {
            open.debug = note(debug_file::find(&open.main, &module.path, options), stats);
        }
        let (with_debug, path) = match &open.debug {
            Some(debug) => (&debug.elf, debug.path.as_path()),
            None => (&open.main, module.path.as_ref().as_ref()),
        };
        if options.debug_files {
            open.common = note(debug_file::find_common(with_debug, path, options), stats);
        }
        Some(open)
    }

    /// Reopens the files that were found before.
    fn again(
        module: &Module,
        state: &FileState,
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> Option<OpenFiles> {
        let reopen = |path: &Option<PathBuf>| {
            let path = path.clone()?;
            Some(DebugFile { elf: debug_file::open(&path, options)?, path })
        };
        let main = open_main(module, options, stats)?;
        let same_id = |debug: &DebugFile| debug.elf.build_id() == main.build_id();
        let debug = reopen(&state.debug_path).filter(same_id);
        Some(OpenFiles::new(main, debug, reopen(&state.common_path)))
    }
}

impl FileState {
    /// Opens a file for the first time and reads its symbols and index.
    pub(super) fn new(
        module: &Module,
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> (FileState, Option<OpenFiles>) {
        stats.files += 1;
        let Some(open) = OpenFiles::find(module, options, stats) else {
            return (FileState { useless: true, ..FileState::default() }, None);
        };
        let path_of = |file: &Option<DebugFile>| file.as_ref().map(|file| file.path.clone());
        let table = fits(open.files(), options).then(|| read_table(open.files(), None, stats));
        stats.large_tables += u64::from(table.is_none());
        let (debug_path, common_path) = (path_of(&open.debug), path_of(&open.common));
        let state = FileState {
            table,
            #[cfg(feature = "symbolize")]
            indexes: open
                .with_dwarf()
                .filter(|_| options.lines || options.inlined)
                .map(|(main, common)| dwarf::Indexes::build(main, common, options, stats)),
            debug_path,
            common_path,
            is_go: go::is_in(&open.main),
            useless: false,
        };
        (state, Some(open))
    }

    /// Opens the file again.
    pub(super) fn reopen(
        &self,
        module: &Module,
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> Option<OpenFiles> {
        if self.useless { None } else { OpenFiles::again(module, self, options, stats) }
    }

    /// Calls `use_table` with the symbols, reading them again if they exceed the cache's budget.
    pub(super) fn with_table<T>(
        &self,
        open: &OpenFiles,
        wanted: &[u64],
        stats: &mut SymbolStats,
        use_table: impl FnOnce(&SymbolTable) -> T,
    ) -> T {
        match &self.table {
            Some(table) => use_table(table),
            None => use_table(&read_table(open.files(), Some(wanted), stats)),
        }
    }

    /// Returns the functions of ascending `addresses` by debug information.
    #[cfg(feature = "symbolize")]
    pub(super) fn functions(
        &self,
        open: &OpenFiles,
        addresses: &[u64],
        options: &SymbolOptions,
        texts: &mut Texts,
        stats: &mut SymbolStats,
    ) -> Vec<Vec<Symbol>> {
        match (&self.indexes, open.with_dwarf()) {
            (Some(indexes), Some((main, common))) => {
                indexes.functions(main, common, addresses, options, texts, stats)
            }
            _ => vec![Vec::new(); addresses.len()],
        }
    }

    /// Adds functions of ascending `addresses` that only Go's function table names.
    pub(super) fn fill_in(
        &self,
        open: &OpenFiles,
        addresses: &[u64],
        options: &SymbolOptions,
        texts: &mut Texts,
        functions: &mut [Vec<Symbol>],
    ) {
        if self.is_go {
            go::fill_in(&open.main, addresses, options, texts, functions);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let table = self.table.as_ref().map_or(0, SymbolTable::bytes);
        #[cfg(feature = "symbolize")]
        let table = table + self.indexes.as_ref().map_or(0, dwarf::Indexes::bytes);
        size_of::<FileState>() + table
    }
}

fn open_main(module: &Module, options: &SymbolOptions, stats: &mut SymbolStats) -> Option<Elf> {
    let elf = match &module.opener {
        Some(opener) => opener.open().ok().and_then(|source| Elf::open(source).ok()),
        None if module.build_id.is_empty() || !module.path.starts_with('/') => None,
        None => debug_file::open(Path::new(&*module.path), options),
    };
    let Some(elf) = elf else {
        stats.unreadable += 1;
        return None;
    };
    let expected = &module.build_id;
    let found = elf.build_id();
    let is_other = found.as_ref().map_or(module.opener.is_none(), |found| **found != **expected);
    if !expected.is_empty() && is_other {
        stats.replaced += 1;
        return None;
    }
    Some(elf)
}

/// Returns `true` if a file contains a symbol table and debug information.
fn is_complete(elf: &Elf) -> bool {
    let symbols = elf.sections().iter().any(|section| section.kind == section_type::SHT_SYMTAB);
    let debug = [".debug_info", ".zdebug_info"].iter().any(|name| elf.section(name).is_some());
    symbols && debug
}

fn note(search: Search, stats: &mut SymbolStats) -> Option<DebugFile> {
    match search {
        Search::Found(found) => {
            stats.debug_files += 1;
            Some(found)
        }
        Search::Missing => {
            stats.debug_files_missing += 1;
            None
        }
        Search::Unnamed => None,
    }
}

/// Returns `true` if the sorted symbol table fits the cache.
fn fits(files: Files<'_>, options: &SymbolOptions) -> bool {
    let symbols = |elf: &Elf| {
        let tables = elf.sections().iter().filter(|section| section.kind == section_type::SHT_SYMTAB);
        tables.map(|section| section.size).max().unwrap_or(0)
    };
    let largest = symbols(files.main).max(files.debug.map_or(0, symbols));
    // 24 bytes per symbol in the file, 16 per function in memory.
    largest / 3 * 2 <= (options.files_budget() / 4) as u64
}

fn read_table(files: Files<'_>, wanted: Option<&[u64]>, stats: &mut SymbolStats) -> SymbolTable {
    let table = SymbolTable::read(files, wanted).unwrap_or_else(|_| {
        stats.malformed += 1;
        SymbolTable::default()
    });
    stats.without_symbols += u64::from(table.len() == 0 && wanted.is_none());
    table
}
