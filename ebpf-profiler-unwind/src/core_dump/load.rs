//! Converts the mappings of a dump to modules for a walk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::process::LoadBias;
use hashbrown::HashMap;

use super::CoreDump;
use super::file::{File, Origin, Problem};
use super::image::Image;
use super::mapped::MappedFile;
use super::memory::{Backing, Memory};
use super::search::Search;
use crate::case::Place;
use crate::modules::{MAX_MAPPINGS, Mapping, Modules};
use crate::table::Table;
use crate::walk::NativeFrame;

/// The process of a core dump, ready to be walked: its modules with unwind tables, the files that
/// were found for them, and its memory. [`CoreDump::load`](super::CoreDump::load) makes it.
#[derive(Debug)]
pub struct Loaded {
    modules: Modules,
    files: Vec<File>,
    /// The mappings in `modules`.
    mappings: Vec<Numbered>,
    memory: Memory,
}

/// Opener of files: the crate itself opens none.
type Open<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Box<dyn ReadAt>>;

impl CoreDump {
    /// Finds the files with code and builds their tables.
    ///
    /// `open` opens a path. It should reject anything but regular files, since the dump chooses the
    /// paths. Each opened file is compared with the dump.
    pub fn load(
        &self,
        search: &Search,
        mut open: impl FnMut(&Path) -> io::Result<Box<dyn ReadAt>>,
    ) -> Loaded {
        let mut loader = Loader::new(self, search, &mut open);
        let mappings = loader.mappings();
        let files = loader.files;
        let views: Vec<Mapping<'_>> = mappings.iter().map(|mapping| mapping.view(&files)).collect();
        let modules = Modules::new(self.arch(), &views);
        let backing = backing(&loader.pieces, &loader.numbers, &files);
        let memory = Memory::new(self.contents.clone(), backing);
        Loaded { modules, files, mappings, memory }
    }
}

impl Loaded {
    /// Returns the modules to walk.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Returns the memory of the dump, completed by mapped files.
    pub fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// Returns the mapped files that contain code.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the mappings of code with path and build id (empty without a file), for recording a
    /// case.
    pub fn places(&self) -> Vec<Place<'_>> {
        self.mappings.iter().map(|mapping| mapping.place(&self.files)).collect()
    }

    /// Returns the index in [`files`](Loaded::files) of the file of a frame.
    pub fn file_of(&self, frame: &NativeFrame) -> Option<usize> {
        self.mappings.get(frame.mapping?)?.file
    }
}

/// A mapping with the index of its file.
#[derive(Debug)]
struct Numbered {
    range: Range<u64>,
    load_bias: LoadBias,
    file: Option<usize>,
}

impl Numbered {
    fn view<'a>(&self, files: &'a [File]) -> Mapping<'a> {
        let table = self.file.and_then(|file| files[file].table());
        Mapping { table, ..Mapping::new(self.range.clone(), self.load_bias) }
    }

    fn place<'a>(&self, files: &'a [File]) -> Place<'a> {
        let mapping = self.view(files);
        let file = self.file.map(|file| &files[file]);
        let (path, build_id) = file.map_or(("", &[][..]), |file| (&*file.path, &*file.build_id));
        Place::new(mapping, path, build_id)
    }
}

/// A piece of a mapped file, with the file's index.
struct Held {
    range: Range<u64>,
    offset: u64,
    mapped: usize,
}

struct Loader<'a> {
    dump: &'a CoreDump,
    search: &'a Search,
    open: Open<'a>,
    /// All pieces by address.
    pieces: Vec<Held>,
    files: Vec<File>,
    /// Index in `files` of each mapped file.
    numbers: Vec<Option<usize>>,
    /// Files by path, read before.
    known: HashMap<PathBuf, (Arc<Elf>, Arc<Table>)>,
    /// Number of bytes of images in memory that may still be read.
    budget: u64,
}

/// Maximum number of bytes of unwind data read from memory: a dump may claim that one piece is a
/// thousand files.
const BUDGET: u64 = 1 << 30;

