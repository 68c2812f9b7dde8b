//! `cargo xtask object`: the compiled kernel program.

use crate::run::Outcome;

/// Rebuilds it, or with `--check` compares a fresh build with the one in the repository.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    match arguments {
        [] => rebuild(),
        [check] if check == "--check" => compare(),
        _ => Err("takes nothing or --check".to_owned()),
    }
}

/// The place for the build: `ebpf-programs` with its kernel feature, for the BPF target.
fn rebuild() -> Outcome {
    Err("there is no kernel program yet".to_owned())
}

/// Byte for byte where the toolchain is the recorded one; where it is another, says so and tests the fresh build.
fn compare() -> Outcome {
    eprintln!("there is no kernel program yet: nothing to compare");
    Ok(())
}
