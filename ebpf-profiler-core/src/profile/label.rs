//! Labels of samples.

use std::fmt;
use std::sync::Arc;

/// A key with a value, which samples have in addition to their thread: a request, a tenant, a
/// phase.
///
/// Keys are cut to 64 bytes and texts to 256, at the end of a character.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleLabel {
    key: Arc<str>,
    value: LabelValue,
}

/// The value of a [`SampleLabel`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LabelValue {
    /// A text.
    Text(Arc<str>),
    /// A number.
    Number(i64),
}

impl SampleLabel {
    /// Creates a label.
    pub fn new(key: impl Into<Arc<str>>, value: impl Into<LabelValue>) -> SampleLabel {
        let value = match value.into() {
            LabelValue::Text(text) => LabelValue::Text(cut(text, MAX_TEXT)),
            number => number,
        };
        SampleLabel { key: cut(key.into(), MAX_KEY), value }
    }

    /// Creates a label of texts that need not be cut; `None` if they do.
    pub(super) fn uncut(key: Arc<str>, value: LabelValue) -> Option<SampleLabel> {
        let fits = match &value {
            LabelValue::Text(text) => text.len() <= MAX_TEXT,
            LabelValue::Number(_) => true,
        };
        (fits && key.len() <= MAX_KEY).then_some(SampleLabel { key, value })
    }

    /// Returns the key with its owner.
    pub(super) fn key_text(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the value.
    pub fn value(&self) -> &LabelValue {
        &self.value
    }
}

impl From<&str> for LabelValue {
    fn from(text: &str) -> LabelValue {
        LabelValue::Text(text.into())
    }
}

impl From<String> for LabelValue {
    fn from(text: String) -> LabelValue {
        LabelValue::Text(text.into())
    }
}

impl From<Arc<str>> for LabelValue {
    fn from(text: Arc<str>) -> LabelValue {
        LabelValue::Text(text)
    }
}

impl From<i64> for LabelValue {
    fn from(number: i64) -> LabelValue {
        LabelValue::Number(number)
    }
}

impl fmt::Display for LabelValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelValue::Text(text) => f.pad(text),
            LabelValue::Number(number) => number.fmt(f),
        }
    }
}

/// A set of at most 8 labels, sorted by key.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::profile::{SampleLabel, Labels};
///
/// let outer = Labels::from([("tenant", "blue")]).with(SampleLabel::new("request", 7));
/// let inner = outer.with(SampleLabel::new("request", 8));
/// let texts: Vec<String> = inner.iter().map(|label| format!("{}={}", label.key(), label.value())).collect();
/// assert_eq!(texts, ["request=8", "tenant=blue"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Option<Arc<[SampleLabel]>>);

impl Labels {
    pub(crate) const NONE: Labels = Labels(None);

    /// Maximum number of labels in a set.
    pub const MAX: usize = 8;

    /// Returns the set with another label, which replaces the one with the same key. A ninth label
    /// is dropped.
    #[must_use = "returns the changed set"]
    pub fn with(&self, label: SampleLabel) -> Labels {
        let mut labels: Vec<SampleLabel> = self.iter().cloned().collect();
        match labels.binary_search_by(|other| other.key.cmp(&label.key)) {
            Ok(index) => labels[index] = label,
            Err(index) if labels.len() < Labels::MAX => labels.insert(index, label),
            Err(_) => {}
        }
        Labels(Some(labels.into()))
    }

    /// Returns the set of labels that are sorted by key, at most [`MAX`](Labels::MAX), with one of each key.
    pub(crate) fn of_sorted(labels: Vec<SampleLabel>) -> Labels {
        Labels((!labels.is_empty()).then(|| labels.into()))
    }

    /// Returns the value of the label `key`; `None` if there is no such label.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::{LabelValue, Labels, SampleLabel};
    ///
    /// let labels = Labels::default().with(SampleLabel::new("tenant", "blue"));
    /// assert_eq!(labels.get("tenant"), Some(&LabelValue::from("blue")));
    /// assert_eq!(labels.get("request"), None);
    /// ```
    pub fn get(&self, key: &str) -> Option<&LabelValue> {
        let labels = self.0.as_deref()?;
        let index = labels.binary_search_by(|label| (*label.key).cmp(key)).ok()?;
        Some(&labels[index].value)
    }

