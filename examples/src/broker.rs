//! The options that separate privileges.

use ebpf_profiler_core::live::{Broker, Builder, Health};

use crate::{Options, fail};

/// Returns the broker of `--broker`, and drops its privileges from this program, which must not have other
/// threads yet.
pub fn broker(options: &Options) -> Option<Broker> {
    let start = || {
        let broker = Broker::spawn()?;
        broker.drop_privileges()?;
        Ok::<_, std::io::Error>(broker)
    };
    options.has("broker").then(|| start().unwrap_or_else(|error| fail(format!("no broker: {error}"))))
}

/// Applies `--broker` and `--confine`.
pub fn separate(options: &Options, broker: Option<&Broker>, mut profiler: Builder) -> Builder {
    if let Some(broker) = broker {
        profiler = profiler.broker(broker);
    }
    if options.has("confine") {
        profiler = profiler.confine_threads();
    }
    profiler
}

/// Returns a line on a broker that has ended.
pub fn describe_broker(health: &Health) -> Option<String> {
    let broker = health.broker.as_ref().filter(|broker| !broker.is_running)?;
    let unanswered = broker.unanswered;
    Some(format!(
        "the broker has ended: {unanswered} requests failed, and programs of other users have fewer names"
    ))
}
