//! The option `--on`.

use ebpf_profiler_core::live::Trigger;

use crate::Options;
use crate::print::fail_with;

/// Returns the triggers of `--on`. After an invalid one it ends the program.
pub fn triggers(options: &Options) -> Vec<Trigger> {
    let parse = |text: &String| text.parse().unwrap_or_else(|error| fail_with(2, format!("--on: {error}")));
    options.all::<String>("on").iter().map(parse).collect()
}

/// Prints the forms of triggers, with what this machine lacks for them, and ends the program, after
/// `--on help`.
pub fn print_triggers_on_request(options: &Options) {
    if options.all::<String>("on").iter().any(|text| text == "help") {
        let line = |(form, meaning): &(&str, &str)| {
            let reason =
                Trigger::missing(form).map(|reason| format!("  {:36} not on this machine: {reason}\n", ""));
            format!("  {form:<36} {meaning}\n{}", reason.unwrap_or_default())
        };
        crate::print(format_args!("{}", Trigger::FORMS.iter().map(line).collect::<String>()));
        std::process::exit(0);
    }
}
