//! What a profiler needs of this machine, what there is, and how to get what is missing.
//!
//! ```text
//! cargo run --release --bin explain
//! ```

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Requirement, State, requirements};
use examples::{Options, Usage, explain_start_error, print};

const USAGE: Usage = Usage {
    about: "explain: what a profiler needs of this machine, and what there is",
    options: &[],
    words: "",
};

fn main() {
    Options::parse(USAGE);
    let requirements = requirements();
    for requirement in &requirements {
        let mark = match requirement.state {
            State::There => "ok",
            State::Limited => "less",
            _ => "MISSING",
        };
        let Requirement { what, found, advice, .. } = requirement;
        print(format_args!("{mark:<8} {what:<20} {found:<24} {advice}\n"));
    }
    match Profiler::builder().start() {
        Ok(profiler) => {
            drop(profiler);
            print("\na profiler starts here\n");
        }
        Err(error) => {
            print(format_args!("\na profiler doesn't start here: {}\n", explain_start_error(&error)));
            std::process::exit(1);
        }
    }
}
