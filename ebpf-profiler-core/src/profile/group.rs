//! Parts of a profile by a key of their samples.

use std::hash::Hash;

use hashbrown::HashMap;

use super::{Profile, Sample};

/// Parts of a profile by a key of their samples, made by [`Profile::group_by`]; the largest one
/// first.
#[derive(Clone, Debug)]
pub struct Groups<K> {
    groups: Vec<(K, Profile)>,
    other: Option<Profile>,
    other_keys: usize,
}

impl<K> Groups<K> {
    /// Number of groups that [`Profile::group_by`] returns at most.
    pub const DEFAULT_MAX: usize = 1_000;

    /// Returns the groups, the largest one first, without [`other`](Groups::other).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &Profile)> {
        self.groups.iter().map(|(key, profile)| (key, profile))
    }

    /// Returns the number of groups, without [`other`](Groups::other).
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns `true` if there is no group, because there is no sample or no group is permitted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the samples of all smaller groups beyond the maximum; `None` if there are none.
    pub fn other(&self) -> Option<&Profile> {
        self.other.as_ref()
    }

    /// Returns the number of keys whose samples are in [`other`](Groups::other).
    pub fn other_keys(&self) -> usize {
        self.other_keys
    }
}

impl<K> IntoIterator for Groups<K> {
    type Item = (K, Profile);
    type IntoIter = std::vec::IntoIter<(K, Profile)>;

    fn into_iter(self) -> Self::IntoIter {
        self.groups.into_iter()
    }
}

impl Profile {
    /// Divides the profile by a key of its samples: process, thread, container, label or any other
    /// value.
    ///
    /// Of more than [`Groups::DEFAULT_MAX`] keys, the largest groups have profiles of their own,
    /// and the samples of all others are in [`Groups::other`]. Each group is as
    /// [`filter`](Profile::filter) returns it. During the call all keys are in memory, at most
    /// one for each sample; keys that borrow from the profile cost the least.
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3\nls;main;sort 5\nls;main 1");
    /// let by_process = profile.group_by(|sample| &*sample.process().executable);
    /// let counts: Vec<(&str, u64)> = by_process.iter().map(|(name, part)| (*name, part.count())).collect();
    /// assert_eq!(counts, [("/usr/bin/ls", 6), ("/usr/bin/cat", 3)]);
    /// ```
    pub fn group_by<'p, K: Eq + Hash>(&'p self, key: impl FnMut(Sample<'p>) -> K) -> Groups<K> {
        self.group_by_at_most(Groups::<K>::DEFAULT_MAX, key)
    }

    /// Divides the profile as [`group_by`](Profile::group_by) does, into at most `max` groups and
    /// the rest.
    ///
    /// A group's size is its share of the values of each kind, summed over the kinds.
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = ebpf_profiler_core::testing::profile("cat;main 3\nls;main 5\nps;main 1");
    /// let groups = profile.group_by_at_most(1, |sample| sample.process().pid);
    /// assert_eq!(groups.iter().map(|(_, part)| part.count()).collect::<Vec<_>>(), [5]);
    /// assert_eq!((groups.other_keys(), groups.other().map(|rest| rest.count())), (2, Some(4)));
    /// ```
    pub fn group_by_at_most<'p, K: Eq + Hash>(
        &'p self,
        max: usize,
        mut key: impl FnMut(Sample<'p>) -> K,
    ) -> Groups<K> {
        let totals: Vec<u64> = self.by_kind().map(|profile| profile.total()).collect();
        let first = self.selected.start;
        let mut groups: HashMap<K, Group<'p>> = HashMap::new();
        let mut next = 0;
        for sample in self.samples() {
            let group = groups.entry(key(sample)).or_insert_with(|| {
                next += 1;
                Group { first: next, size: 0.0, samples: Vec::new() }
            });
            let total = totals[usize::from(sample.stored.kind - first)];
            group.size += sample.value() as f64 / total.max(1) as f64;
            group.samples.push(sample);
        }
        let mut groups: Vec<(K, Group<'p>)> = groups.into_iter().collect();
        groups.sort_by(|(_, a), (_, b)| b.size.total_cmp(&a.size).then(a.first.cmp(&b.first)));
        let rest = groups.split_off(max.min(groups.len()));
        let other_keys = rest.len();
        let samples = rest.into_iter().flat_map(|(_, group)| group.samples);
        Groups {
            other: (other_keys > 0).then(|| self.part(samples)),
            other_keys,
            groups: groups
                .into_iter()
                .map(|(key, group)| (key, self.part(group.samples.into_iter())))
                .collect(),
        }
    }
}

/// Samples with one key.
struct Group<'p> {
    /// Position among the groups by first occurrence, which orders groups of equal size.
    first: usize,
    size: f64,
    samples: Vec<Sample<'p>>,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::profile::{Labels, Process, ProfileBuilder, SampleKind, SampleLabel, Thread};
    use crate::symbol::NoSymbols;
    use crate::testing;
    use crate::trace::{Stop, Trace};

