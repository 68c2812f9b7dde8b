//! Labels and attributes of processes that the embedder adds.

use crate::profile::{Labels, Process, SampleLabel, Thread};

/// Resource attributes of a process, and labels of its samples, which a hook of
/// [`Builder::enrich`](crate::live::Builder::enrich) returns.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::Enrichment;
///
/// let known = Enrichment::new().attribute("k8s.pod.name", "shop-1").label("tenant", "blue");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "has an effect when a hook returns it"]
pub struct Enrichment {
    attributes: Vec<(Box<str>, Box<str>)>,
    labels: Labels,
}

impl Enrichment {
    /// Maximum number of attributes of a process. Further ones are dropped.
    pub const MAX_ATTRIBUTES: usize = 32;

    /// Returns nothing about a process.
    pub fn new() -> Enrichment {
        Enrichment::default()
    }

    /// Adds an attribute of the process as a resource, [`Process::attributes`]: the name of its pod,
    /// image or service. Replaces one with the same key. Keys are cut to 64 bytes, values to 256.
    pub fn attribute(mut self, key: &str, value: &str) -> Enrichment {
        let (key, value) = (cut(key, MAX_KEY), cut(value, MAX_VALUE));
        match self.attributes.binary_search_by(|(known, _)| (**known).cmp(key)) {
            Ok(index) => self.attributes[index].1 = value.into(),
            Err(index) if self.attributes.len() < Enrichment::MAX_ATTRIBUTES && !key.is_empty() => {
                self.attributes.insert(index, (key.into(), value.into()));
            }
            Err(_) => {}
        }
        self
    }

    /// Adds a label of all samples of the process, by which pictures and sinks can divide them. A
    /// label of the sample itself with the same key stays.
    pub fn label(self, key: &str, value: &str) -> Enrichment {
        Enrichment { labels: self.labels.with(SampleLabel::new(key, value)), ..self }
    }

    /// Adds all of it to a process.
    pub(super) fn apply(&self, process: &mut Process, threads: &mut [&mut Thread]) {
        // Those of the process's own context come before.
        let is_own = |(key, _): &(Box<str>, Box<str>)| self.attributes.iter().any(|(other, _)| other == key);
        process.attributes.retain(|attribute| !is_own(attribute));
        process.attributes.extend(self.attributes.iter().cloned());
        process.attributes.sort();
        if !self.labels.is_empty() {
            for thread in threads {
                let own = thread.labels.iter();
                let free = Labels::MAX.saturating_sub(own.len());
                let added =
                    self.labels.iter().filter(|label| thread.labels.get(label.key()).is_none()).take(free);
                let labels = added.fold(thread.labels.clone(), |labels, label| labels.with(label.clone()));
                thread.labels = labels;
            }
        }
    }
}

/// Counters of a hook of [`Builder::enrich`](crate::live::Builder::enrich).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnrichmentStats {
    /// Calls of the hook that returned.
    pub calls: u64,
    /// Processes of profiles that went to the sinks without its answer, because it took too long.
    /// Counted once for each profile.
    pub late: u64,
    /// Processes that it was not asked about, because too many waited.
    pub dropped: u64,
    /// Panics. A hook that panicked is not called again.
    pub panics: u64,
}

const MAX_KEY: usize = 64;

const MAX_VALUE: usize = 256;

fn cut(text: &str, length: usize) -> &str {
    let end = (0..=length.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessId;

    #[test]
    fn attributes_are_bounded_sorted_and_replaced() {
        let many = (0..100).fold(Enrichment::new(), |it, number| it.attribute(&format!("k{number:03}"), "v"));
        assert_eq!(many.attributes.len(), Enrichment::MAX_ATTRIBUTES);
        let long = Enrichment::new().attribute(&"ä".repeat(100), &"ö".repeat(1 << 20)).attribute("", "none");
        let [(key, value)] = &long.attributes[..] else { panic!("{long:?}") };
        assert_eq!((key.len(), value.len()), (64, 256));
        let twice = Enrichment::new().attribute("b", "1").attribute("a", "2").attribute("b", "3");
        assert_eq!(twice.attributes, [("a".into(), "2".into()), ("b".into(), "3".into())]);
    }

    #[test]
    fn labels_of_samples_stay() {
        let mut process = Process::new(1);
        let mut thread = Thread::new(ProcessId(0), 1, "t");
        thread.labels = Labels::from([("tenant", "red"), ("request", "7")]);
        let known = (0..20)
            .fold(Enrichment::new().label("tenant", "blue").label("zone", "a"), |it, number| {
                it.label(&format!("x{number}"), "y")
            });
        known.apply(&mut process, &mut [&mut thread]);
        assert_eq!(thread.labels.get("tenant"), Some(&"red".into()));
        assert_eq!((thread.labels.get("x0"), thread.labels.iter().len()), (Some(&"y".into()), Labels::MAX));
    }
}
