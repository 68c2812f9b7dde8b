//! What a profiler needs of this machine, what there is, and how to get what is missing.
//!
//! ```text
//! cargo run --release --bin explain
//! ```

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{State, requirements};
use examples::{Options, Usage, explain_start_error};

const USAGE: Usage = Usage {
    about: "explain: what a profiler needs of this machine, and what there is",
    options: &[],
    words: "",
};

#[expect(clippy::print_stdout, reason = "the program's result")]
fn main() {
    Options::parse(USAGE);
    let requirements = requirements();
    for requirement in &requirements {
        let mark = match requirement.state {
            State::There => "ok",
            State::Limited => "less",
            _ => "MISSING",
        };
        println!("{mark:<8} {:<20} {:<24} {}", requirement.what, requirement.found, requirement.advice);
    }
    println!();
    match Profiler::builder().start() {
        Ok(profiler) => {
            drop(profiler);
            println!("a profiler starts here");
        }
        Err(error) => {
            println!("a profiler doesn't start here: {}", explain_start_error(&error));
            std::process::exit(1);
        }
    }
}
