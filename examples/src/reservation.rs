//! The option for reserved CPU time.

use ebpf_profiler_core::live::{Health, Reservation, ReservedBy};

use crate::Options;
use crate::print::fail_with;

/// Returns the reservation of `--reserve`, or one of `default` percent of all CPUs; `None` for
/// `none`. After an invalid one it ends the program.
pub fn reservation(options: &Options, default: &str) -> Option<Reservation> {
    let text: String = options.get("reserve", default.to_owned());
    if text == "none" {
        return None;
    }
    let percent: Option<f64> = text.strip_suffix('%').and_then(|percent| percent.trim().parse().ok());
    let percent = percent.unwrap_or_else(|| {
        fail_with(2, format!("--reserve cannot be {text:?}; give a share such as 10%, or none"))
    });
    Some(Reservation::cpu(percent / 100.0))
}

/// Returns the policy in one line if threads needed the reservation. `None` if they did not, and
/// without one.
pub fn describe_reservation(health: &Health) -> Option<String> {
    let reservation = health.reservation.filter(|reservation| reservation.grants > 0)?;
    let percent = 100.0 * reservation.share;
    Some(match reservation.policy {
        ReservedBy::Deadline => format!("CPUs are scarce: used the reserved {percent} % of them"),
        ReservedBy::RoundRobin => format!("CPUs are scarce: used up to {percent} % of them with SCHED_RR"),
        _ => "CPUs are scarce, and none are reserved: CAP_SYS_NICE is missing, or the control group permits no real-time threads \
              (cpu.rt_runtime_us)"
            .to_owned(),
    })
}
