//! Threads that take part in a reservation from their first instruction.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::scheduler::{self, Thread};
use super::{Part, Reservation, Reserved};

/// Starts a thread that takes part in the reservation, if there is one.
///
/// The thread that starts it makes it a member: where CPU time is scarce, a new thread waits for
/// seconds until it can do anything by itself. For the same reason it keeps its policy at its end.
pub(in crate::live) fn spawn<T: Send + 'static>(
    reservation: Option<&Reservation>,
    part: Part,
    thread: Builder,
    run: impl FnOnce(Option<&Reserved>) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let Some(Reservation(inner)) = reservation else { return thread.spawn(|| run(None)) };
    let (signals, of_thread) = (Arc::default(), inner.clone());
    let its_signals = Arc::clone(&signals);
    let thread = thread.spawn(move || {
        let (inner, signals, _of_this_thread) = (of_thread, its_signals, PhantomData);
        run(Some(&Reserved { inner, signals, ends_with_thread: true, _of_this_thread }))
    })?;
    if let Some(id) = scheduler::id(&thread) {
        inner.add(Thread::own(id), part, &signals);
    }
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn started_thread_is_a_member_until_it_ends() {
        let reservation = Reservation::cpu(0.1);
        let (end, wait) = channel::<()>();
        let members = || reservation.0.lock().members.len();
        let run = move |reserved: Option<&Reserved>| (reserved.is_some(), wait.recv().is_err());
        let thread = spawn(Some(&reservation), Part::First, Builder::new(), run).unwrap();
        assert_eq!(members(), 1);
        drop(end);
        assert_eq!(thread.join().unwrap(), (true, true));
        assert_eq!(members(), 0);
    }

    #[test]
    fn thread_that_ends_at_once_leaves_no_member() {
        let reservation = Reservation::cpu(0.1);
        for _ in 0..100 {
            spawn(Some(&reservation), Part::Shared, Builder::new(), |_| ()).unwrap().join().unwrap();
        }
        assert_eq!(reservation.0.lock().members.len(), 0);
    }
}
