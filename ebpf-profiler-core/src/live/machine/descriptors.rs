//! The file descriptors of this process, and their use.
//!
//! | descriptors | for |
//! | --- | --- |
//! | half of the limit, 64 to 8,192 | code files that stay open until their names were read |
//! | the other half | the embedding program, perf events (three for each CPU), maps, recordings |

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that is wanted.
const WANTED: u64 = 16_384;

/// The limit if it is not known.
const UNKNOWN: u64 = 1024;

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) as far as the hard one permits. Returns
/// the number of code files that may stay open.
pub(in crate::live) fn prepare() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: Some(raised(limit.current, limit.maximum)), ..limit };
    let is_raised = raised.current == limit.current || setrlimit(Resource::Nofile, raised).is_ok();
    let limit = if is_raised { raised.current } else { limit.current };
    files(limit.unwrap_or(UNKNOWN))
}

/// Returns the new soft limit; `None` is no limit.
fn raised(current: Option<u64>, maximum: Option<u64>) -> u64 {
    let current = current.unwrap_or(u64::MAX);
    current.max(WANTED.min(maximum.unwrap_or(u64::MAX)))
}

/// Returns the number of code files that may stay open under a limit.
fn files(limit: u64) -> usize {
    (limit / 2).clamp(64, 8192) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_within_the_hard_one_and_never_lowered() {
        assert_eq!(raised(Some(1024), Some(524_288)), WANTED);
        assert_eq!(raised(Some(1024), Some(4096)), 4096);
        assert_eq!(raised(Some(65_536), Some(65_536)), 65_536);
        assert_eq!(raised(Some(1024), None), WANTED);
        assert_eq!(raised(None, None), u64::MAX);
    }

    #[test]
    fn half_of_the_limit_is_for_code_files() {
        assert_eq!([0, 1024, WANTED, u64::MAX].map(files), [64, 512, 8192, 8192]);
    }
}
