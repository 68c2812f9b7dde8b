//! Profiles with changed processes and threads.

use std::sync::Arc;

use super::{Data, Process, Profile, Thread};

impl Profile {
    /// Returns a profile with changed processes. Those that become equal are one: a profile by
    /// container, or without what should not leave the machine.
    ///
    /// Calls `change` once for each process. Threads stay apart by their id and name; see
    /// [`map_threads`](Profile::map_threads).
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::Process;
    ///
    /// let profile = ebpf_profiler_core::testing::profile("cat;main 3\nls;main 5");
    /// let hidden = profile.map_processes(|process| {
    ///     let mut container = Process::new(0);
    ///     container.container = process.container.clone();
    ///     container
    /// });
    /// assert_eq!((hidden.processes().len(), hidden.count()), (1, 8));
    /// ```
    #[must_use = "returns another profile"]
    pub fn map_processes(&self, change: impl FnMut(&Process) -> Process) -> Profile {
        let processes = self.data.processes.iter().map(change).collect();
        self.with(Data { processes, ..Data::clone(&self.data) })
    }

    /// Returns a profile with changed threads. Those of a process that become equal are one.
    ///
    /// Calls `change` once for each thread and set of labels. The process of a thread stays, whatever
    /// [`Thread::process`] says.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::Thread;
    ///
    /// let profile = ebpf_profiler_core::testing::profile("cat`one;main 3\ncat`two;main 5");
    /// let hidden = profile.map_threads(|thread| Thread::new(thread.process, 0, ""));
    /// assert_eq!((hidden.threads().len(), hidden.samples().len()), (1, 1));
    /// ```
    #[must_use = "returns another profile"]
    pub fn map_threads(&self, mut change: impl FnMut(&Thread) -> Thread) -> Profile {
        let changed = |thread: &Thread| Thread { process: thread.process, ..change(thread) };
        let threads = self.data.threads.iter().map(changed).collect();
        self.with(Data { threads, ..Data::clone(&self.data) })
    }

    /// Returns the samples of this handle with other processes or threads, each of which is one.
    fn with(&self, data: Data) -> Profile {
        let changed = Profile { data: Arc::new(data), selected: self.selected.clone() };
        changed.part(changed.samples())
    }

    /// Changes each process, with its threads, in place. They must stay different.
    #[cfg(feature = "live")]
    pub(crate) fn change_processes(
        self,
        mut change: impl FnMut(&mut Process, &mut [&mut Thread]),
    ) -> Profile {
        let Profile { data, selected } = self;
        let mut data = Arc::unwrap_or_clone(data);
        let mut by_process: Vec<Vec<&mut Thread>> = data.processes.iter().map(|_| Vec::new()).collect();
        for thread in &mut data.threads {
            by_process[thread.process.0 as usize].push(thread);
        }
        for (process, mut threads) in data.processes.iter_mut().zip(by_process) {
            change(process, &mut threads);
        }
        Profile { data: Arc::new(data), selected }
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Process, Thread};
    use crate::sink::folded::sorted_lines as lines;
    use crate::testing;

    #[test]
    fn equal_processes_and_threads_are_one() {
        let profile = testing::profile("cat`a;main;read 3\ncat`b;main;read 2\nls`a;main;sort 5");
        let one = profile.map_processes(|_| Process::new(0));
        assert_eq!((one.processes().len(), one.count()), (1, 10));
        let none = one.map_threads(|_| Thread::new(crate::profile::ProcessId(99), 0, ""));
        assert_eq!((none.threads().len(), none.samples().len(), none.count()), (1, 2, 10));
        assert_eq!(lines(&profile.map_processes(Process::clone)), lines(&profile));
        assert_eq!(lines(&profile.map_threads(Thread::clone)), lines(&profile));
        assert_eq!(none.stacks(), profile.stacks());
    }

    #[test]
    fn parts_have_nothing_of_what_was_replaced() {
        let profile = testing::profile("secret`worker;main;read 3");
        let hidden =
            profile.map_processes(|_| Process::new(0)).map_threads(|it| Thread::new(it.process, 0, ""));
        let text = format!("{:?}{:?}", hidden.processes(), hidden.threads());
        assert!(!text.contains("secret") && !text.contains("worker"), "{text}");
    }
}
