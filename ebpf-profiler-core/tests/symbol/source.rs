//! Lines and inlined functions, for every address of `.text`, against `llvm-symbolizer` and
//! `addr2line` of binutils.
//!
//! Intended differences between the tools and this crate:
//!
//! - A function with several names (aliases): any of them counts as the same, `nm` says which
//!   belong together.
//! - LLVM gives the name of the source file, without line, from the symbol table. We give no file
//!   then.
//! - LLVM names code in a function by the last label before it, we by the function; see
//!   `assembler`.
//! - binutils calls functions without linker's name as the one that they are inlined into, calls
//!   the outermost as the debug information does (`main` for what is `main.cold` in the symbol
//!   table) and gives padding the name of the function before. LLVM and we don't, so binutils is
//!   asked for the lines of the whole chain.

use std::path::Path;

use ebpf_profiler_core::symbol::{Symbol, SymbolOptions, SymbolStats};
use hashbrown::HashMap;

use crate::address::{linker_name, ours};
use crate::program::Program;
use crate::tool::{run, run_with, text};

/// A function with its source location: linker's name, file, line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Function {
    name: String,
    file: String,
    line: u32,
}

impl From<&Symbol> for Function {
    fn from(symbol: &Symbol) -> Function {
        Function { name: linker_name(symbol).into(), file: symbol.file.to_string(), line: symbol.line }
    }
}

#[test]
fn c() {
    test_needs::programs!("gcc", "nm", "llvm-symbolizer", "addr2line");
    compare(&Program::compile("c", "plain.c", &["-g", "-O2"]));
}

#[test]
fn c_without_optimization_at_fixed_addresses() {
    test_needs::programs!("gcc", "nm", "llvm-symbolizer", "addr2line");
    compare(&Program::compile("c-fixed", "plain.c", &["-g", "-O0", "-no-pie"]));
}

#[test]
fn c_static() {
    test_needs::programs!("gcc", "nm", "llvm-symbolizer", "addr2line");
    compare(&Program::compile("c-static", "plain.c", &["-g", "-O2", "-static"]));
}

#[test]
fn c_of_older_debug_information() {
    test_needs::programs!("gcc", "nm", "llvm-symbolizer", "addr2line");
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4"] {
        compare(&Program::compile("c-older", "plain.c", &[version, "-O2"]));
    }
}

#[test]
fn c_with_dropped_functions() {
    test_needs::programs!("gcc", "nm", "llvm-symbolizer", "addr2line");
    let arguments = ["-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"];
    compare(&Program::compile("c-dropped", "plain.c", &arguments));
}

#[test]
fn cpp() {
    test_needs::programs!("g++", "nm", "llvm-symbolizer", "addr2line");
    for level in ["-O0", "-O2", "-O3"] {
        compare(&Program::compile("cpp", "objects.cpp", &["-g", level]));
    }
}

#[test]
fn cpp_optimized_as_a_whole() {
    test_needs::programs!("g++", "nm", "llvm-symbolizer", "addr2line");
    compare(&Program::compile("cpp-whole", "objects.cpp", &["-g", "-O2", "-flto"]));
}

#[test]
fn rust() {
    test_needs::programs!("rustc", "nm", "llvm-symbolizer", "addr2line");
    for level in ["-Copt-level=0", "-Copt-level=3"] {
        compare(&Program::compile("rust", "generic.rs", &["-g", level, "-Cprefer-dynamic"]));
    }
}

#[test]
fn rust_with_new_names_and_lines_only() {
    test_needs::programs!("rustc", "nm", "llvm-symbolizer", "addr2line");
    let arguments =
        ["-Cdebuginfo=line-tables-only", "-Csymbol-mangling-version=v0", "-O", "-Cprefer-dynamic"];
    compare(&Program::compile("rust-lines", "generic.rs", &arguments));
}

#[test]
fn rust_optimized_as_a_whole() {
    test_needs::programs!("rustc", "nm", "llvm-symbolizer", "addr2line");
    // Inlined functions of one unit are described in another.
    let arguments = ["-g", "-O", "-Clto=fat", "-Ccodegen-units=1", "-Cpanic=abort"];
    compare(&Program::compile("rust-whole", "generic.rs", &arguments));
}

