//! The semantic conventions that this crate speaks, version 1.44.0: the one place with their spelling.
//!
//! Sources: [profiles], [process], [thread], [container], [host], [service].
//!
//! [profiles]: https://opentelemetry.io/docs/specs/semconv/general/profiles/
//! [process]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/process/
//! [thread]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/thread/
//! [container]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/container/
//! [host]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/host/
//! [service]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/service/

/// Says which version the names below belong to.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Resource: the process id in the initial namespace, an integer.
pub const PROCESS_PID: &str = "process.pid";
/// Resource: when the process was created, ISO 8601; with the id it names a process for good.
pub const PROCESS_CREATION_TIME: &str = "process.creation.time";
/// Resource: the path of the executable.
pub const PROCESS_EXECUTABLE_PATH: &str = "process.executable.path";
/// Resource: the last part of that path.
pub const PROCESS_EXECUTABLE_NAME: &str = "process.executable.name";
/// Resource: the container that the process runs in.
pub const CONTAINER_ID: &str = "container.id";
/// Resource: the name of the machine.
pub const HOST_NAME: &str = "host.name";
/// Resource: what never changes about the machine.
pub const HOST_ID: &str = "host.id";
/// Resource: the service, where somebody gave it a name.
pub const SERVICE_NAME: &str = "service.name";

/// Sample: the thread's id in the initial namespace, an integer.
pub const THREAD_ID: &str = "thread.id";
/// Sample: the thread's name.
pub const THREAD_NAME: &str = "thread.name";

/// Mapping: the GNU build id, hexadecimal.
pub const BUILD_ID_GNU: &str = "process.executable.build_id.gnu";
/// Mapping: the Go build id, text.
pub const BUILD_ID_GO: &str = "process.executable.build_id.go";
/// Mapping: the hash of the file's head, tail and length; see [`htlhash`](crate::identity::htlhash).
pub const BUILD_ID_HTLHASH: &str = "process.executable.build_id.htlhash";

/// Location: what kind of code it is, see [`frame_type`].
pub const FRAME_TYPE: &str = "profile.frame.type";
/// Location, ours: true where the frame was found through a frame pointer that nothing vouches for.
pub const FRAME_GUESSED: &str = "ebpf_profiler.frame.guessed";

/// Values of [`FRAME_TYPE`]: those of the [conventions][profiles], and one.
///
/// [profiles]: https://opentelemetry.io/docs/specs/semconv/registry/attributes/profile/
pub mod frame_type {
    /// Machine code of which nothing more precise is known.
    pub const NATIVE: &str = "native";
    /// The kernel.
    pub const KERNEL: &str = "kernel";
    /// Machine code made by the Go compiler.
    pub const GO: &str = "go";
    /// Machine code made by the Rust compiler.
    pub const RUST: &str = "rust";
    /// [Erlang's machine](https://en.wikipedia.org/wiki/BEAM_(Erlang_virtual_machine)).
    pub const BEAM: &str = "beam";
    /// [CPython](https://en.wikipedia.org/wiki/CPython).
    pub const CPYTHON: &str = "cpython";
    /// [.NET](https://wikipedia.org/wiki/.NET).
    pub const DOTNET: &str = "dotnet";
    /// [Java's machine](https://en.wikipedia.org/wiki/Java_virtual_machine).
    pub const JVM: &str = "jvm";
    /// [LuaJIT](https://en.wikipedia.org/wiki/LuaJIT).
    pub const LUAJIT: &str = "luajit";
    /// [Perl](https://en.wikipedia.org/wiki/Perl).
    pub const PERL: &str = "perl";
    /// [PHP](https://en.wikipedia.org/wiki/PHP).
    pub const PHP: &str = "php";
    /// [Ruby](https://en.wikipedia.org/wiki/Ruby_(programming_language)).
    pub const RUBY: &str = "ruby";
    /// [V8](https://en.wikipedia.org/wiki/V8_(JavaScript_engine)).
    pub const V8JS: &str = "v8js";
    /// Not code: says why a stack is not whole. Not in the conventions, but in wide use.
    pub const ABORT_MARKER: &str = "abort-marker";

    /// Those that no consumer we know refuses: devfiler answers any other with an error for the whole request.
    pub const ACCEPTED: [&str; 12] =
        [NATIVE, KERNEL, GO, BEAM, CPYTHON, DOTNET, JVM, PERL, PHP, RUBY, V8JS, ABORT_MARKER];
}

/// What ticks are counted in: type and unit.
pub const SAMPLES: (&str, &str) = ("samples", "count");
/// What the time between two ticks is measured in: type and unit.
pub const CPU: (&str, &str) = ("cpu", "nanoseconds");

/// What the time is measured in that threads did not run: type and unit.
pub const OFF_CPU: (&str, &str) = ("off_cpu", "nanoseconds");

/// The instrumentation scope: who made the profile.
pub const SCOPE_NAME: &str = "ebpf-profiler";