    #[test]
    fn all_samples_are_in_one_group_each() {
        let text: String =
            (0..50).map(|index| format!("p{index};main;f{} {}\n", index % 7, index + 1)).collect();
        let profile = testing::profile(&text);
        for max in [0, 1, 7, 49, 50, 51] {
            let groups = profile.group_by_at_most(max, |sample| sample.process().pid);
            let counts: Vec<u64> = groups.iter().map(|(_, part)| part.count()).collect();
            assert!(counts.is_sorted_by(|a, b| a >= b));
            assert_eq!(counts.len(), max.min(50));
            assert_eq!(groups.other_keys(), 50 - counts.len());
            let other = groups.other().map_or(0, Profile::count);
            assert_eq!(counts.iter().sum::<u64>() + other, profile.count());
            assert!(groups.iter().all(|(pid, part)| part.processes()[..] == [part.processes()[0].clone()]
                && part.processes()[0].pid == *pid));
        }
        assert!(testing::profile("").group_by(|_| ()).is_empty());
    }

    #[test]
    fn groups_of_many_keys_are_bounded_and_counted() {
        let mut builder = ProfileBuilder::new(Duration::from_millis(10));
        let process = builder.process(Process::new(1));
        let trace = Trace::new([].as_slice(), Stop::NoUserStack);
        let request = |id: i64| Labels::default().with(SampleLabel::new("request", id));
        for id in 0..100_000 {
            let thread = builder.thread(Thread { labels: request(id), ..Thread::new(process, 1, "t") });
            builder.add(thread, &trace, 0);
        }
        let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
        let groups = profile.group_by_at_most(10, |sample| sample.labels().clone());
        assert_eq!((groups.len(), groups.other_keys()), (10, 99_990));
        assert_eq!(groups.other().map(Profile::count), Some(99_990));
        // Of equal sizes, the first ones.
        assert_eq!(
            groups.iter().map(|(labels, _)| labels.clone()).collect::<Vec<_>>(),
            (0..10).map(request).collect::<Vec<_>>()
        );
    }

    #[test]
    fn size_is_the_share_of_each_kind() {
        let kinds = [SampleKind::cpu(Duration::from_millis(10)), SampleKind::off_cpu()];
        let mut builder = ProfileBuilder::of_kinds(kinds);
        let trace = Trace::new([].as_slice(), Stop::NoUserStack);
        // Half of the CPU time, or all of the waits, whose values are much larger.
        for (pid, kind, value) in [(1, 0, 5), (2, 0, 5), (3, 1, 1_000_000)] {
            let process = builder.process(Process::new(pid));
            let thread = builder.thread(Thread::new(process, pid, "t"));
            builder.add_value(kind, value, None, thread, &trace, 0);
        }
        let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
        let groups = profile.group_by(|sample| sample.process().pid);
        assert_eq!(groups.into_iter().map(|(pid, _)| pid).collect::<Vec<_>>(), [3, 1, 2]);
    }
}