#[test]
fn assembler() {
    test_needs::programs!("gcc", "llvm-symbolizer");
    let program = Program::compile("assembler", "labels.s", &["-g", "-nostdlib", "-static"]);
    let addresses = program.addresses(".text");
    let (found, _) = ours(&program.module(), &addresses, SymbolOptions::default());
    let theirs = llvm(&program, &addresses);
    assert!(theirs.iter().any(|functions| functions.iter().any(|function| function.name == "again")));
    for ((address, ours), theirs) in addresses.iter().zip(&found).zip(theirs) {
        let mut theirs = without_guesses(theirs);
        // Two instructions lie behind the end of `sized` and before the next label.
        theirs.retain(|function| !matches!(function.line, 21 | 22));
        theirs.iter_mut().filter(|f| f.name == "again").for_each(|f| f.name = "sized".into());
        let ours: Vec<Function> = ours.iter().map(Function::from).collect();
        assert_eq!(ours, theirs, "{address:#x}");
    }
}

#[test]
fn compressed() {
    test_needs::programs!("g++", "objcopy", "nm", "llvm-symbolizer", "addr2line");
    let program = Program::compile("compressed", "objects.cpp", &["-g", "-O2", "-gz=none"]);
    for form in ["zlib-gabi", "zlib-gnu"] {
        let compressed = program.copy(form, &[&format!("--compress-debug-sections={form}")]);
        compare_with(&compressed, &program, SymbolOptions::default());
    }
}

#[test]
fn unknown_compression_costs_lines_but_no_names() {
    test_needs::programs!("g++", "llvm-objcopy-22");
    let program = Program::compile("zstd", "objects.cpp", &["-g", "-O2"]);
    let addresses = program.addresses(".text");
    let path = program.path.with_file_name("inflated-elsewhere");
    run("llvm", "llvm-objcopy-22", &["--compress-debug-sections=zstd", text(&program.path), text(&path)]);
    let (_, stats) = ours(&Program { path }.module(), &addresses, SymbolOptions::default());
    assert!(stats.sections_skipped > 0 && stats.lines == 0 && stats.named > 0, "{stats:?}");
}

#[test]
fn a_unit_that_is_too_large_gives_lines() {
    test_needs::programs!("g++");
    let program = Program::compile("too-large", "objects.cpp", &["-g", "-O2"]);
    let addresses = program.addresses(".text");
    let (expected, all) = ours(&program.module(), &addresses, SymbolOptions::default());
    let mut options = SymbolOptions::default();
    options.max_unit = 10_000;
    let (found, stats) = ours(&program.module(), &addresses, options);
    assert!(stats.units_skipped > 0 && stats.inlined == 0 && stats.malformed == 0, "{stats:?}");
    assert_eq!(stats.named, all.named);
    for (expected, found) in expected.iter().zip(&found) {
        // File and line are those of the innermost function, the name that of the outermost.
        let place = |functions: &[Symbol]| functions.first().map(|f| (f.file.clone(), f.line, f.column));
        assert_eq!(place(expected), place(found));
        assert_eq!(expected.last().map(|f| &f.function), found.last().map(|f| &f.function));
    }
}

#[test]
fn without_lines_there_are_names_and_inlined_functions() {
    test_needs::programs!("g++");
    let program = Program::compile("no-lines", "objects.cpp", &["-g", "-O2"]);
    let addresses = program.addresses(".text");
    let (expected, all) = ours(&program.module(), &addresses, SymbolOptions::default());
    let mut options = SymbolOptions::default();
    options.lines = false;
    let (found, stats) = ours(&program.module(), &addresses, options);
    assert_eq!((stats.lines, stats.inlined), (0, all.inlined));
    let names = |answers: &[Vec<Symbol>]| -> Vec<Vec<_>> {
        answers.iter().map(|functions| functions.iter().map(|f| f.function.clone()).collect()).collect()
    };
    assert!(names(&expected) == names(&found));
}

#[test]
fn a_debug_file_beside_the_program() {
    test_needs::programs!("g++", "objcopy", "nm", "llvm-symbolizer", "addr2line");
    let program = Program::compile("link", "objects.cpp", &["-g", "-O2", "-Wl,--build-id=none"]);
    let debug = program.copy("objects.debug", &["--only-keep-debug"]);
    let stripped = program.copy("stripped", &["--strip-all", &link(&debug.path)]);
    assert_eq!(compare_with(&stripped, &program, options(&debug.path)).debug_files, 1);

    let hidden = program.path.with_file_name(".debug");
    std::fs::create_dir_all(&hidden).expect("a folder");
    std::fs::rename(&debug.path, hidden.join("objects.debug")).expect("moved");
    assert_eq!(compare_with(&stripped, &program, options(&hidden)).debug_files, 1);
}

