//! Facts about processes that profiles have beside stacks.

use super::Builder;
use crate::language::LabelSource;
use crate::live::run::enrichment::Enrichment;
use crate::profile::Process;

impl Builder {
    /// Adds the command lines of processes to profiles and recordings:
    /// [`Process::command_line`](crate::profile::Process). By default there are none, as
    /// arguments can be secrets.
    pub fn command_lines(mut self) -> Builder {
        self.command_lines = true;
        self
    }

    /// Adds these environment variables of processes to profiles and recordings:
    /// [`Process::environment`](crate::profile::Process). By default there are none, as values can be
    /// secrets. May be called several times.
    ///
    /// A variable has the value with which the program of the process was started.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::Profiler;
    ///
    /// let builder = Profiler::builder().environment(["OTEL_SERVICE_NAME", "POD_NAME"]);
    /// ```
    pub fn environment<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Builder {
        self.environment.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds the resource attributes that processes publish about themselves to profiles,
    /// [`Process::attributes`](crate::profile::Process): `service.name`, `service.instance.id` and
    /// others that their OpenTelemetry SDK has. By default there are none.
    ///
    /// Programs publish them in memory that is named `OTEL_CTX` ([OTEP 4719]). They are read when a
    /// process is first sampled, and again within a second after they change; of a process that has
    /// none yet within some 13 s. At most 32 attributes with keys of up to 64 bytes and texts, numbers
    /// or booleans of up to 256. Those of an [enrichment](Builder::enrich) with the same key replace
    /// them. Recordings have none.
    /// [`RegistryStats::context_failures`](crate::stats::RegistryStats::context_failures) counts those
    /// that could not be read.
    ///
    /// [OTEP 4719]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4719-process-ctx.md
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::Profiler;
    ///
    /// let builder = Profiler::builder().process_contexts();
    /// ```
    #[doc(alias("OTEL_CTX"))]
    pub fn process_contexts(mut self) -> Builder {
        self.process_contexts = true;
        self
    }

    /// Adds the labels that other programs set for the work of their threads to samples:
    /// `ebpf_profiler_hll::labels()`. May be called several times; of sources with one name the first
    /// one is used. By default there are none, as values can be secrets: names of tenants, requests of
    /// users.
    ///
    /// The kernel side copies them at the sample, while the thread is interrupted. A sample has up to
    /// 8 labels, keys of up to 64 bytes and values of up to 256, all together up to 1,024; what exceeds
    /// that is counted in [`PipelineStats::cut_labels`](crate::stats::PipelineStats::cut_labels), and
    /// samples whose labels are missing in
    /// [`PipelineStats::unlabelled`](crate::stats::PipelineStats::unlabelled). Each combination of
    /// a thread and its labels is a [thread](crate::profile::Thread) of the profile, at most 16,384.
    /// Recordings have no labels.
    ///
    /// Of a [thread context](crate::language::LabelLayout::ThreadContext) of OpenTelemetry a sample has
    /// the labels [`trace_id`](crate::profile::Labels::TRACE_ID) and
    /// [`span_id`](crate::profile::Labels::SPAN_ID), and the first six attributes in the order of their
    /// keys; with more than 992 bytes of attributes none of these. Where it and another source have
    /// labels, it has precedence.
    ///
    /// A sample with three to eight labels costs 0.4 to 0.9 µs more in the
    /// kernel, one of a program without labels nothing that can be measured.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod ebpf_profiler_hll {
    /// #     pub fn labels() -> [Box<dyn ebpf_profiler_core::language::LabelSource>; 0] { [] }
    /// # }
    /// use ebpf_profiler_core::Profiler;
    ///
    /// let builder = Profiler::builder().process_labels(ebpf_profiler_hll::labels());
    /// ```
    #[doc(alias("pprof_labels"))]
    pub fn process_labels(mut self, sources: impl IntoIterator<Item = Box<dyn LabelSource>>) -> Builder {
        for source in sources {
            if self.label_sources.iter().all(|known| known.name() != source.name()) {
                self.label_sources.push(source);
            }
        }
        self
    }

    /// Adds labels and resource attributes to each process, which `hook` returns: names of its pod,
    /// image or tenant. Replaces a former hook.
    ///
    /// It is called once for each process, in a thread of its own, when the first sample of the
    /// process arrives; again if container, user or other fields of the process change. The answer is
    /// kept for all profiles, and in them before sinks get them. A profile waits at most a second for
    /// answers, and not at all while a call takes longer: [`Health::enrichment`] counts the processes
    /// without one. The end of the profiler does not wait for the hook. Recordings have no answers.
    ///
    /// Nothing is contacted by this crate. The example `enrich` asks a container engine by its socket.
    ///
    /// [`Health::enrichment`]: crate::live::Health::enrichment
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::Enrichment, profile::Process};
    ///
    /// // The service is in the environment of the process.
    /// let hook = |process: &Process| match process.environment.first() {
    ///     Some((_, service)) => Enrichment::new().attribute("service.name", service),
    ///     None => Enrichment::new(),
    /// };
    /// let builder = Profiler::builder().environment(["OTEL_SERVICE_NAME"]).enrich(hook);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enrich(mut self, hook: impl FnMut(&Process) -> Enrichment + Send + 'static) -> Builder {
        self.enrichment = Some(Box::new(hook));
        self
    }
}
