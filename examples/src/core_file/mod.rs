//! Core files, with the files that they name and the names in these.

use std::fmt;
use std::path::{Path, PathBuf};

use ebpf_profiler_core::internal::files;
use ebpf_profiler_core::language::LoadedFile;
use ebpf_profiler_core::trace::{Found, Stop};
use ebpf_profiler_unwind::case::{Case, Place, Subject};
use ebpf_profiler_unwind::core_dump::{CoreDump, Loaded, Search, Thread};
use ebpf_profiler_unwind::{Frame, Mapping, Modules, NativeFrame, Walk};

mod names;

mod scripts;

use scripts::Scripts;

/// A core file whose stacks can be unwound.
pub struct CoreFile {
    /// The dump.
    pub dump: CoreDump,
    /// The files named by the dump.
    pub loaded: Loaded,
    modules: Modules,
    /// The number among `loaded` of each mapping in `modules`.
    numbers: Vec<usize>,
    scripts: Scripts,
}

/// The stack of one thread.
pub struct Stack {
    /// The thread.
    pub thread: Thread,
    /// Its frames, leaf first.
    pub calls: Vec<Call>,
    /// Reason for the end of the stack.
    pub stop: Stop,
}

/// A frame and its names.
pub struct Call {
    /// The frame.
    pub frame: Frame,
    /// Functions, the innermost inlined one first; empty without a name.
    pub functions: Vec<Function>,
    /// Name of the file of a native frame; empty if unknown.
    pub file: String,
}

/// A function of a frame.
#[derive(Clone)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Script and line of a script's function; empty if unknown.
    pub place: String,
}

impl CoreFile {
    /// Opens a core file, and the files that it names below `roots`.
    ///
    /// # Errors
    ///
    /// Fails with a message if it cannot be read or is no core file.
    pub fn open(path: &Path, roots: &[PathBuf]) -> Result<CoreFile, String> {
        let file = files::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let dump = CoreDump::open(file).map_err(|error| format!("{}: {error}", path.display()))?;
        let search = if roots.is_empty() { Search::default() } else { Search::new(roots) };
        let loaded = dump.load(&search, |path| Ok(Box::new(files::open(path)?)));
        let scripts = Scripts::find(&loaded);
        let places = scripts.places(&loaded);
        let mappings: Vec<Mapping<'_>> = places.iter().map(|(_, place)| place.mapping().clone()).collect();
        let numbers = places.iter().map(|(number, _)| *number).collect();
        let modules = Modules::with_interpreters(dump.arch(), &mappings, &scripts.interpreters());
        Ok(CoreFile { dump, loaded, modules, numbers, scripts })
    }

    /// Returns the stacks of all threads, in the order of the dump.
    pub fn stacks(&mut self) -> Vec<Stack> {
        let threads = self.dump.threads().iter();
        let mut stacks: Vec<Stack> = threads.map(|thread| self.stack(thread)).collect();
        names::name(&self.loaded, &mut stacks);
        for stack in &mut stacks {
            let frames: Vec<_> = stack.calls.iter().map(|call| call.frame).collect();
            for (number, call) in stack.calls.iter_mut().enumerate() {
                if let Frame::Call(script) = &call.frame {
                    let caller = match frames.get(number + 1) {
                        Some(Frame::Call(caller)) => Some(caller),
                        _ => None,
                    };
                    call.functions = self.scripts.name(script, caller, &self.loaded);
                }
            }
        }
        stacks
    }

    /// Returns the files that are mapped as code, each once.
    pub fn files(&self) -> Vec<LoadedFile> {
        scripts::files(&self.loaded)
    }

    /// Returns the stack of a thread as a test case.
    pub fn case(&self, about: &str, stack: &Stack) -> Case {
        let mut calls = stack.calls.iter();
        let places = self.scripts.places(&self.loaded).into_iter().map(|(_, place)| place);
        let places: Vec<Place<'_>> = places.collect();
        let interpreters = self.scripts.interpreters();
        let subject = Subject::new(self.dump.arch(), &places).with_interpreters(&interpreters);
        Case::record(about, subject, &stack.thread.registers, self.loaded.memory(), |_| {
            let function = calls.next().and_then(|call| call.functions.last());
            function.map_or(String::new(), |function| function.name.clone())
        })
    }

    fn stack(&self, thread: &Thread) -> Stack {
        let mut walk = Walk::new(&self.modules, &thread.registers, self.loaded.memory());
        let call = |frame| {
            let frame = self.in_loaded(frame);
            Call { frame, functions: Vec::new(), file: self.file_name(&frame) }
        };
        let calls = walk.by_ref().map(call).collect();
        Stack { thread: *thread, calls, stop: walk.stop().unwrap_or(Stop::TooLong) }
    }

    /// Returns a frame with the number of its mapping among those of the dump.
    fn in_loaded(&self, mut frame: Frame) -> Frame {
        if let Frame::Native(native) = &mut frame {
            native.mapping = native.mapping.and_then(|number| self.numbers.get(number).copied());
        }
        frame
    }

    fn file_name(&self, frame: &Frame) -> String {
        let number = frame.native().and_then(|native| self.loaded.file_of(native));
        let path = number.map_or("", |number| &self.loaded.files()[number].path);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "TID {}:", self.thread.id)?;
        let mut number = 0;
        for call in &self.calls {
            let Frame::Native(native) = &call.frame else {
                call.write_script(f)?;
                continue;
            };
            call.write_native(f, number, native)?;
            number += 1;
        }
        match self.stop {
            Stop::Root | Stop::Coroutine => Ok(()),
            stop => writeln!(f, "    not whole: {stop}"),
        }
    }
}

impl Call {
    /// Writes a line for each function.
    fn write_script(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.functions.is_empty() {
            return writeln!(f, "    ?");
        }
        self.functions.iter().try_for_each(|Function { name, place }| writeln!(f, "    {name} - {place}"))
    }

    /// Writes a line for each inlined function, and one with the number of the frame.
    fn write_native(&self, f: &mut fmt::Formatter<'_>, number: usize, native: &NativeFrame) -> fmt::Result {
        let (inlined, function) = match self.functions.split_last() {
            Some((function, inlined)) => (inlined, Some(function)),
            None => (&[][..], None),
        };
        inlined.iter().try_for_each(|function| writeln!(f, "    {} (inlined)", function.name))?;
        write!(f, "{:<3} {:#018x}", format!("#{number}"), native.pc())?;
        match function {
            Some(function) => write!(f, " {}", function.name)?,
            None if self.file.is_empty() => {}
            None => write!(f, " +{:#x}", native.file_address)?,
        }
        if !self.file.is_empty() {
            write!(f, " - {}", self.file)?;
        }
        writeln!(f, "{}", if native.found == Found::Guessed { " (guessed)" } else { "" })
    }
}
