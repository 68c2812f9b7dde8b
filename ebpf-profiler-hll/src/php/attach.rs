//! Attaches to a process that runs PHP.

use ebpf_profiler_core::language::{Attachment, CodeRanges, FramePath, FrameWalker, Reason, Target};
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::php::parameter;

use super::find::{Globals, RuntimeFacts};
use super::name::Names;
use crate::thread_local;

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let path = path(facts, target)?;
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

/// Returns the path to the innermost frame.
fn path(facts: &RuntimeFacts, target: &Target<'_>) -> Result<FramePath, Reason> {
    let current = u64::from(facts.offsets.current);
    match facts.globals {
        Globals::OfProcess { address } => {
            Ok(FramePath::from_address(target.address(address).wrapping_add(current), &[]))
        }
        Globals::OfThread { memory, distance } => {
            let mut path = thread_local::path(memory, target)?;
            path.push(match target.word(distance)? {
                // The memory of threads begins with a table.
                0 => return Err(Reason::NotReady),
                distance @ ..MAX_DISTANCE => (distance + current) as i64,
                _ => return Err(Reason::Implausible),
            });
            Ok(FramePath::from_thread_pointer(&path))
        }
    }
}

/// Upper bound of plausible distances of the globals in a thread's memory, in bytes.
const MAX_DISTANCE: u64 = 1 << 20;

/// Returns the parameters of the kernel side's walker, with an address of the loop in the process.
fn parameters(facts: &RuntimeFacts, resume: u64) -> [u64; parameter::COUNT] {
    let (offsets, generator) = (&facts.offsets, facts.offsets.generator);
    let register = facts.opline.map_or(0, |register| u64::from(register) + 1);
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::FUNCTION] = u64::from(offsets.identity())
        | u64::from(generator.node) << 16
        | u64::from(generator.child) << 32
        | u64::from(generator.placeholder) << 48;
    parameters[parameter::GENERATOR] = u64::from(generator.frame)
        | register << 16
        | u64::from(offsets.last_shift()) << 24
        | u64::from(offsets.filename) << 32;
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
        RuntimeFacts { offsets, globals: Globals::OfProcess { address: 0 }, opline, frame }
    };
    let frame = LoopFrame { size: 160, resume: 0x1000 };
    let all = parameters(&facts(2, Some(15), Some(frame)), 0x5000);
    assert_eq!(all, [0x00b8_0010_0098_0048, 0x98_0010_0038, 160, 0x5000]);
    assert_eq!(parameters(&facts(2, None, None), 0)[1..], [0x98_0000_0038, 0, 0]);
    assert_eq!(parameters(&facts(3, None, None), 0)[1], 0x90_2000_0038);
}
