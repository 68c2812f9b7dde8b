//! A function as the program prints it.

use ebpf_profiler_core::language::Script;

/// Stands for any value.
const ANY: &str = "*";

/// A function of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    name: String,
    file: String,
    line: Option<u32>,
    /// CPU time, in seconds.
    pub(crate) seconds: f64,
}

impl Function {
    /// Parses `NAME<TAB>FILE<TAB>LINE<TAB>MILLISECONDS`; `*` stands for any name, file or line.
    pub(crate) fn parse(line: &str) -> Option<Function> {
        let [name, file, line, milliseconds] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let line = if line == ANY { None } else { Some(line.parse().ok()?) };
        let seconds = milliseconds.parse::<f64>().ok()? / 1000.0;
        Some(Function { name: name.to_owned(), file: file.to_owned(), line, seconds })
    }

    /// Returns `true` for a frame of the function.
    pub(crate) fn is(&self, script: &Script) -> bool {
        (self.name == ANY || *script.name == *self.name)
            && (self.file == ANY || *script.file == *self.file)
            && self.line.is_none_or(|line| line == script.start_line)
    }
}

#[test]
fn parses_lines() {
    let function = Function::parse("f_001x\tfile.py\t*\t25.5").unwrap();
    assert_eq!((&*function.name, &*function.file, function.line), ("f_001x", "file.py", None));
    assert!((function.seconds - 0.0255).abs() < 1e-9);
    assert!(function.is(&Script::new("cpython", "f_001x").with_file("file.py", 7)));
    assert!(!function.is(&Script::new("cpython", "f_001x").with_file("file.pyc", 7)));
    let function = Function::parse("f\t*\t3\t1").unwrap();
    assert!(function.is(&Script::new("cpython", "f").with_file("any", 3)));
    assert!(!function.is(&Script::new("cpython", "f").with_file("any", 4)));
    assert_eq!(Function::parse("warning: f"), None);
}
