//! The object for kernels without `bpf_loop`, and what it has to be told about them.

use std::env;

use ebpf_programs::OBJECT;
#[cfg(target_arch = "x86_64")]
use ebpf_programs::OBJECT_5_10;

use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::types::KernelTypes;

/// An environment variable that chooses the object for older kernels: for tests.
const WITHOUT_LOOP: &str = "EBPF_PROFILER_WITHOUT_BPF_LOOP";

/// Constants of the object for older kernels.
pub(super) struct Older {
    kernel_stack: [u8; 8],
    has_cookies: [u8; 4],
    has_queue: [u8; 4],
}

impl Older {
    /// Returns the constants for the running kernel; `None` if it has `bpf_loop`, as all that are supported on arm64.
    pub(super) fn of_this_kernel() -> Option<Older> {
        if cfg!(target_arch = "aarch64") {
            return None;
        }
        let is_forced = env::var_os(WITHOUT_LOOP).is_some_and(|value| value == "1");
        (is_forced || KernelFeature::Loop.is_missing()).then(Older::new)
    }

    fn new() -> Older {
        Older {
            kernel_stack: kernel_stack(),
            has_cookies: u32::from(!KernelFeature::LinkCookies.is_missing()).to_ne_bytes(),
            has_queue: u32::from(has_queue()).to_ne_bytes(),
        }
    }

    /// Returns the constants by name.
    pub(super) fn constants(&self) -> Vec<(&'static str, &[u8])> {
        vec![
            ("KERNEL_STACK", &self.kernel_stack),
            ("HAS_COOKIES", &self.has_cookies),
            ("HAS_QUEUE", &self.has_queue),
        ]
    }
}

/// Returns the kernel object for constants of older kernels, or for none.
pub(super) fn object(older: Option<&Older>) -> &'static [u8] {
    match older {
        #[cfg(target_arch = "x86_64")]
        Some(_) => OBJECT_5_10,
        _ => OBJECT,
    }
}

/// Returns `true` if requests of disks are issued with their queue: the tracepoint's description has this argument, the request, and
/// the program's own.
fn has_queue() -> bool {
    let types = KernelTypes::of_this_kernel();
    types.is_ok_and(|mut types| types.parameters_of("btf_trace_block_bio_queue") == Some(3))
}

/// Returns the offset of the pointer to a thread's kernel stack, and the size of the stack. Without type information they are 0: then
/// stacks of threads in the kernel end there.
fn kernel_stack() -> [u8; 8] {
    const SIZE: u32 = 16 << 10;
    let types = KernelTypes::of_this_kernel();
    let [at, size] = types.map_or([0; 2], |mut types| {
        let mut offset = |member| types.offset("task_struct", member);
        // A kernel that checks its addresses (CONFIG_KASAN) has larger stacks.
        let size = if offset("kasan_depth").is_some() { 2 * SIZE } else { SIZE };
        [offset("stack").unwrap_or(0), size]
    });
    (u64::from(size) << 32 | u64::from(at)).to_le_bytes()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use ebpf_programs::abi::interpreter::walker;

    use super::*;
    use crate::live::kernel::memlock;
    use crate::live::kernel::object::KernelObject;

    /// Programs for off-CPU time and fentry, which need later kernels for other reasons.
    const LATER: [&str; 9] = [
        "switched",
        "resumed",
        "woken",
        "waking",
        "walk_resumed",
        "walk_waking",
        "function_entered",
        "function_begun",
        "function_left",
    ];

    #[test]
    #[ignore = "loads programs, so it wants root"]
    fn the_kernel_accepts_the_programs_for_older_kernels() {
        test_needs::root!();
        memlock::raise();
        let parsed = aya_obj::Object::parse(OBJECT_5_10).unwrap();
        let names: Vec<&str> = parsed.programs.keys().map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !LATER.contains(name)).collect();
        let older = Older::new();
        // Those of all languages are more than these verifiers follow.
        let walkers = (1u32 << walker::LIST).to_ne_bytes();
        let constants = [&[("WALKERS", &walkers[..])], &older.constants()[..]].concat();
        let object = KernelObject::new(OBJECT_5_10, &names, &["KICKS"], &[], &constants).unwrap();
        assert!(names.len() >= 20, "{names:?}");
        for name in names {
            let error = object.program(name).err().map(|error| error.to_string());
            println!("{name} {}", if error.is_none() { "accepted" } else { "rejected" });
            assert_eq!(error, None, "{name}");
        }
    }
}
