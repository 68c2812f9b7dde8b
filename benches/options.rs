//! Options of a bench: `--name value` only.

use std::str::FromStr;

/// Returns the value of `--name` in the command line, or `otherwise`. An invalid value ends the
/// program.
pub fn option<T: FromStr>(name: &str, otherwise: T) -> T {
    let mut words = std::env::args().skip_while(|word| word.strip_prefix("--") != Some(name)).skip(1);
    let Some(word) = words.next() else { return otherwise };
    word.parse().unwrap_or_else(|_| {
        eprintln!("--{name} has no valid value: {word:?}");
        std::process::exit(2)
    })
}

/// Ends the program with advice unless it runs as root.
pub fn want_root(bench: &str) {
    // SAFETY: the call has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("{bench} loads programs into the kernel and must run as root:");
        eprintln!("    sudo -E env \"PATH=$PATH\" cargo bench -p benches --bench {bench}");
        std::process::exit(1);
    }
}