#[test]
fn a_debug_file_of_another_program_is_refused() {
    test_needs::programs!("g++", "objcopy");
    let program = Program::compile("wrong", "objects.cpp", &["-g", "-O2", "-Wl,--build-id=none"]);
    let debug = program.copy("objects.debug", &["--only-keep-debug"]);
    let stripped = program.copy("stripped", &["--strip-all", &link(&debug.path)]);
    let mut bytes = std::fs::read(&debug.path).expect("a file");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&debug.path, bytes).expect("written");

    let addresses = program.addresses(".text");
    let (_, stats) = ours(&stripped.module(), &addresses, options(&debug.path));
    assert_eq!((stats.debug_files, stats.debug_files_missing, stats.lines), (0, 1, 0), "{stats:?}");
}

#[test]
fn a_debug_file_by_build_id() {
    test_needs::programs!("g++", "objcopy", "nm", "llvm-symbolizer", "addr2line");
    let program = Program::compile("build-id", "objects.cpp", &["-g", "-O2", "-Wl,--build-id=sha1"]);
    let stripped = program.copy("stripped", &["--strip-all"]);
    let id = program.elf().build_id().expect("a build id");
    let (first, rest) = id.split_first().expect("bytes");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let folder = program.path.with_file_name(".build-id").join(hex(&[*first]));
    std::fs::create_dir_all(&folder).expect("a folder");
    let debug = format!("{}.debug", hex(rest));
    run("binutils", "objcopy", &["--only-keep-debug", text(&program.path), text(&folder.join(&debug))]);
    assert_eq!(compare_with(&stripped, &program, options(&program.path)).debug_files, 1);
}

#[test]
#[ignore = "needs dwz, of package dwz"]
fn what_two_programs_have_in_common() {
    test_needs::programs!("g++", "objcopy", "dwz", "nm", "llvm-symbolizer", "addr2line");
    let one = Program::compile("common-1", "objects.cpp", &["-g", "-O2"]);
    let two = Program::compile("common-2", "objects.cpp", &["-g", "-O1"]);
    let [smaller, other] = [one.copy("smaller", &[]), two.copy("other", &[])];
    let common = one.path.with_file_name("common.debug");
    run("dwz", "dwz", &["-m", text(&common), "-r", text(&smaller.path), text(&other.path)]);
    assert!(smaller.elf().section(".gnu_debugaltlink").is_some());
    // LLVM doesn't read such files, so it is asked about the program as it was. binutils does.
    assert_eq!(compare_with(&smaller, &one, options(&one.path)).debug_files, 1);

    std::fs::remove_file(&common).expect("removed");
    let addresses = smaller.addresses(".text");
    let (_, stats) = ours(&smaller.module(), &addresses, options(&one.path));
    assert!(stats.debug_files_missing == 1 && stats.lines > 0 && stats.inlined > 0, "{stats:?}");
}

fn link(debug: &Path) -> String {
    format!("--add-gnu-debuglink={}", text(debug))
}

/// Returns options that search debug files in the folder of this path only.
fn options(path: &Path) -> SymbolOptions {
    let mut options = SymbolOptions::default();
    options.debug_folders = vec![path.parent().expect("a folder").to_owned()];
    options
}

fn compare(program: &Program) {
    compare_with(program, program, SymbolOptions::default());
}

