//! The option for the cost of profiling.

use ebpf_profiler_core::live::{Budget, Health};

use crate::Options;
use crate::print::fail_with;

/// Returns the budget of `--budget`. After an invalid one it ends the program.
pub fn budget(options: &Options) -> Option<Budget> {
    let text: String = options.one("budget")?;
    Some(text.parse().unwrap_or_else(|error| fail_with(2, format!("--budget: {error}"))))
}

/// Returns the cost and the periods in one line: `cost 0.31 % of 0.50 %; malloc every 65536`.
/// `None` without a budget.
pub fn describe_budget(health: &Health) -> Option<String> {
    let budget = health.budget.as_ref()?;
    let mut text = format!("cost {:.2} % of {:.2} %", 100.0 * budget.cost, 100.0 * budget.share);
    for kind in budget.kinds.iter().filter(|kind| kind.period > 0) {
        text += &format!("; {} every {}", kind.name, kind.period);
    }
    if budget.is_exceeded {
        text += "; events that are not sampled exceed the budget";
    }
    Some(text)
}
