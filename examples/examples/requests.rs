//! Requests of a tokio server in a profile of the server itself: each has labels, in whatever
//! thread it is polled.
//!
//! ```text
//! sudo target/release/examples/requests
//! ```
//!
//! Prints the CPU time of each request, some 100, 200 and 300 ms.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::label::WithLabels;
use ebpf_profiler_core::profile::Labels;
use examples::{explain_start_error, fail, print};

fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder()
        .frequency(997)
        .pid(std::process::id())
        .unwind(ebpf_profiler_unwind::tables())
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let requests = [(1, "red"), (2, "blue"), (3, "red")].map(|(request, tenant)| {
            let labels = Labels::from([("tenant", tenant)]).and(&Labels::from([("request", request)]));
            tokio::spawn(handle(request).with_labels(labels))
        });
        for request in requests {
            request.await?;
        }
        Ok::<(), tokio::task::JoinError>(())
    })?;

    let (profile, _) = profiler.finish()?;
    let mut times: BTreeMap<String, Duration> = BTreeMap::new();
    for sample in profile.samples().filter(|sample| !sample.labels().is_empty()) {
        let labels = sample.labels().iter().map(|label| format!("{}={}", label.key(), label.value()));
        let time = profile.period().mul_f64(sample.value() as f64);
        *times.entry(labels.collect::<Vec<_>>().join(" ")).or_default() += time;
    }
    for (labels, time) in times {
        print(format_args!("{labels:<22} {:>5} ms\n", time.as_millis()));
    }
    Ok(())
}

/// Works for a tenth of a second for each unit, in turns with the other requests.
async fn handle(units: i64) {
    for _ in 0..units * 100 {
        let end = Instant::now() + Duration::from_millis(1);
        while Instant::now() < end {}
        tokio::task::yield_now().await;
    }
}
