//! Compiles test programs and opens them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::process::Module;

use crate::tool::{run, text};

/// A compiled program.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
}

impl Program {
    /// Compiles `programs/SOURCE` into a folder of this test.
    pub(crate) fn compile(test: &str, source: &str, arguments: &[&str]) -> Program {
        let folder = folder(test);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/symbol/programs").join(source);
        let path = folder.join(source.file_stem().expect("a name"));
        let (package, compiler): (&str, &str) = match source.extension().and_then(|ending| ending.to_str()) {
            Some("cpp") => ("g++", "g++"),
            Some("rs") => ("rustc", "rustc"),
            _ => ("gcc", "gcc"),
        };
        let arguments = [arguments, &["-o", text(&path), text(&source)]].concat();
        // The linker needs libraries after their users.
        let arguments =
            if source.ends_with("plain.c") { [&arguments[..], &["-lm"]].concat() } else { arguments };
        run(package, compiler, &arguments);
        Program { path }
    }

    /// Writes a changed copy with `objcopy`.
    pub(crate) fn copy(&self, name: &str, arguments: &[&str]) -> Program {
        let path = self.path.with_file_name(name);
        run("binutils", "objcopy", &[arguments, &[text(&self.path), text(&path)]].concat());
        Program { path }
    }

    pub(crate) fn elf(&self) -> Elf {
        Elf::open(std::fs::File::open(&self.path).expect("a program")).expect("an ELF file")
    }

    pub(crate) fn module(&self) -> Module {
        let mut module = Module::new(text(&self.path));
        let path = self.path.clone();
        module.build_id = self.elf().build_id().unwrap_or_default().into();
        module.opener =
            Some(Arc::new(move || std::fs::File::open(&path).map(|file| Box::new(file) as Box<dyn ReadAt>)));
        module
    }

    /// Returns every address of a section.
    pub(crate) fn addresses(&self, section: &str) -> Vec<u64> {
        let elf = self.elf();
        elf.section(section).map_or(Vec::new(), |s| (s.address..s.address + s.size).collect())
    }
}

/// Returns an empty folder for a test.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("symbol").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
