//! The process that is stepped through: its mappings with their tables, and its memory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_unwind::{Arch, Elf, Mapping, Modules, Table};

/// A mapped file with its table, to which derived rules were added.
pub(crate) struct Image {
    pub(crate) name: String,
    elf: Elf,
    pub(crate) table: Table,
}

/// A mapping of the process.
#[derive(Clone)]
pub(crate) struct Mapped {
    start: u64,
    end: u64,
    /// Added to addresses of the process for those of the file.
    bias: u64,
    pub(crate) image: Option<Rc<Image>>,
}

/// See the [module](self).
pub(crate) struct Target {
    pid: u32,
    memory: File,
    images: HashMap<String, Option<Rc<Image>>>,
    mappings: Vec<Mapped>,
    modules: Modules,
    is_stale: bool,
    code: HashMap<u64, Vec<u8>>,
}

const PAGE: u64 = 4096;

impl Target {
    pub(crate) fn new(pid: u32) -> Target {
        let memory = File::open(format!("/proc/{pid}/mem")).expect("it is traced");
        let modules = Modules::new(Arch::X86_64, &[]);
        let (images, mappings, code) = (HashMap::new(), Vec::new(), HashMap::new());
        Target { pid, memory, images, mappings, modules, is_stale: true, code }
    }

    /// Returns a word of its memory.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_le_bytes(word))
    }

    /// Returns the bytes of the instruction at an address, and some more.
    pub(crate) fn code(&mut self, address: u64) -> [u8; 15] {
        let mut code = [0; 15];
        let page = self.code.entry(address / PAGE).or_insert_with(|| {
            // With the first bytes of the next page.
            let mut page = vec![0; PAGE as usize + code.len()];
            let start = address / PAGE * PAGE;
            if self.memory.read_exact_at(&mut page, start).is_err() {
                let _ = self.memory.read_exact_at(&mut page[..PAGE as usize], start);
            }
            page
        });
        let at = (address % PAGE) as usize;
        code.copy_from_slice(&page[at..at + 15]);
        code
    }

    /// Notices instructions that change mappings.
    pub(crate) fn notice_system_call(&mut self, code: &[u8; 15], number: u64) {
        // mmap, mprotect, munmap, mremap, execve
        if code[..2] == [0x0f, 0x05] && matches!(number, 9 | 10 | 11 | 25 | 59) {
            self.is_stale = true;
        }
    }

    /// Reads the mappings again if they may have changed.
    pub(crate) fn refresh(&mut self) {
        if std::mem::take(&mut self.is_stale) {
            self.code.clear();
            self.load();
        }
    }

    /// Returns the mappings.
    pub(crate) fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Returns the mapping that contains an address.
    pub(crate) fn mapping(&self, address: u64) -> Option<&Mapped> {
        self.mappings.iter().find(|mapped| mapped.start <= address && address < mapped.end)
    }

    fn load(&mut self) {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let lines: Vec<(u64, u64, u64, String)> = maps.lines().filter_map(executable).collect();
        self.mappings =
            lines.into_iter().map(|(start, end, offset, name)| self.map(start, end, offset, name)).collect();
        let mappings: Vec<Mapping<'_>> = self.mappings.iter().map(Mapped::mapping).collect();
        self.modules = Modules::new(Arch::X86_64, &mappings);
    }

    fn map(&mut self, start: u64, end: u64, offset: u64, name: String) -> Mapped {
        let image = match self.images.get(&name) {
            Some(image) => image.clone(),
            None => {
                let image = self.image(&name, start, end);
                self.images.insert(name, image.clone());
                image
            }
        };
        let address = image.as_ref().and_then(|image| image.elf.code_address(offset));
        Mapped { start, end, bias: address.unwrap_or(start).wrapping_sub(start), image }
    }

    fn image(&self, name: &str, start: u64, end: u64) -> Option<Rc<Image>> {
        let elf = if name == "[vdso]" {
            let mut bytes = vec![0; (end - start) as usize];
            self.memory.read_exact_at(&mut bytes, start).ok()?;
            Elf::open(std::io::Cursor::new(bytes)).ok()?
        } else {
            Elf::open(File::open(name).ok()?).ok()?
        };
        let table = Table::with_derived_rules(&elf).ok()?;
        Some(Rc::new(Image { name: name.to_owned(), elf, table }))
    }
}

impl Mapped {
    fn mapping(&self) -> Mapping<'_> {
        let mapping = Mapping::new(self.start..self.end, LoadBias::between(0, self.bias));
        match &self.image {
            Some(image) => mapping.with_table(&image.table),
            None => mapping,
        }
    }

    /// Returns the address in the file for one of the process.
    pub(crate) fn file_address(&self, address: u64) -> u64 {
        address.wrapping_add(self.bias)
    }
}

/// Parses a line of an executable mapping: start, end, file offset, name.
fn executable(line: &str) -> Option<(u64, u64, u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let offset = words.next()?;
    let name = words.nth(2).unwrap_or_default();
    let number = |text| u64::from_str_radix(text, 16).ok();
    permissions.contains('x').then_some((number(start)?, number(end)?, number(offset)?, name.to_owned()))
}
