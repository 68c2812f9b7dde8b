//! Attaches to a process that runs PHP.

use ebpf_profiler_core::language::{Attachment, CodeRanges, FramePath, FrameWalker, Reason, Target};
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::php::parameter;

use super::find::RuntimeFacts;
use super::name::Names;

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let path = FramePath::from_address(target.address(facts.current), &[]);
    let resume = facts.frame.map_or(0, |frame| target.address(frame.resume));
    let walker = FrameWalker::with_parameters(walker::PHP, Some(path), &parameters(facts, resume))
        .map_err(|_| Reason::Unsupported)?;
    let attachment = Attachment::new(walker, Names::new(facts.offsets));
    // Code of the JIT is at the end of opcache's memory, which the processes of a server share.
    Ok(match facts.frame {
        Some(_) => attachment.with_code(CodeRanges::new([]).with_shared_memory()),
        None => attachment,
    })
}

/// Returns the parameters of the kernel side's walker, with an address of the loop in the process.
fn parameters(facts: &RuntimeFacts, resume: u64) -> [u64; parameter::COUNT] {
    let (offsets, generator) = (&facts.offsets, facts.offsets.generator);
    let register = facts.opline.map_or(0, |register| u64::from(register) + 1);
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::FUNCTION] = u64::from(offsets.identity())
        | u64::from(generator.node) << 16
        | u64::from(generator.child) << 32
        | u64::from(generator.placeholder) << 48;
    parameters[parameter::GENERATOR] =
        u64::from(generator.frame) | register << 16 | u64::from(offsets.last_shift()) << 24;
    parameters[parameter::FRAME] = facts.frame.map_or(0, |frame| frame.size);
    parameters[parameter::RESUME] = resume;
    parameters
}

#[test]
fn parameters_are_those_of_the_kernel_side() {
    use super::jit::LoopFrame;
    use super::offsets::Offsets;
    use super::version::Version;

    let facts = |minor, opline, frame| {
        let offsets = Offsets::of(Version(8, minor)).unwrap();
        RuntimeFacts { offsets, current: 0, opline, frame }
    };
    let frame = LoopFrame { size: 160, resume: 0x1000 };
    let all = parameters(&facts(2, Some(15), Some(frame)), 0x5000);
    assert_eq!(all, [0x00b8_0010_0098_0048, 0x10_0038, 160, 0x5000]);
    assert_eq!(parameters(&facts(2, None, None), 0)[1..], [56, 0, 0]);
    assert_eq!(parameters(&facts(3, None, None), 0)[1], 0x2000_0038);
}
