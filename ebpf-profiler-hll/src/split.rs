//! The parts of a function: compilers move what is seldom run away from the rest.
//!
//! ```text
//!   _PyEval_EvalFrameDefault        …   je  ─────┐
//!                                                │  its unwind rules begin with a frame that is set up already
//!   _PyEval_EvalFrameDefault.cold   …   ◄────────┘
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::interpreter::LOOPS;

use crate::code;
use crate::fde::Fdes;

/// The main part of a function, and those that it jumps to.
pub(crate) fn parts(elf: &Elf, main: Range<u64>) -> Vec<Range<u64>> {
    let fdes = Fdes::of(elf);
    let main = match fdes.as_ref().and_then(|fdes| fdes.at(main.start)) {
        // A symbol may have no size.
        Some(fde) if main.is_empty() => fde.range,
        _ => main,
    };
    let mut parts = vec![main.clone()];
    let Some(fdes) = fdes else { return parts };
    for target in code::jumps(elf, &main) {
        if parts.len() == LOOPS || parts.iter().any(|part| part.contains(&target)) {
            continue;
        }
        if let Some(fde) = fdes.at(target).filter(|fde| fde.goes_on) {
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
    fn the_parts_of_functions_are_what_the_compiler_made_of_them() {
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
                let made: Vec<_> = symbols.get(name).into_iter().chain(cold).cloned().collect();
                assert_eq!(parts(&elf, made[0].clone()), made, "{compiler} {optimize} {name}");
                // A symbol may have no size.
                assert_eq!(parts(&elf, made[0].start..made[0].start), made, "{compiler} {optimize} {name}");
            }
            assert!(
                optimize.contains("-Os") || symbols.contains_key("split.cold"),
                "{compiler} {optimize}: nothing was split"
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
