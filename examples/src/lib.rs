//! Code shared by the example programs.

mod broker;

mod budget;

mod by;

mod core_file;

mod engine;

mod filter;

mod memory;

mod options;

mod print;

mod privacy;

mod privilege;

mod progress;

mod recorded_stack;

mod report;

mod reservation;

mod signal;

pub mod toy;

mod trigger;

pub use broker::{broker, describe_broker, separate};
pub use budget::{budget, describe_budget};
pub use by::By;
pub use core_file::{Call, CoreFile, Stack};
pub use engine::Engine;
pub use filter::filter;
pub use memory::give_back;
pub use options::{Options, Usage};
pub use print::{fail, print, say, show};
pub use privacy::{Privacy, Redacted};
pub use privilege::explain_start_error;
pub use progress::Progress;
pub use recorded_stack::RecordedStack;
pub use report::{Reporter, describe_deadline};
pub use reservation::{describe_reservation, reservation};
pub use signal::{Signals, interrupted, notice_interrupts, sleep_until_interrupted};
pub use trigger::{print_triggers_on_request, triggers};

/// Programs of the README, compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Programs of the manual, with all crates that they name.
#[cfg(doctest)]
mod manual {
    macro_rules! pages {
        ($($page:ident $file:literal)+) => {
            $(#[doc = include_str!(concat!("../../ebpf-profiler-core/src/manual/", $file))] struct $page;)+
        };
    }

    pages! {
        HowItWorks "how_it_works.md"
        Events "events.md"
        Runtimes "runtimes.md"
        Losses "losses.md"
        Security "security.md"
        Agent "agent.md"
        Unwinding "unwinding.md"
        InsteadOfPprofRs "instead_of_pprof_rs.md"
    }
}
