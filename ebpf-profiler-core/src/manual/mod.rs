//! The manual: pages on the profiler as a whole, in the order in which a new user needs them.
//!
//! | page | question |
//! | --- | --- |
//! | [`how_it_works`] | How does a stack become a name in a profile? |
//! | [`events`] | Which events can be sampled besides the CPU's clock, and what do their values mean? |
//! | [`runtimes`] | Which languages have names, from which sample on, and what is needed? |
//! | [`losses`] | What does a stop reason, a counter or a mark mean, and what is to be done? |
//! | [`cost`] | What does a sample, a name and a profiler cost? |
//! | [`security`] | Who can harm whom, which bounds are there, which capabilities are needed? |
//! | [`agent`] | How does a profiler run for months? |
//! | [`unwinding`] | How are stacks unwound without the profiler: core dumps, recorded stacks, tables? |
//! | [`instead_of_pprof_rs`] | How does a program profile itself, without a signal handler? |
//!
//! The programs on these pages are compiled, and run where they need no privilege, with all crates
//! of the family.

macro_rules! pages {
    ($($(#[doc = $title:literal])+ $page:ident $file:literal;)+) => {
        $(
            $(#[doc = $title])+
            ///
            // Its programs name crates that this one doesn't depend on: `examples` tests them.
            #[cfg_attr(not(doctest), doc = include_str!($file))]
            pub mod $page {}
        )+
    };
}

pages! {
    /// From a tick of a CPU's clock to a name in a profile.
    how_it_works "how_it_works.md";
    /// Events at which samples are taken, and the values of samples.
    events "events.md";
    /// Languages, JIT compilers and their names.
    runtimes "runtimes.md";
    /// Losses, stop reasons and marks of frames: what each means, and what to do.
    losses "losses.md";
    /// Measured cost of samples, names and profilers.
    cost "cost.md";
    /// Trust, privileges and bounds.
    security "security.md";
    /// A profiler that runs for months.
    agent "agent.md";
    /// Unwind tables and walks without the profiler.
    unwinding "unwinding.md";
    /// A program that profiles itself.
    instead_of_pprof_rs "instead_of_pprof_rs.md";
}
