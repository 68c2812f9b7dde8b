//! The processes that are profiled.

use std::collections::BTreeSet;

/// The processes that a profiler samples: all of the machine, or some and what they fork.
///
/// An empty set samples nobody.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::process::Pids;
///
/// assert!(Pids::All.contains(7));
/// assert!(Pids::from([7, 8]).contains(7));
/// assert!(!Pids::none().contains(7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pids {
    /// All processes of the machine.
    #[default]
    All,
    /// The processes with these ids, and their descendants from then on.
    Only(BTreeSet<u32>),
}

/// An id that no process has: the highest one of Linux is 4,194,304.
const NO_PID: u32 = u32::MAX;

impl Pids {
    /// Returns the empty set.
    pub fn none() -> Pids {
        Pids::Only(BTreeSet::new())
    }

    /// Returns `true` if the process with this id is one of them.
    pub fn contains(&self, pid: u32) -> bool {
        self.only().is_none_or(|pids| pids.contains(&pid))
    }

    /// Returns the ids; `None` for all processes.
    pub fn only(&self) -> Option<&BTreeSet<u32>> {
        match self {
            Pids::All => None,
            Pids::Only(pids) => Some(pids),
        }
    }

    /// Returns `true` for the empty set.
    pub fn is_none(&self) -> bool {
        self.only().is_some_and(BTreeSet::is_empty)
    }

    /// Returns the ids as a recording has them: none for all processes, and an id that no process
    /// has for the empty set.
    pub(crate) fn to_list(&self) -> Vec<u32> {
        match self {
            Pids::All => Vec::new(),
            Pids::Only(pids) if pids.is_empty() => vec![NO_PID],
            Pids::Only(pids) => pids.iter().copied().collect(),
        }
    }

    /// Returns the processes of a recording.
    pub(crate) fn from_list(pids: Vec<u32>) -> Pids {
        match pids.is_empty() {
            true => Pids::All,
            false => pids.into_iter().filter(|&pid| pid != NO_PID).collect(),
        }
    }
}

impl FromIterator<u32> for Pids {
    fn from_iter<I: IntoIterator<Item = u32>>(pids: I) -> Pids {
        Pids::Only(pids.into_iter().collect())
    }
}

impl<const COUNT: usize> From<[u32; COUNT]> for Pids {
    fn from(pids: [u32; COUNT]) -> Pids {
        pids.into_iter().collect()
    }
}

impl From<&[u32]> for Pids {
    fn from(pids: &[u32]) -> Pids {
        pids.iter().copied().collect()
    }
}

impl From<Vec<u32>> for Pids {
    fn from(pids: Vec<u32>) -> Pids {
        pids.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_set_and_all_processes_differ_also_in_recordings() {
        for pids in [Pids::All, Pids::none(), Pids::from([7]), Pids::from([7, 8, 7])] {
            assert_eq!(Pids::from_list(pids.to_list()), pids);
        }
        assert!(Pids::none().is_none() && !Pids::All.is_none() && !Pids::from([7]).is_none());
        assert_eq!(Pids::from(Vec::new()), Pids::none());
        assert_eq!(
            [Pids::All, Pids::none(), Pids::from([7])].map(|pids| pids.contains(7)),
            [true, false, true]
        );
    }
}
