//! Attaches to a process that runs PHP.

use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Reason, Target};
use ebpf_programs::abi::interpreter::walker;

use super::find::RuntimeFacts;
use super::name::Names;
use super::offsets::Offsets;

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let path = FramePath::from_address(target.address(facts.current), &[]);
    let parameters = parameters(&facts.offsets, facts.opline);
    let walker = FrameWalker::with_parameters(walker::PHP, Some(path), &parameters)
        .map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(facts.offsets)))
}

/// Returns the parameters of the kernel side's walker, whose module has a table of them.
fn parameters(offsets: &Offsets, opline: Option<u8>) -> [u64; 2] {
    let generator = offsets.generator;
    let register = opline.map_or(0, |register| u64::from(register) + 1);
    [
        u64::from(offsets.identity())
            | u64::from(generator.node) << 16
            | u64::from(generator.child) << 32
            | u64::from(generator.placeholder) << 48,
        u64::from(generator.frame) | register << 16 | u64::from(offsets.last_shift()) << 24,
    ]
}

#[test]
fn parameters_are_those_of_the_kernel_side() {
    use super::version::Version;

    let offsets = Offsets::of(Version(8, 2)).unwrap();
    assert_eq!(parameters(&offsets, Some(15)), [0x00b8_0010_0098_0048, 0x10_0038]);
    assert_eq!(parameters(&offsets, None)[1], 56);
    let offsets = Offsets::of(Version(8, 3)).unwrap();
    assert_eq!(parameters(&offsets, None)[1], 0x2000_0038);
}
