//! Stand-ins for whoever tests a sink, a source, a pipeline or a language.

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
