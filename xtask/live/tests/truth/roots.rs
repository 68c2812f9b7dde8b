//! Roots of whole stacks, in files with and without symbols.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::folded::Stack;
use live_suite::comparison::name::{Unnamed, plain, unnamed};

/// Entry points of mapped files: their first instructions call main, or the loader.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// Addresses by file name, without directory.
    entries: BTreeMap<String, Vec<u64>>,
}

/// Plain names of root frames.
const NAMES: &[&str] = &["start", "clone", "clone3", "rt_sigreturn", "dl_start_user", "make_fcontext"];

/// Maximum distance of a program's first call from its entry point, in bytes.
const MAX_CALL_DISTANCE: u64 = 64;

impl Roots {
    /// Adds the executable files that any process of the machine maps now.
    pub(crate) fn scan(&mut self) {
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        for maps in processes.filter_map(|process| fs::read_to_string(process.path().join("maps")).ok()) {
            let paths = maps
                .lines()
                .filter(|line| line.contains(" r-xp "))
                .filter_map(|line| line.find('/').map(|at| &line[at..]));
            for path in paths {
                self.add(Path::new(path));
            }
        }
    }

    /// Adds one file.
    pub(crate) fn add(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(entry) = entry_of(path) {
            let entries = self.entries.entry(name).or_default();
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }

    /// Adds the address of a known root.
    pub(crate) fn add_place(&mut self, file: &str, address: u64) {
        self.entries.entry(file.to_owned()).or_default().push(address);
    }

    /// Returns `true` if the root frame is the start of a program or thread; `None` without user
    /// frames.
    pub(crate) fn is_whole(&self, stack: &Stack) -> Option<bool> {
        let user = stack.user();
        let first = user.first()?;
        Some(match unnamed(&first.name) {
            Some(Unnamed::At(file, address)) => self.is_entry(file, address),
            Some(Unnamed::Nowhere) => false,
            None => NAMES.contains(&plain(&first.name).as_str()),
        })
    }

    fn is_entry(&self, file: &str, address: u64) -> bool {
        let near = |entry: &u64| (*entry..*entry + MAX_CALL_DISTANCE).contains(&address);
        self.entries.get(file).is_some_and(|entries| entries.iter().any(near))
    }
}

/// Returns the entry point from an ELF file's header.
fn entry_of(path: &Path) -> Option<u64> {
    let mut head = [0; 32];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    head.starts_with(b"\x7fELF").then(|| u64::from_le_bytes(head[24..32].try_into().unwrap_or_default()))
}

#[test]
fn roots_are_known_by_name_or_place() {
    let mut roots = Roots::default();
    roots.add_place("python3", 0x1000);
    let whole = |line: &str| roots.is_whole(&crate::folded::parse(line).unwrap()[0]);
    assert_eq!(whole("c;_start;main 1"), Some(true));
    assert_eq!(whole("c;python3+0x1021;libc.so.6+0x27304 1"), Some(true));
    assert_eq!(whole("c;python3+0x2021;libc.so.6+0x27304 1"), Some(false));
    assert_eq!(whole("c;other+0x1021 1"), Some(false));
    assert_eq!(whole("c;main;leaf 1"), Some(false));
    assert_eq!(whole("c;[anonymous];leaf 1"), Some(false));
    assert_eq!(whole("kworker;schedule_[k] 1"), None);
}
