//! Names of the OpenTelemetry semantic conventions 1.44.0 that profiles contain.
//!
//! Sources: [profiles], [process], [thread], [container], [k8s], [host], [service].
//!
//! [profiles]: https://opentelemetry.io/docs/specs/semconv/general/profiles/
//! [process]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/process/
//! [thread]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/thread/
//! [container]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/container/
//! [k8s]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/k8s/
//! [host]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/host/
//! [service]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/service/

use ebpf_profiler_core::profile::{Process, SampleKind, Thread};

/// Returns the id of a process; `None` for a group of processes. The kernel's own has the id 0, too,
/// and nothing else.
pub(crate) fn process_id(process: &Process) -> Option<u32> {
    let Process { pid, executable, container, attributes, .. } = process;
    let is_kernel = executable.is_empty() && container.is_empty() && attributes.is_empty();
    (*pid != 0 || is_kernel).then_some(*pid)
}

/// Returns the id of a thread; `None` for a group of threads.
pub(crate) fn thread_id(process: &Process, thread: &Thread) -> Option<u32> {
    let is_kernel = process_id(process) == Some(0);
    (thread.tid != 0 || is_kernel).then_some(thread.tid)
}

/// The schema URL of this version of the conventions.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Resource: the process id in the initial namespace, an integer.
pub(crate) const PROCESS_PID: &str = "process.pid";
/// Resource: the creation time of the process, ISO 8601; unique together with the id.
pub(crate) const PROCESS_CREATION_TIME: &str = "process.creation.time";
/// Resource: the path of the executable.
pub(crate) const PROCESS_EXECUTABLE_PATH: &str = "process.executable.path";
/// Resource: the file name of the executable.
pub(crate) const PROCESS_EXECUTABLE_NAME: &str = "process.executable.name";
/// Resource: the container id of the process.
pub(crate) const CONTAINER_ID: &str = "container.id";
/// Resource: the unique id of the process's Kubernetes pod.
pub(crate) const POD_UID: &str = "k8s.pod.uid";
/// Resource: the name of the machine.
pub(crate) const HOST_NAME: &str = "host.name";
/// Resource: the permanent id of the machine, `/etc/machine-id`.
pub(crate) const HOST_ID: &str = "host.id";
/// Resource: the configured name of the service.
pub(crate) const SERVICE_NAME: &str = "service.name";

/// Sample: the thread's id in the initial namespace, an integer.
pub(crate) const THREAD_ID: &str = "thread.id";
/// Sample: the thread's name.
pub(crate) const THREAD_NAME: &str = "thread.name";

/// Mapping: the GNU build id, hexadecimal.
pub(crate) const BUILD_ID_GNU: &str = "process.executable.build_id.gnu";
/// Mapping: the Go build id, text.
pub(crate) const BUILD_ID_GO: &str = "process.executable.build_id.go";
/// Mapping: the hash of the file's head, tail and length; see [`htlhash`](crate::htlhash).
pub(crate) const BUILD_ID_HTLHASH: &str = "process.executable.build_id.htlhash";

/// Location: the kind of code; see [`frame_type`].
pub(crate) const FRAME_TYPE: &str = "profile.frame.type";
/// Location, not in the conventions: `true` if the frame was found by an unverified frame pointer.
pub(crate) const FRAME_GUESSED: &str = "ebpf_profiler.frame.guessed";

/// Values of [`FRAME_TYPE`]: those of the [conventions][profiles], and
/// [`ABORT_MARKER`](frame_type::ABORT_MARKER).
///
/// [profiles]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/profile/
pub(crate) mod frame_type {
    /// Machine code of an unknown or another compiler.
    pub(crate) const NATIVE: &str = "native";
    /// Kernel code.
    pub(crate) const KERNEL: &str = "kernel";
    /// Machine code of the Go compiler.
    pub(crate) const GO: &str = "go";
    /// Machine code of the Rust compiler.
    pub(crate) const RUST: &str = "rust";
    /// [Erlang's virtual machine](https://en.wikipedia.org/wiki/BEAM_(Erlang_virtual_machine)).
    pub(crate) const BEAM: &str = "beam";
    /// [CPython](https://en.wikipedia.org/wiki/CPython).
    pub(crate) const CPYTHON: &str = "cpython";
    /// [.NET](https://wikipedia.org/wiki/.NET).
    pub(crate) const DOTNET: &str = "dotnet";
    /// [Java virtual machine](https://en.wikipedia.org/wiki/Java_virtual_machine).
    pub(crate) const JVM: &str = "jvm";
    /// [Perl](https://en.wikipedia.org/wiki/Perl).
    pub(crate) const PERL: &str = "perl";
    /// [PHP](https://en.wikipedia.org/wiki/PHP).
    pub(crate) const PHP: &str = "php";
    /// [Ruby](https://en.wikipedia.org/wiki/Ruby_(programming_language)).
    pub(crate) const RUBY: &str = "ruby";
    /// [V8](https://en.wikipedia.org/wiki/V8_(JavaScript_engine)).
    pub(crate) const V8JS: &str = "v8js";
    /// No code: a marker with the reason why a stack is incomplete. Not in the conventions, but in
    /// wide use.
    pub(crate) const ABORT_MARKER: &str = "abort-marker";

    /// The types that all known consumers accept; devfiler rejects a whole request for any other
    /// one.
    pub(crate) const ACCEPTED: [&str; 12] =
        [NATIVE, KERNEL, GO, BEAM, CPYTHON, DOTNET, JVM, PERL, PHP, RUBY, V8JS, ABORT_MARKER];
}

/// Sample type and unit of ticks.
pub(crate) const SAMPLES: (&str, &str) = ("samples", "count");
/// Period type and unit of ticks.
pub(crate) const CPU: (&str, &str) = ("cpu", "nanoseconds");

/// Returns the sample type of a kind other than CPU time: `off_cpu` for `off-cpu`.
pub(crate) fn type_name(kind: &SampleKind) -> String {
    kind.name().replace('-', "_")
}

/// The name of the instrumentation scope.
pub(crate) const SCOPE_NAME: &str = "ebpf-profiler";