impl<'a> Loader<'a> {
    fn new(dump: &'a CoreDump, search: &'a Search, open: Open<'a>) -> Loader<'a> {
        let files = dump.files().iter().enumerate();
        let places = files.flat_map(|(mapped, file)| {
            let pieces = file.pieces.iter();
            pieces.map(move |piece| Held { range: piece.range.clone(), offset: piece.offset, mapped })
        });
        let mut pieces: Vec<Held> = places.collect();
        pieces.sort_by_key(|place| place.range.start);
        let numbers = vec![None; dump.files().len()];
        Loader {
            dump,
            search,
            open,
            pieces,
            files: Vec::new(),
            numbers,
            known: HashMap::new(),
            budget: BUDGET,
        }
    }

    /// Returns all code: executable segments of the dump, and code in files that the dump lacks.
    fn mappings(&mut self) -> Vec<Numbered> {
        let segments: Vec<Range<u64>> = self.dump.contents.code().take(MAX_MAPPINGS).collect();
        let mut mappings: Vec<Numbered> = segments.into_iter().map(|range| self.segment(range)).collect();
        for place in 0..self.pieces.len() {
            if mappings.len() < MAX_MAPPINGS {
                mappings.extend(self.left_out(place));
            }
        }
        mappings
    }

    /// Returns the code in a piece of a file that `gcore` left out, according to the file's
    /// headers.
    fn left_out(&mut self, place: usize) -> Option<Numbered> {
        let Held { ref range, offset, mapped } = self.pieces[place];
        let range = range.clone();
        // Data files are mapped as a whole.
        let is_whole = offset == 0 && self.dump.files()[mapped].pieces.len() == 1;
        if self.dump.contents.segment(range.start).is_some() || is_whole {
            return None;
        }
        let number = self.number(mapped);
        let file = &self.files[number];
        match file.load_bias(range.start, offset) {
            Some(load_bias) => Some(Numbered { range, load_bias, file: Some(number) }),
            None if file.elf().is_none() => {
                Some(Numbered { range, load_bias: LoadBias::ZERO, file: Some(number) })
            }
            None => None,
        }
    }

    /// Returns the mapping of an executable segment.
    fn segment(&mut self, range: Range<u64>) -> Numbered {
        let nothing = Numbered { load_bias: LoadBias::ZERO, file: None, range: range.clone() };
        let (number, offset) = match self.mapped(range.start) {
            Some((mapped, offset)) => (self.number(mapped), offset),
            None if self.dump.vdso.is_some_and(|vdso| range.contains(&vdso)) => (self.vdso(&range), 0),
            None => return nothing,
        };
        let load_bias = self.files[number].load_bias(range.start, offset);
        load_bias.map_or(nothing, |load_bias| Numbered { range, load_bias, file: Some(number) })
    }

    /// Returns the mapped file at `address` and the offset in it.
    fn mapped(&self, address: u64) -> Option<(usize, u64)> {
        let next = self.pieces.partition_point(|place| place.range.start <= address);
        let place = self.pieces.get(next.checked_sub(1)?)?;
        let offset = place.offset.checked_add(address - place.range.start)?;
        place.range.contains(&address).then_some((place.mapped, offset))
    }

    /// Returns the index of a mapped file, searching for it the first time.
    fn number(&mut self, mapped: usize) -> usize {
        let number = self.numbers[mapped].unwrap_or_else(|| {
            let file = self.find(&self.dump.files()[mapped]);
            self.add(file)
        });
        self.numbers[mapped] = Some(number);
        number
    }

    fn vdso(&mut self, range: &Range<u64>) -> usize {
        let image = Image::of_vdso(&self.dump.contents, range.clone());
        let mut file = File::new("[vdso]", image);
        self.read_image(&mut file);
        self.add(file)
    }

    fn add(&mut self, file: File) -> usize {
        self.files.push(file);
        self.files.len() - 1
    }

    /// Searches for a file below all roots.
    fn find(&mut self, mapped: &MappedFile) -> File {
        let mut file = File::new(mapped.original_path(), Image::of_file(&self.dump.contents, mapped));
        for path in self.search.candidates(mapped.original_path(), &file.build_id) {
            match self.read(&path) {
                Ok((elf, table)) => {
                    if file.accept(&path, elf, table) {
                        return file;
                    }
                }
                Err(Problem::Unreadable(_, io::ErrorKind::NotFound)) => {}
                Err(problem) => file.problems.push(problem),
            }
        }
        self.read_image(&mut file);
        file
    }

    /// Opens a file and builds its table, once.
    fn read(&mut self, path: &Path) -> Result<(Arc<Elf>, Arc<Table>), Problem> {
        if let Some((elf, table)) = self.known.get(path) {
            return Ok((elf.clone(), table.clone()));
        }
        let source = (self.open)(path).map_err(|error| Problem::Unreadable(path.into(), error.kind()))?;
        let elf = Elf::open(source).map_err(|error| Problem::Elf(path.into(), error))?;
        let table = Table::of(&elf).map_err(|error| Problem::Elf(path.into(), error))?;
        let known = (Arc::new(elf), Arc::new(table));
        self.known.insert(path.into(), known.clone());
        Ok(known)
    }

    /// Builds the table from the file's contents in the dump.
    fn read_image(&mut self, file: &mut File) {
        let size = file.image_size();
        if size <= self.budget {
            self.budget -= size;
            file.read_image();
        }
    }
}

/// Returns the pieces of verified files.
fn backing(pieces: &[Held], numbers: &[Option<usize>], files: &[File]) -> Arc<[Backing]> {
    let backing = pieces.iter().filter_map(|place| {
        let file = &files[numbers[place.mapped]?];
        let elf = file.elf().filter(|_| matches!(file.origin, Origin::Path(_)))?;
        Some(Backing { range: place.range.clone(), offset: place.offset, file: elf.clone() })
    });
    backing.collect()
}
