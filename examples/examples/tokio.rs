//! A tokio program that receives profiles through a channel, changes the frequency, and stops.
//!
//! ```text
//! cargo run --release -p examples --example tokio
//! ```
//!
//! The profiler has its own threads, so the runtime needs only one. Calls that wait for those
//! threads (`start`, `set_frequency`, `stop`) run in `spawn_blocking`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use examples::{explain_start_error, fail, print};
use tokio::sync::mpsc::channel;
use tokio::task::spawn_blocking;

/// Profiles before the frequency is changed, and in all.
const PROFILES: (u32, u32) = (2, 4);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap_or_else(|error| fail(error));
    runtime.block_on(run()).unwrap_or_else(|error| fail(error));
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (sender, mut profiles) = channel(8);
    let builder = Profiler::builder()
        .frequency(19)
        .unwind(ebpf_profiler_unwind::tables())
        .every(Duration::from_secs(1))
        .deadline(Duration::from_secs(2))
        // Waits if the channel is full: the sink has its own thread, and drops its oldest profiles meanwhile.
        .sink(move |profile: &Profile| Ok(sender.blocking_send(profile.clone())?));
    let profiler =
        spawn_blocking(|| builder.start()).await?.unwrap_or_else(|error| fail(explain_start_error(&error)));
    let profiler = Arc::new(profiler);

    let mut received = 0;
    while received < PROFILES.1
        && let Some(profile) = profiles.recv().await
    {
        show(&profile);
        received += 1;
        if received == PROFILES.0 {
            let profiler = profiler.clone();
            // The profile that this ends reaches the channel, too.
            spawn_blocking(move || profiler.set_frequency(199)).await??;
        }
    }

    let health = spawn_blocking(move || Arc::into_inner(profiler).map(Profiler::stop)).await?;
    // The sender is gone, so this ends with the last profile.
    while let Some(profile) = profiles.recv().await {
        show(&profile);
    }
    if let Some(health) = health.transpose()? {
        let (samples, lost, dropped) = (health.ticks, health.lost, health.sinks.dropped);
        print(format_args!("{samples} samples, {lost} lost, {dropped} profiles dropped\n"));
    }
    Ok(())
}

fn show(profile: &Profile) {
    let hertz = 1.0 / profile.period().as_secs_f64();
    let hottest = profile.samples().max_by_key(|sample| sample.count());
    let hottest = hottest.map_or_else(String::new, |sample| format!(", most in {}", sample.trace().leaf()));
    print(format_args!("{hertz:.0} Hz: {}{hottest}\n", profile.summary()));
}
