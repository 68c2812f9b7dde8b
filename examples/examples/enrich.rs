//! CPU time by the name and the image of containers, which Docker or podman tells by its socket.
//!
//! ```text
//! sudo target/release/examples/enrich /var/run/docker.sock
//! ```

use std::error::Error;
use std::time::Duration;

use ebpf_profiler_core::live::Enrichment;
use ebpf_profiler_core::profile::{Process, Sample};
use ebpf_profiler_core::{Health, Profiler};
use examples::{Engine, explain_start_error, fail, print, say};

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).unwrap_or_else(|| "/var/run/docker.sock".into());
    let engine = Engine::new(socket);
    let hook = move |process: &Process| match process.container.is_empty() {
        true => Enrichment::new(),
        false => match engine.container(&process.container) {
            Ok((name, image)) => {
                Enrichment::new().attribute("container.name", &name).attribute("container.image.name", &image)
            }
            Err(error) => {
                say(format_args!("container {}: {error}", process.container));
                Enrichment::new()
            }
        },
    };
    let profiler = Profiler::builder()
        .frequency(97)
        .unwind(ebpf_profiler_unwind::tables())
        .enrich(hook)
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    std::thread::sleep(Duration::from_secs(5));
    let (profile, health) = profiler.finish()?;
    for (name, part) in profile.group_by(name) {
        print(format_args!("{:>8} samples  {name}\n", part.count()));
    }
    report(&health);
    Ok(())
}

fn name(sample: Sample<'_>) -> String {
    let process = sample.process();
    match &*process.container {
        "" => "host".into(),
        id => process.attributes.iter().fold(id.into(), |name, (_, value)| format!("{name} {value}")),
    }
}

fn report(health: &Health) {
    if let Some(hook) = &health.enrichment {
        say(format_args!("{} processes asked about, {} answers late", hook.calls, hook.late));
    }
}
