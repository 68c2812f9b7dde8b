//! Fakes for tests of sinks, sources, pipelines and languages.

mod language;

mod profile;

mod source;

mod system;

mod tick;

pub use language::language;
pub use profile::profile;
#[doc(hidden)]
pub use source::FakeSource;
#[doc(hidden)]
pub use system::FakeSystem;
#[doc(hidden)]
pub use tick::FakeTick;
