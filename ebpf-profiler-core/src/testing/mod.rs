//! Fakes for tests of sinks, sources, pipelines and languages.

mod language;

mod profile;

mod source;

mod system;

mod tick;

pub use language::language;
pub use profile::profile;
pub use source::FakeSource;
pub use system::FakeSystem;
pub use tick::FakeTick;
