//! The option `--on`.

use ebpf_profiler_core::live::Trigger;

use crate::Options;
use crate::print::fail_with;

/// Returns the triggers of `--on`. After an invalid one it ends the program.
pub fn triggers(options: &Options) -> Vec<Trigger> {
    let parse = |text: &String| text.parse().unwrap_or_else(|error| fail_with(2, format!("--on: {error}")));
    options.all::<String>("on").iter().map(parse).collect()
}

/// Prints the forms of triggers and ends the program, after `--on help`.
pub fn print_triggers_on_request(options: &Options) {
    if options.all::<String>("on").iter().any(|text| text == "help") {
        let line = |(form, meaning): &(&str, &str)| format!("  {form:<36} {meaning}\n");
        crate::print(format_args!("{}", Trigger::FORMS.iter().map(line).collect::<String>()));
        std::process::exit(0);
    }
}
