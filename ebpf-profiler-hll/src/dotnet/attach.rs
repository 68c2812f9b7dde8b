//! Attaches to a process that runs .NET.

use ebpf_profiler_core::language::{Attachment, CodeRanges, FrameWalker, Memory, Reason, Target};
use ebpf_programs::abi::dotnet::{MAX_ENTRIES, parameter};
use ebpf_programs::abi::interpreter::walker;

use super::layout::{LAYOUTS, Layout, precompiled};
use super::name::Names;
use super::sections::{Section, first_image, words};

/// Attaches by the table of variables, at a virtual address of the file.
pub(super) fn attach(variables: u64, target: &Target<'_>) -> Result<Attachment, Reason> {
    let memory = target.memory();
    let map = target.word(variables)?;
    if map == 0 {
        return Err(Reason::NotReady);
    }
    let found = first_image(map, memory, |image| {
        Some(LAYOUTS.into_iter().find(|layout| fits(layout, image, memory).unwrap_or(false)))
    })?;
    // The first image is that of the core library: without one the runtime starts.
    let layout = found.ok_or(Reason::NotReady)?.ok_or(Reason::Implausible)?;
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::MAP] = map;
    parameters[parameter::HAS_DISTANCES] = layout.has_distances;
    parameters[parameter::PRECOMPILED] = layout.precompiled;
    parameters[parameter::ENTRIES] = precompiled::ENTRIES;
    let walker =
        FrameWalker::with_parameters(walker::DOTNET, None, &parameters).map_err(|_| Reason::Unsupported)?;
    let code = CodeRanges::new([]).with_anonymous().with_shared_memory().with_images();
    Ok(Attachment::new(walker, Names { layout, map }).with_code(code))
}

/// Returns `true` if a precompiled image's module has this layout: it leads to the image and, through
/// its data of precompiled code, back to itself and to entries in the image.
fn fits(layout: &Layout, image: &Section, memory: &dyn Memory) -> Result<bool, Reason> {
    let data = memory.u64(image.module.wrapping_add(layout.precompiled))?;
    let [entries, count] = words(data.wrapping_add(precompiled::ENTRIES), memory)?;
    let count = count & 0xffff_ffff;
    Ok(memory.u64(image.module.wrapping_add(layout.image))? == image.start
        && memory.u64(data.wrapping_add(precompiled::MODULE))? == image.module
        && entries > image.start
        && (1..=MAX_ENTRIES).contains(&count))
}
