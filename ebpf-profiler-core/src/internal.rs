//! The machinery behind [`Profiler`](crate::Profiler), for the other crates and the tests of this
//! workspace.
//!
//! Not part of the public interface: anything here may change in any release.

pub mod leaves {
    //! Stand-ins for the leaf crates, by their names, in examples of this crate's documentation.

    pub mod ebpf_profiler_unwind {
        //! Unwind tables without a row.

        use crate::elf::{Elf, ElfError};
        use crate::unwind::{Compiled, UnwindCompiler};

        /// Returns a compiler of empty tables.
        pub fn tables() -> impl UnwindCompiler {
            |_: &Elf| -> Result<Compiled, ElfError> { Ok(Compiled::default()) }
        }
    }
}

pub mod files {
    //! See the module of this name in the source.
    pub use crate::files::*;
}

pub mod go {
    //! See the module of this name in the source.
    pub use crate::go::*;
}

pub mod pipeline {
    //! See the module of this name in the source.
    pub use crate::pipeline::*;
}

pub mod process {
    //! The seam between a registry and the machine that it describes.
    pub use crate::process::{Description, System};
}

#[cfg(fuzzing)]
pub mod contexts {
    //! Decoders of what programs publish about themselves.

    use crate::process::context::ProcessContext;
    use crate::sample::CopiedLabels;

    /// Decodes a process context, and with its keys the words of a thread context, both of any bytes.
    pub fn decode(payload: &[u8], words: &[u64], flags: u8) {
        let context = ProcessContext::decode(payload).unwrap_or_default();
        assert!(context.attributes.len() <= 32 && context.keys.len() <= 256);
        let copied = CopiedLabels { words, flags };
        for labels in
            [copied.decode_context(&context.keys).map(|context| context.labels), copied.decode_pairs()]
        {
            assert!(labels.is_none_or(|labels| labels.iter().len() <= crate::profile::Labels::MAX));
        }
    }
}

pub mod registry {
    //! See the module of this name in the source.
    pub use crate::registry::*;
}

pub mod replay {
    //! The writing half of recordings.
    pub use crate::replay::{KernelOnly, RecordOptions, Recorder, RecordingSymbolizer, RecordingSystem};
}

pub mod sample {
    //! See the module of this name in the source.
    pub use crate::sample::*;
}

pub mod tables {
    //! See the module of this name in the source.
    pub use crate::tables::*;
}

pub mod testing {
    //! Fakes of the seams in this module.
    pub use crate::testing::{FakeSource, FakeSystem, FakeTick};
}

pub mod trace {
    //! The walkers of the kernel side on the host.
    pub use crate::trace::Walker;
}

pub mod x86_64 {
    //! See the module of this name in the source.
    pub use crate::x86_64::*;
}
