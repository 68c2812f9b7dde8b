//! Attaches to a process that runs .NET.
//!
//! ```text
//!   map of code ranges ─┬─ a precompiled image: its module leads to its start ────────► layout, offsets of precompiled code
//!                       └─ no image, but a method: its module leads to metadata with it ──► layout
//! ```

use std::cell::Cell;

use ebpf_profiler_core::language::{Attachment, CodeRanges, FrameWalker, Memory, Reason, Target};
use ebpf_programs::abi::dotnet::parameter;
use ebpf_programs::abi::interpreter::walker;

use super::layout::{LAYOUTS, Layout, precompiled};
use super::name::Names;
use super::precompiled::Offsets;
use super::sections::first;
use super::{heap, method};

/// Maximum number of images that are tried. The core library's image is among the first.
const MAX_IMAGES: u32 = 16;

/// Offset of the data of precompiled code if it is unknown: no process has memory there.
const UNREADABLE: u64 = 1 << 63;

/// Attaches by the table of variables, at a virtual address of the file, and by the function that
/// replaces return addresses.
pub(super) fn attach(
    variables: u64,
    major: Option<u32>,
    hijack: Option<u64>,
    target: &Target<'_>,
) -> Result<Attachment, Reason> {
    let layouts: Vec<_> =
        LAYOUTS.iter().filter(|layout| major.is_none_or(|major| major == layout.major)).collect();
    if layouts.is_empty() {
        return Err(Reason::Unsupported);
    }
    let memory = target.memory();
    let map = target.word(variables)?;
    if map == 0 {
        return Err(Reason::NotReady);
    }
    let (layout, offsets) = match by_image(map, &layouts, memory)? {
        Some((layout, offsets)) => (layout, Some(offsets)),
        None => (by_method(map, &layouts, memory)?.ok_or(Reason::NotReady)?, None),
    };
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::MAP] = map;
    parameters[parameter::HAS_DISTANCES] = layout.has_distances;
    parameters[parameter::PRECOMPILED] = offsets.map_or(UNREADABLE, |offsets| offsets.data);
    parameters[parameter::ENTRIES] = precompiled::ENTRIES;
    parameters[parameter::DYNAMIC_NAME] = layout.dynamic_name;
    if let (Some(hijack), Some(threads)) = (hijack, threads(variables, layout, target)) {
        parameters[parameter::HIJACKED] = target.address(hijack);
        parameters[parameter::THREADS] = threads;
        parameters[parameter::ORIGINAL] = layout.threads.original;
    }
    let walker =
        FrameWalker::with_parameters(walker::DOTNET, None, &parameters).map_err(|_| Reason::Unsupported)?;
    let code = CodeRanges::new([]).with_anonymous().with_shared_memory().with_images();
    Ok(Attachment::new(walker, Names { layout: *layout, offsets, map }).with_code(code))
}

/// Returns the layout by which the module of a precompiled image leads to the image, and the offsets
/// of precompiled code; `None` if there is no image. Fails if there are some, and none has both yet.
fn by_image<'l>(
    map: u64,
    layouts: &[&'l Layout],
    memory: &dyn Memory,
) -> Result<Option<(&'l Layout, Offsets)>, Reason> {
    let (tried, failed) = (Cell::new(0), Cell::new(None));
    let found = first(map, memory, |section| {
        if section.module == 0 || tried.replace(tried.get() + 1) >= MAX_IMAGES {
            return None;
        }
        let leads = |layout: &&&Layout| method::image_of(section.module, layout, memory) == Ok(section.start);
        let layout = layouts.iter().find(leads).copied().ok_or(Reason::Implausible);
        let found = layout.and_then(|layout| Ok((layout, Offsets::derive(section, memory)?)));
        failed.set(found.as_ref().err().copied());
        found.ok()
    })?;
    match (found, failed.get()) {
        (None, Some(reason)) => Err(reason),
        (found, _) => Ok(found),
    }
}

/// Returns the layout by which a method's module leads to metadata that has the method; `None` if
/// there is no method yet.
fn by_method<'l>(
    map: u64,
    layouts: &[&'l Layout],
    memory: &dyn Memory,
) -> Result<Option<&'l Layout>, Reason> {
    let found = first(map, memory, |section| heap::first_method(section, memory).ok().flatten())?;
    let Some(descriptor) = found else { return Ok(None) };
    let fits = |layout: &&&Layout| method::name_of(descriptor, layout, memory).is_ok();
    layouts.iter().find(fits).copied().map(Some).ok_or(Reason::Implausible)
}

/// Returns the address of the link to the first thread.
fn threads(variables: u64, layout: &Layout, target: &Target<'_>) -> Option<u64> {
    let variable = target.word(variables.wrapping_add(layout.threads.list * 8)).ok()?;
    let list = target.memory().u64(variable).ok().filter(|&list| list != 0)?;
    Some(list.wrapping_add(layout.threads.first))
}
