//! Labels across `.await`.

use std::future::{Future, poll_fn};
use std::pin::pin;

use super::{LabelGuard, history};
use crate::profile::Labels;

/// Adds [`with_labels`](WithLabels::with_labels) to futures.
pub trait WithLabels: Future + Sized {
    /// Returns a future that has labels while it is polled, in any thread.
    ///
    /// It keeps the labels of the thread and of an outer future, but replaces values of the same
    /// key.
    ///
    /// Polls don't allocate. Without a profiler that includes this program a poll costs a few
    /// nanoseconds more. Tasks that the future spawns don't have its labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::label::WithLabels;
    /// use ebpf_profiler_core::profile::Labels;
    ///
    /// async fn handle(tenant: &str, request: i64) -> usize {
    ///     let labels = Labels::from([("request", request)]).and(&Labels::from([("tenant", tenant)]));
    ///     async { tenant.len() }.with_labels(labels).await
    /// }
    /// # let mut future = std::pin::pin!(handle("blue", 7));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(future.as_mut().poll(&mut context), std::task::Poll::Ready(4));
    /// ```
    fn with_labels(self, labels: impl Into<Labels>) -> impl Future<Output = Self::Output> {
        let mut scope = Scope { own: labels.into(), outer: Labels::default(), all: Labels::default() };
        async move {
            let mut future = pin!(self);
            poll_fn(|context| {
                let _labels = scope.enter();
                future.as_mut().poll(context)
            })
            .await
        }
    }
}

impl<F: Future> WithLabels for F {}

/// Labels of a future.
struct Scope {
    own: Labels,
    /// The labels of the thread in the former poll.
    outer: Labels,
    /// Both.
    all: Labels,
}

impl Scope {
    #[inline]
    fn enter(&mut self) -> Option<LabelGuard> {
        if !history::is_recording() {
            return None;
        }
        history::change(|outer| self.all(outer)).map(LabelGuard::new)
    }

    /// Returns the labels within `outer` ones. They are combined once for each outer set.
    fn all(&mut self, outer: &Labels) -> Labels {
        if outer.is_empty() {
            return self.own.clone();
        }
        if self.outer != *outer {
            self.outer = outer.clone();
            self.all = outer.and(&self.own);
        }
        self.all.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::label::label;

    fn texts() -> Vec<String> {
        let labels = history::current();
        labels.iter().map(|label| format!("{}={}", label.key(), label.value())).collect()
    }

    /// Polls the future to its end and returns the labels in it, at each poll.
    fn polls(future: impl Future<Output = Vec<Vec<String>>>) -> Vec<Vec<String>> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let before = texts();
            let polled = future.as_mut().poll(&mut context);
            assert_eq!(texts(), before, "labels are unset when a poll returns");
            if let Poll::Ready(seen) = polled {
                return seen;
            }
        }
    }

    /// Is pending once.
    async fn pause() {
        let mut is_first = true;
        poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    async fn inner() -> Vec<Vec<String>> {
        let mut seen = vec![texts()];
        for request in 1..=2 {
            let inside = async {
                pause().await;
                texts()
            };
            seen.push(inside.with_labels([("request", request)]).await);
            pause().await;
            seen.push(texts());
        }
        seen
    }

    #[test]
    fn futures_have_their_labels_in_each_poll() {
        let labels = Labels::from([("tenant", "blue")]);
        let _alone = history::tests::alone();
        let recording = history::tests::record();
        let tenant = vec!["tenant=blue".to_owned()];
        let request = |number| vec![format!("request={number}"), "tenant=blue".to_owned()];
        let expected = [tenant.clone(), request(1), tenant.clone(), request(2), tenant];
        assert_eq!(polls(inner().with_labels(labels.clone())), expected);
        // Labels of the thread are replaced by those of the future with the same key.
        let _tenant = label("tenant", "red");
        assert_eq!(polls(inner().with_labels(labels.clone())), expected);
        drop(recording);
        let red = vec!["tenant=red".to_owned()];
        assert_eq!(polls(inner().with_labels(labels)), vec![red; 5], "without a profiler nothing is set");
    }

    #[test]
    fn labelled_futures_of_sendable_ones_are_sendable() {
        fn is_sendable(_: impl Future + Send) {}
        is_sendable(async { pause().await }.with_labels([("request", 1)]));
    }
}
