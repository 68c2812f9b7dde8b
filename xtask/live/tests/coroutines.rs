//! Stacks of coroutines: they are whole, and end where their own stack, or slice of a stack, does.

use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::trace::Stop;

use live_suite::compile;
use live_suite::process::Process;

#[test]
#[ignore = "profiles: needs root"]
fn stacks_of_coroutines_end_at_their_base() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = compile::program(
        "coroutines",
        "programs/coroutines.c",
        &["-O1", "-g", "-fno-optimize-sibling-calls"],
    );
    for (kind, body) in [("ucontext", "ucontext_body"), ("fcontext", "fcontext_body")] {
        let running = Process::start(Command::new(&program).arg(kind));
        let profiler = Profiler::builder()
            .deadline(Duration::from_secs(120))
            .frequency(499)
            .pid(running.id())
            .unwind(ebpf_profiler_unwind::tables())
            .start()
            .unwrap();
        let profile = profiler.run_for(Duration::from_secs(2)).unwrap();
        let (mut all, mut right) = (0, 0);
        for sample in profile.samples() {
            let names: Vec<String> = sample.trace().calls().map(|call| call.to_string()).collect();
            let Some(at) = names.iter().position(|name| name == "inner") else { continue };
            all += sample.count();
            if sample.trace().stop() == Stop::Coroutine && at == 2 && names[1] == body {
                right += sample.count();
            } else {
                println!("{kind}: {} {:?} {names:?}", sample.count(), sample.trace().stop());
            }
        }
        println!("{kind}: {right} of {all} stacks are whole");
        assert!(all >= 200 && right * 1000 >= all * 995, "{kind}: {right} of {all}");
    }
}