    /// Returns the set with all labels of another one, which replace those with the same key. A
    /// ninth label is dropped.
    ///
    /// It does not allocate if one of the sets is empty.
    #[must_use = "returns the changed set"]
    pub fn and(&self, labels: &Labels) -> Labels {
        match (self.is_empty(), labels.is_empty()) {
            (true, _) => labels.clone(),
            (_, true) => self.clone(),
            _ => labels.iter().fold(self.clone(), |set, label| set.with(label.clone())),
        }
    }

    /// Key of the id of a trace, 32 lower-case hexadecimal digits: `trace_id`, as OpenTelemetry names it
    /// in formats other than its own.
    pub const TRACE_ID: &str = "trace_id";

    /// Key of the id of a span, 16 lower-case hexadecimal digits: `span_id`.
    pub const SPAN_ID: &str = "span_id";

    /// Returns trace id and span id of the set; `None` unless it has both, in their form and not 0.
    ///
    /// OTLP has them as a link, other formats as labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::Labels;
    ///
    /// let labels = Labels::from([
    ///     (Labels::TRACE_ID, "0af7651916cd43dd8448eb211c80319c"),
    ///     (Labels::SPAN_ID, "b7ad6b7169203331"),
    /// ]);
    /// let (trace_id, span_id) = labels.span().ok_or("no span")?;
    /// assert_eq!((trace_id[0], span_id[7]), (0x0a, 0x31));
    /// assert_eq!(Labels::from([(Labels::SPAN_ID, "b7ad6b7169203331")]).span(), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn span(&self) -> Option<([u8; 16], [u8; 8])> {
        Some((id(self.get(Labels::TRACE_ID)?)?, id(self.get(Labels::SPAN_ID)?)?))
    }

    /// Returns the labels in the order of their keys.
    pub fn iter(&self) -> std::slice::Iter<'_, SampleLabel> {
        self.0.as_deref().unwrap_or_default().iter()
    }

    /// Returns `true` if there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<K: Into<Arc<str>>, V: Into<LabelValue>, const N: usize> From<[(K, V); N]> for Labels {
    fn from(labels: [(K, V); N]) -> Labels {
        let labels = labels.into_iter().map(|(key, value)| SampleLabel::new(key, value));
        labels.fold(Labels::default(), |set, label| set.with(label))
    }
}

impl<'l> IntoIterator for &'l Labels {
    type Item = &'l SampleLabel;
    type IntoIter = std::slice::Iter<'l, SampleLabel>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Parses an id that is not 0.
fn id<const N: usize>(value: &LabelValue) -> Option<[u8; N]> {
    let LabelValue::Text(text) = value else { return None };
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    <[u8; N]>::try_from(bytes?).ok().filter(|id| id.iter().any(|&byte| byte != 0))
}

/// Maximum size of a key in bytes.
const MAX_KEY: usize = 64;

/// Maximum size of a text in bytes.
const MAX_TEXT: usize = 256;

fn cut(text: Arc<str>, most: usize) -> Arc<str> {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_bounded_and_equal_by_content() {
        let all = (0..12)
            .rev()
            .fold(Labels::default(), |set, index| set.with(SampleLabel::new(index.to_string(), index)));
        assert_eq!(all.iter().count(), Labels::MAX);
        assert!(all.iter().is_sorted());
        let again = all.with(SampleLabel::new("4", 4)).with(SampleLabel::new("4", 4));
        assert_eq!(again, all);
        let long = SampleLabel::new("k".repeat(100), "ä".repeat(200));
        assert_eq!((long.key().len(), long.value().to_string().len()), (64, 256));
        let odd = SampleLabel::new("", format!("x{}", "ä".repeat(200)));
        assert_eq!(odd.value().to_string().len(), 255);
    }
}
