//! Commands to the threads, from any thread of the program.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::control::Settings;
use super::super::enrichment::EnrichmentStats;
use super::{Change, Command, Enricher, Shared, Stage, State, lock};
use crate::live::error::{ChangeError, StopError};
use crate::live::kernel::waker::Waker;
use crate::live::machine::broker::{Broker, BrokerStats};
use crate::live::machine::priority;
use crate::live::machine::reservation::{Reservation, ReservationStats};
use crate::live::machine::this_thread;
use crate::profile::Profile;

/// Sends commands to the threads, and reads what they share.
#[derive(Clone)]
pub(in super::super) struct Remote {
    pub(super) shared: Arc<Shared>,
    waker: Arc<Waker>,
    /// Disconnected once all threads have ended.
    running: Arc<Mutex<Receiver<()>>>,
}

impl Remote {
    pub(super) fn new(shared: Arc<Shared>, waker: Waker, running: Receiver<()>) -> Remote {
        Remote { shared, waker: Arc::new(waker), running: Arc::new(Mutex::new(running)) }
    }

    /// Returns a copy of the counters.
    pub(in super::super) fn state(&self) -> State {
        lock(&self.shared.state).clone()
    }

    /// Returns what is set.
    pub(in super::super) fn settings(&self) -> Settings {
        lock(&self.shared.settings).clone()
    }

    /// Returns the state of the reservation, if there is one.
    pub(in super::super) fn reservation(&self) -> Option<ReservationStats> {
        self.shared.reservation.as_ref().map(Reservation::stats)
    }

    /// Returns the counters of the broker, if there is one.
    pub(in super::super) fn broker(&self) -> Option<BrokerStats> {
        self.shared.broker.as_ref().map(Broker::stats)
    }

    /// Returns the counters of the hook, if there is one.
    pub(in super::super) fn enrichment(&self) -> Option<EnrichmentStats> {
        self.shared.enricher.as_ref().map(Enricher::stats)
    }

    /// Returns `true` while samples can still come.
    pub(in super::super) fn is_running(&self) -> bool {
        !lock(&self.shared.state).has_ended
    }

    /// Waits until samples can no longer come, at most for `duration`.
    pub(in super::super) fn wait(&self, duration: Duration) {
        let state = lock(&self.shared.state);
        let waited = self.shared.ended.wait_timeout_while(state, duration, |state| !state.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a command and returns the profile that it ends.
    pub(in super::super) fn take(
        &self,
        command: impl FnOnce(Sender<Profile>) -> Command,
    ) -> Result<Profile, StopError> {
        let profile = self.send(command)?;
        let waited = self.settings().reply_deadline;
        profile.recv_timeout(waited).map_err(|error| match error {
            RecvTimeoutError::Timeout => StopError::NotReady { waited },
            RecvTimeoutError::Disconnected => self.error(),
        })
    }

    /// Changes the settings and returns the profile that ended with the former ones.
    pub(in super::super) fn change(&self, change: Change) -> Result<Profile, ChangeError> {
        let (refuse, refused) = channel();
        let profile = self.take(|reply| Command::Change(Box::new(change), reply, refuse));
        match refused.try_recv() {
            Ok(error) => Err(error.into()),
            Err(_) => Ok(profile?),
        }
    }

    pub(super) fn send(
        &self,
        command: impl FnOnce(Sender<Profile>) -> Command,
    ) -> Result<Receiver<Profile>, StopError> {
        let (reply, profile) = channel();
        if !self.push(command(reply)) {
            return Err(self.error());
        }
        Ok(profile)
    }

    /// Returns `false` if the drain thread has ended.
    pub(super) fn push(&self, command: Command) -> bool {
        let is_pushed = self.shared.push(command);
        if is_pushed {
            self.waker.wake();
        }
        is_pushed
    }

    /// Returns the reason for a missing reply.
    pub(super) fn error(&self) -> StopError {
        self.broken().err().unwrap_or(StopError::Ended)
    }

    /// Fails if the source has failed.
    pub(super) fn broken(&self) -> Result<(), StopError> {
        self.state().broken.map_or(Ok(()), |error| Err(StopError::Broken(error)))
    }

    /// Asks the threads to end, once, and keeps the last profile for the owner of the threads.
    fn begin_stop(&self) {
        let mut last = lock(&self.shared.last);
        if !self.shared.ending.has_begun() {
            self.shared.begin_end();
            *last = self.send(Command::Finish).ok();
        }
    }

    /// Ends the threads, and waits for them until the deadline; not in one of them.
    pub(in super::super) fn stop(&self) -> Result<(), StopError> {
        self.begin_stop();
        let is_own = lock(&self.shared.tids).contains(&this_thread::id());
        if !is_own {
            let (_raised, _reserved) = (priority::raised(), self.shared.enter());
            self.wait_for_end();
        }
        self.broken()
    }

    /// Waits until all threads have ended, at most until the deadline. Returns `true` if they have.
    pub(super) fn wait_for_end(&self) -> bool {
        // Nothing is sent: the channel disconnects when the last thread ends.
        let running = lock(&self.running);
        let left = self.shared.ending.left(Stage::Sinks);
        running.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
    }
}
