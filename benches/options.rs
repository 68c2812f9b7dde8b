//! Options of a bench: `--name value`, and nothing else.

use std::str::FromStr;

/// The value of `--name` among the program's arguments, or `otherwise`. Ends the program when it makes no sense.
pub fn option<T: FromStr>(name: &str, otherwise: T) -> T {
    let mut words = std::env::args().skip_while(|word| word.strip_prefix("--") != Some(name)).skip(1);
    let Some(word) = words.next() else { return otherwise };
    word.parse().unwrap_or_else(|_| {
        eprintln!("--{name} wants a number, not {word:?}");
        std::process::exit(2)
    })
}

/// Ends the program with advice, unless it runs as root.
pub fn want_root(bench: &str) {
    // SAFETY: the call has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("{bench} loads programs into the kernel and must run as root:");
        eprintln!("    sudo -E env \"PATH=$PATH\" cargo bench -p benches --bench {bench}");
        std::process::exit(1);
    }
}
