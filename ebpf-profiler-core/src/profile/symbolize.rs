//! Names for a finished profile.

use std::sync::Arc;

use super::naming::{Naming, order};
use super::{Data, Profile};
use crate::symbol::Symbolizer;
use crate::trace::Frame;

impl Profile {
    /// Names the frames that have no name yet: those of a profiler with
    /// [`NoSymbols`](crate::symbol::NoSymbols), or of a [decoded](Profile::decode) profile.
    /// Other names stay.
    ///
    /// [`Symbols`](crate::symbol::Symbols) finds a file by its path and checks its build id. On
    /// another machine than the profile's, a file without a build id, or with another one,
    /// gives no names. Kernel frames are named if the symbolizer [has](Symbolizer::has_kernel)
    /// the kernel that was sampled. In general it has the kernel of this machine, until the next
    /// boot. A profiler with [`KernelSymbols`](crate::symbol::KernelSymbols) names them at
    /// once. JIT-compiled code and scripts cannot be named later.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ebpf_profiler_core::{profile::Profile, symbol::Symbols};
    ///
    /// let profile = Profile::decode(std::fs::File::open("machine.profile")?)?;
    /// profile.symbolize(&mut Symbols::default()).write("machine.html")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "returns the profile with names"]
    pub fn symbolize(self, symbolizer: &mut dyn Symbolizer) -> Profile {
        let Profile { data, selected } = self;
        let mut data = Arc::try_unwrap(data).unwrap_or_else(|shared| Data::clone(&shared));
        let frames: Vec<Frame> = data.frames.iter().map(|named| named.frame).collect();
        let known = std::mem::take(&mut data.names);
        let naming = Naming::again(std::mem::take(&mut data.frames), known, &data.modules, &data.scripts);
        let has_kernel = !data.boot_id.is_empty() && symbolizer.has_kernel(&data.boot_id);
        let naming = if has_kernel { naming } else { naming.without_kernel() };
        (data.names, data.frames) = naming.run(&order(&frames), symbolizer);
        Profile { data: Arc::new(data), selected }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::process::{Module, ModuleId};
    use crate::profile::{Process, ProfileBuilder, Thread};
    use crate::symbol::{NoSymbols, Symbol};
    use crate::trace::{Found, Stop, Trace};

    /// Names addresses below 100 in files, and those of the kernel with boot id `here`.
    struct Below100(&'static str);

    impl Symbolizer for Below100 {
        fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
            for (index, address) in addresses.iter().enumerate().filter(|(_, address)| **address < 100) {
                name(index, &[Symbol::new(format!("{}{address}", self.0))]);
            }
        }

        fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
            (0..addresses.len()).for_each(|index| name(index, &[Symbol::new("kernel")]));
        }

        fn starts(&mut self, _: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
            (0..addresses.len()).for_each(|index| begin(index, addresses[index] / 100 * 100));
        }

        fn has_kernel(&self, boot_id: &str) -> bool {
            boot_id == "here"
        }
    }

    /// Returns a profile of frames at 7, 250 and in the kernel, without names.
    fn unnamed(boot_id: &str) -> Profile {
        let mut builder = ProfileBuilder::new(Duration::ZERO);
        builder.set_boot_id(boot_id.into());
        let process = builder.process(Process::new(1));
        let thread = builder.thread(Thread::new(process, 1, "t"));
        let native = |address| Frame::Native { module: ModuleId(0), address, found: Found::Exactly };
        let frames = [Frame::Kernel { address: 1 << 63 }, native(7), native(250)];
        builder.add(thread, &Trace::new(frames.as_slice(), Stop::Root), 0);
        let module = |_| Some(Module::new("/a/f"));
        builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, module, &mut NoSymbols)
    }

    fn names(profile: &Profile) -> Vec<String> {
        profile.samples().flat_map(|sample| sample.trace().frames()).map(|frame| frame.to_string()).collect()
    }

    #[test]
    fn frames_are_named_later_and_names_stay() {
        let profile = unnamed("here");
        assert_eq!(names(&profile), ["[kernel]", "f+0x7", "f+0xfa"]);
        let mut bytes = Vec::new();
        profile.encode(&mut bytes).unwrap();
        let named = Profile::decode(&bytes[..]).unwrap().symbolize(&mut Below100("a"));
        assert_eq!(names(&named), ["kernel", "a7", "f+0xc8"]);
        assert_eq!(names(&named.clone().symbolize(&mut Below100("b"))), names(&named));
        assert_eq!(names(&named.symbolize(&mut NoSymbols)), ["kernel", "a7", "f+0xc8"]);
    }

    #[test]
    fn kernel_of_another_boot_names_nothing() {
        for boot_id in ["", "there"] {
            let named = unnamed(boot_id).symbolize(&mut Below100("a"));
            assert_eq!(names(&named), ["[kernel]", "a7", "f+0xc8"]);
        }
        let merged = Profile::merge([&unnamed("here"), &unnamed("there")]).unwrap();
        assert_eq!(names(&merged.symbolize(&mut Below100("a")))[0], "[kernel]");
    }

    #[test]
    fn kind_of_a_part_stays() {
        let profile = unnamed("here").of_kind(1).symbolize(&mut Below100("a"));
        assert_eq!((profile.kinds().len(), profile.samples().len()), (0, 0));
    }
}
