//! Options that select samples.

use ebpf_profiler_core::live::Filter;

use crate::Options;
use crate::print::fail_with;

/// Returns the filter of `--cgroup`, `--command`, `--thread`, `--cpu` and `--only`. After an
/// invalid one it ends the program.
pub fn filter(options: &Options) -> Filter {
    let mut filter = Filter::new();
    for path in options.all::<String>("cgroup") {
        filter = filter.cgroup(path);
    }
    for pattern in options.all::<String>("command") {
        filter = filter.command(pattern);
    }
    for pattern in options.all::<String>("thread") {
        filter = filter.thread(pattern);
    }
    for text in options.all::<String>("cpu") {
        let cpus = cpus(&text);
        let cpus = cpus
            .unwrap_or_else(|| fail_with(2, format!("--cpu cannot be {text:?}; give a list such as 0,2-5")));
        filter = cpus.into_iter().fold(filter, Filter::cpu);
    }
    for code in options.all::<String>("only") {
        filter = match code.as_str() {
            "user" => filter.user_code(),
            "kernel" => filter.kernel_code(),
            _ => fail_with(2, format!("--only cannot be {code:?}; choose user or kernel")),
        };
    }
    filter
}

/// Parses a list of numbers and ranges.
fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u16>().ok()?, to.trim().parse::<u16>().ok()?);
        if from > to {
            return None;
        }
        cpus.extend(u32::from(from)..=u32::from(to));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::cpus;

    #[test]
    fn lists_of_cpus_are_parsed() {
        assert_eq!(cpus("0,2-4").unwrap(), [0, 2, 3, 4]);
        assert_eq!(cpus("7").unwrap(), [7]);
        for text in ["", "a", "3-1", "1-", "-1", "70000", "1,,2"] {
            assert!(cpus(text).is_none(), "{text:?}");
        }
    }
}
