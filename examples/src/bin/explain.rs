//! Lists the requirements of a profiler, and how to meet missing ones.
//!
//! ```text
//! cargo run --release --bin explain
//! ```

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Requirement, State, requirements};
use examples::{Options, Usage, explain_start_error, print};

const USAGE: Usage = Usage {
    about: "explain: lists the requirements of a profiler on this machine",
    options: &[],
    arguments: "",
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
        let (Requirement { what, found, .. }, advice) = (requirement, requirement.advice());
        print(format_args!("{mark:<8} {what:<20} {found:<24} {advice}\n"));
    }
    match Profiler::builder().unwind(ebpf_profiler_unwind::tables()).start() {
        Ok(profiler) => {
            drop(profiler);
            print("\na profiler starts here\n");
        }
        Err(error) => {
            print(format_args!("\na profiler does not start here: {}\n", explain_start_error(&error)));
            std::process::exit(1);
        }
    }
}
