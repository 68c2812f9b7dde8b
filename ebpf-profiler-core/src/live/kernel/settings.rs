//! The configuration of the running kernel side.

use std::io;

use ebpf_programs::abi::config::Config;
use ebpf_programs::abi::uretprobe::UretprobeOffsets;

use super::bpf::Map;

/// The configuration that was written last.
pub(in crate::live) struct Settings {
    map: Map,
    config: Config,
}

impl Settings {
    /// Writes `config` into `map`.
    pub(in crate::live) fn new(map: Map, config: Config) -> io::Result<Settings> {
        let mut settings = Settings { map, config };
        settings.renew()?;
        Ok(settings)
    }

    /// Increments the table generation, which invalidates cached rules.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        self.config.table_generation = self.config.table_generation.wrapping_add(1).max(1);
        let Config {
            version,
            wakeup_bytes,
            excluded_pid,
            fsbase_offset,
            pid_offset,
            tgid_offset,
            table_generation,
            full_copies,
            walk_nanos,
            reserved,
            uretprobes:
                UretprobeOffsets {
                    memory,
                    area,
                    trampoline,
                    task,
                    instances,
                    stack,
                    address,
                    next,
                    slot,
                    instruction,
                },
        } = self.config;
        let words = [
            version,
            wakeup_bytes,
            excluded_pid,
            fsbase_offset,
            pid_offset,
            tgid_offset,
            table_generation,
            full_copies,
            walk_nanos,
            reserved,
            memory,
            area,
            trampoline,
            task,
            instances,
            stack,
            address,
            next,
            slot,
            instruction,
        ];
        self.map.set(0, &words.map(u32::to_ne_bytes).concat())
    }
}