/// Compares our results for `program` with the tools' results for `whole`.
fn compare_with(program: &Program, whole: &Program, options: SymbolOptions) -> SymbolStats {
    let addresses = program.addresses(".text");
    let (found, stats) = ours(&program.module(), &addresses, options);
    assert_eq!((stats.malformed, stats.units_skipped), (0, 0), "{stats:?}");
    let found: Vec<Vec<Function>> =
        found.iter().map(|functions| functions.iter().map(Function::from).collect()).collect();
    println!("{} addresses, {stats:?}", addresses.len());

    let aliases = Aliases::read(whole);
    let one_name = |mut functions: Vec<Function>| {
        functions.last_mut().into_iter().for_each(|outer| outer.name = aliases.first(&outer.name));
        functions
    };
    let mine: Vec<_> = found.iter().cloned().map(one_name).collect();
    let llvm: Vec<_> = llvm(whole, &addresses).into_iter().map(without_guesses).map(one_name).collect();
    assert_same("llvm", &addresses, &mine, &llvm);

    let lines = |answers: &[Vec<Function>]| -> Vec<Vec<u32>> {
        let lines = |functions: &Vec<Function>| functions.iter().map(|function| function.line).collect();
        answers
            .iter()
            .zip(&found)
            .filter(|(_, found)| has_line(found))
            .map(|(answer, _)| lines(answer))
            .collect()
    };
    let with_line: Vec<u64> = addresses
        .iter()
        .zip(&found)
        .filter(|(_, found)| has_line(found))
        .map(|(address, _)| *address)
        .collect();
    assert_same("binutils", &with_line, &lines(&found), &lines(&binutils(whole, &addresses)));
    stats
}

fn has_line(functions: &[Function]) -> bool {
    functions.first().is_some_and(|function| function.line != 0)
}

/// The names of each address.
struct Aliases(HashMap<String, String>);

impl Aliases {
    fn read(program: &Program) -> Aliases {
        let listed = run("binutils", "nm", &["--numeric-sort", text(&program.path)]);
        let mut first_at: HashMap<&str, &str> = HashMap::new();
        let mut names = HashMap::new();
        for line in listed.lines() {
            let mut words = line.split_whitespace();
            if let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
                && "tTwWiu".contains(kind)
            {
                let first = first_at.entry(address).or_insert(name);
                names.insert(name.to_owned(), (*first).to_owned());
            }
        }
        Aliases(names)
    }

    fn first(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

/// Removes the file names that LLVM takes from the symbol table, and functions without any data.
fn without_guesses(mut functions: Vec<Function>) -> Vec<Function> {
    if let [only] = &mut functions[..]
        && only.line == 0
        && !only.file.starts_with('/')
    {
        only.file.clear();
    }
    functions.retain(|function| !function.name.is_empty());
    functions
}

/// Returns LLVM's functions at each address, innermost first.
fn llvm(program: &Program, addresses: &[u64]) -> Vec<Vec<Function>> {
    let object = format!("--obj={}", text(&program.path));
    let arguments = ["--no-demangle", "--inlines", &object];
    let output = run_with("llvm", "llvm-symbolizer", &arguments, &input(addresses));
    let answer = |block: &str| {
        let lines: Vec<&str> = block.lines().collect();
        let without_column = |place: &str| place.rsplit_once(':').expect("file:line:column").0.to_owned();
        lines.chunks_exact(2).map(|pair| function(pair[0], &without_column(pair[1]))).collect()
    };
    output.trim_end().split("\n\n").map(answer).collect()
}

/// Returns binutils' functions at each address, innermost first.
fn binutils(program: &Program, addresses: &[u64]) -> Vec<Vec<Function>> {
    let arguments = ["-a", "-i", "-f", "-e", text(&program.path)];
    let output = run_with("binutils", "addr2line", &arguments, &input(addresses));
    let mut answers: Vec<Vec<Function>> = Vec::new();
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
        } else if let Some(answer) = answers.last_mut() {
            answer.push(function(line, lines.next().expect("a place")));
        }
    }
    answers
}

fn input(addresses: &[u64]) -> String {
    addresses.iter().map(|address| format!("{address:#x}\n")).collect()
}

fn function(name: &str, place: &str) -> Function {
    let place = place.split(" (discriminator").next().unwrap_or_default();
    let (file, line) = place.rsplit_once(':').expect("file:line");
    let known = |text: &str| if text == "??" { String::new() } else { text.to_owned() };
    Function { name: known(name), file: known(file), line: line.parse().unwrap_or(0) }
}

/// Fails at the first difference and shows it.
fn assert_same<T: PartialEq + std::fmt::Debug>(what: &str, addresses: &[u64], ours: &[T], theirs: &[T]) {
    assert_eq!(ours.len(), theirs.len(), "{what}: answers");
    let rows = addresses.iter().zip(ours).zip(theirs);
    let differing: Vec<_> = rows.filter(|((_, ours), theirs)| ours != theirs).collect();
    for ((address, ours), theirs) in differing.iter().take(4) {
        println!("{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}");
    }
    assert!(differing.is_empty(), "{what}: {} of {} addresses differ", differing.len(), addresses.len());
}
