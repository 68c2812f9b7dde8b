//! Descriptors of methods.
//!
//! ```text
//!   group of methods: table 0 ──► module 24        high bits of tokens 18
//!     descriptor: low bits of its token 0, index in the group 2, kind 6
//! ```

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::dotnet::{DYNAMIC, MODULE};
use ebpf_programs::walk::identity::dotnet::group;

use super::image;
use super::layout::Layout;
use super::metadata::{Metadata, text};
use super::sections::words;
use super::text::name;

/// Kind of the methods of arrays, which have no metadata.
pub(super) const ARRAY: u64 = 4;

/// Maximum size of the name of a dynamic method.
const MAX_NAME: u64 = 1024;

/// Returns the name of a method.
pub(super) fn name_of(descriptor: u64, layout: &Layout, memory: &dyn Memory) -> Result<String, Reason> {
    let first = memory.u64(descriptor)?;
    match first >> 48 & 7 {
        DYNAMIC => {
            let at = memory.u64(descriptor.wrapping_add(layout.dynamic_name))?;
            return text(at, MAX_NAME, memory);
        }
        ARRAY => return Ok("[array]".to_owned()),
        _ => {}
    }
    let [_, _, third] = words(group(descriptor, first), memory)?;
    let row = (third >> 16 & 0xfff) << 12 | first & 0xfff;
    let module = module_of(descriptor, memory)?;
    let (address, size) = metadata_of(module, layout, memory)?;
    Ok(name(&Metadata::read(address, size, memory)?.method(row as u32)?))
}

/// Returns the module of a method's type.
pub(super) fn module_of(descriptor: u64, memory: &dyn Memory) -> Result<u64, Reason> {
    let first = memory.u64(descriptor)?;
    let table = memory.u64(group(descriptor, first))?;
    Ok(memory.u64(table.wrapping_add(MODULE))?)
}

/// Returns address and size of a module's metadata: that of its image, or that which the runtime has
/// saved of an assembly that was generated.
fn metadata_of(module: u64, layout: &Layout, memory: &dyn Memory) -> Result<(u64, u32), Reason> {
    if let Some(generated) = layout.generated {
        let generated = memory.u64(module.wrapping_add(generated))?;
        if generated != 0 {
            return Ok((generated.wrapping_add(4), memory.u32(generated)?));
        }
    }
    image::metadata(image_of(module, layout, memory)?, memory)
}

/// Returns the start of a module's image.
pub(super) fn image_of(module: u64, layout: &Layout, memory: &dyn Memory) -> Result<u64, Reason> {
    let next = |at: u64, offset: &u64| Ok(memory.u64(at.wrapping_add(*offset))?);
    layout.image.iter().try_fold(module, next)
}
