//! The parts of a function: compilers move rarely executed code into a separate cold part.
//!
//! ```text
//!   _PyEval_EvalFrameDefault        …   je  ─────┐
//!                                                │  its unwind rules begin with a frame that is set up already
//!   _PyEval_EvalFrameDefault.cold   …   ◄────────┘
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::MAX_RANGES;

use crate::accessor;
use crate::fde::Fdes;

/// Returns the address ranges of a function: the main part and the cold parts that it jumps to, at
/// most [`MAX_RANGES`].
pub(crate) fn parts(elf: &Elf, main: Range<u64>) -> Vec<Range<u64>> {
    let fdes = Fdes::open(elf);
    let main = match fdes.as_ref().and_then(|fdes| fdes.at(main.start)) {
        // A symbol may have no size.
        Some(fde) if main.is_empty() => fde.range,
        _ => main,
    };
    let mut parts = vec![main.clone()];
    let Some(fdes) = fdes else { return parts };
    for target in accessor::jumps(elf, &main) {
        if parts.len() == MAX_RANGES || parts.iter().any(|part| part.contains(&target)) {
            continue;
        }
        if let Some(fde) = fdes.at(target).filter(|fde| fde.continues_frame) {
            parts.push(fde.range);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "needs gcc, and gcc for arm64"]
    fn finds_cold_parts_that_compilers_split_off() {
        test_needs::programs!("gcc", "aarch64-linux-gnu-gcc");
        let options = ["-O2", "-Os", "-O3", "-O2 -fno-omit-frame-pointer", "-O2 -fno-pie -no-pie"]
            .map(|options| format!("{options} -freorder-blocks-and-partition"));
        let compilers = ["gcc", "aarch64-linux-gnu-gcc"];
        for (compiler, optimize) in
            compilers.iter().flat_map(|it| options.iter().map(move |options| (it, options)))
        {
            let program = build(compiler, optimize);
            let elf = Elf::open(std::fs::File::open(&program).unwrap()).unwrap();
            let mut symbols = std::collections::HashMap::new();
            elf.for_each_symbol(|name, it| {
                symbols.insert(String::from_utf8_lossy(name).into_owned(), it.address..it.address + it.size);
            });
            for name in ["split", "whole", "jumps"] {
                let cold = symbols.get(&format!("{name}.cold"));
                let expected: Vec<_> = symbols.get(name).into_iter().chain(cold).cloned().collect();
                assert_eq!(parts(&elf, expected[0].clone()), expected, "{compiler} {optimize} {name}");
                // A symbol may have no size.
                assert_eq!(
                    parts(&elf, expected[0].start..expected[0].start),
                    expected,
                    "{compiler} {optimize} {name}"
                );
            }
            assert!(
                optimize.contains("-Os") || symbols.contains_key("split.cold"),
                "{compiler} {optimize}: split has no cold part"
            );
            std::fs::remove_file(program).unwrap();
        }
    }

    fn build(compiler: &str, optimize: &str) -> PathBuf {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/split.c");
        let program = std::env::temp_dir().join(format!("split-{}", std::process::id()));
        let mut command = Command::new(compiler);
        let command = command.args(optimize.split(' ')).arg(source).arg("-o").arg(&program);
        assert!(command.status().unwrap().success());
        program
    }
}
