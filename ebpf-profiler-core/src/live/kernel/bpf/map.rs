//! Maps of the kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::request::{Batch, Element, MapCreate, Pin, call, command, open, short_name};

/// Type, sizes and flags of a map.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::live) struct Shape {
    pub(in crate::live) kind: u32,
    pub(in crate::live) key_size: u32,
    pub(in crate::live) value_size: u32,
    pub(in crate::live) entries: u32,
    pub(in crate::live) flags: u32,
}

/// A map of the kernel.
#[derive(Debug)]
pub(in crate::live) struct Map {
    fd: OwnedFd,
    shape: Shape,
}

impl Map {
    /// Creates a map. A map of maps needs `inner`, which has the shape of its elements.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the map.
    pub(in crate::live) fn create(name: &str, shape: Shape, inner: Option<&Map>) -> io::Result<Map> {
        let mut request = MapCreate {
            shape: [shape.kind, shape.key_size, shape.value_size, shape.entries, shape.flags],
            inner: inner.map_or(0, |inner| inner.fd.as_raw_fd()),
            numa_node: 0,
            name: short_name(name),
        };
        // SAFETY: the request holds no address.
        let fd = unsafe { open(command::MAP_CREATE, &mut request)? };
        Ok(Map { fd, shape })
    }

    /// Opens the map again.
    ///
    /// # Errors
    ///
    /// Fails if there are too many open files.
    pub(in crate::live) fn try_clone(&self) -> io::Result<Map> {
        Ok(Map { fd: self.fd.try_clone()?, shape: self.shape })
    }

    /// Returns its number of entries.
    pub(in crate::live) fn entries(&self) -> u32 {
        self.shape.entries
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    ///
    /// Fails if the sizes differ from those of the map, or it is full.
    pub(in crate::live) fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        const ANY: u64 = 0;
        self.update(key, value, ANY)
    }

    /// Sets the value of `key`, if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value, or the sizes differ from those of the map.
    pub(in crate::live) fn replace(&self, key: u32, value: &[u8]) -> io::Result<()> {
        const EXISTING: u64 = 2;
        self.update(key, value, EXISTING)
    }

    fn update(&self, key: u32, value: &[u8], flags: u64) -> io::Result<()> {
        if (self.shape.key_size, self.shape.value_size as usize) != (4, value.len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Element { flags, ..Element::new(&self.fd, &key, value.as_ptr()) };
        // SAFETY: key and value have the sizes of the map and outlive the call.
        unsafe { call(command::MAP_UPDATE, &mut request) }.map(drop)
    }

    /// Sets an element of a map of maps.
    ///
    /// # Errors
    ///
    /// Fails if the shape of `map` differs from that of the elements.
    pub(in crate::live) fn set_map(&self, key: u32, map: &Map) -> io::Result<()> {
        self.set(key, &map.fd.as_raw_fd().to_ne_bytes())
    }

    /// Sets an element of an array of programs.
    ///
    /// # Errors
    ///
    /// Fails if the program is of another type than the others that were set, or than those that
    /// use the array.
    pub(in crate::live) fn set_program(&self, key: u32, program: &OwnedFd) -> io::Result<()> {
        self.set(key, &program.as_raw_fd().to_ne_bytes())
    }

    /// Pins the map to `path` in a BPF file system.
    ///
    /// # Errors
    ///
    /// Fails if the path exists or is in another file system.
    pub(in crate::live) fn pin(&self, path: &CStr) -> io::Result<()> {
        let mut request = Pin { path: path.as_ptr() as u64, fd: self.fd.as_raw_fd(), flags: 0 };
        // SAFETY: the path ends with a zero byte and outlives the call.
        unsafe { call(command::PIN, &mut request) }.map(drop)
    }

    /// Forbids user space to write to the map.
    ///
    /// # Errors
    ///
    /// Fails if it is mapped for writing.
    pub(in crate::live) fn freeze(&self) -> io::Result<()> {
        // SAFETY: the request holds no address.
        unsafe { call(command::MAP_FREEZE, &mut self.fd.as_raw_fd()) }.map(drop)
    }

    /// Removes `key`.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value.
    pub(in crate::live) fn remove(&self, key: u32) -> io::Result<()> {
        if self.shape.key_size != 4 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Element::new(&self.fd, &key, std::ptr::null());
        // SAFETY: the key has the size of the map's keys and outlives the call.
        unsafe { call(command::MAP_DELETE, &mut request) }.map(drop)
    }
}

/// A position among the entries of a hash map.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::live) struct Batches {
    next: u32,
    has_begun: bool,
    is_last: bool,
}

impl Batches {
    /// Returns `true` once all entries were read.
    pub(in crate::live) fn is_last(&self) -> bool {
        self.is_last
    }
}

impl Map {
    /// Reads the entries at `batches`, and moves it on. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the sizes differ from those of the map, or too many entries have the same hash.
    pub(in crate::live) fn read_batch<const K: usize, const V: usize>(
        &self,
        batches: &mut Batches,
        keys: &mut [[u64; K]],
        values: &mut [[u64; V]],
    ) -> io::Result<usize> {
        if (self.shape.key_size as usize, self.shape.value_size as usize) != (K * 8, V * 8) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut next = 0u32;
        let mut request = Batch {
            from: if batches.has_begun { &raw const batches.next as u64 } else { 0 },
            to: &raw mut next as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: keys.len().min(values.len()) as u32,
            map: self.fd.as_raw_fd(),
            flags: [0; 2],
        };
        // SAFETY: keys and values have the sizes of the map and room for the count, the positions those of
        // a hash map's; all outlive the call.
        let read = unsafe { call(command::MAP_LOOKUP_BATCH, &mut request) };
        match read {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => batches.is_last = true,
            Err(error) => return Err(error),
        }
        (batches.next, batches.has_begun) = (next, true);
        Ok(request.count as usize)
    }

    /// Removes a key of whole words.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value, or its size differs from that of the map's keys.
    pub(in crate::live) fn remove_words(&self, key: &[u64]) -> io::Result<()> {
        if self.shape.key_size as usize != size_of_val(key) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request =
            Element { key: key.as_ptr() as u64, ..Element::new(&self.fd, &0, std::ptr::null()) };
        // SAFETY: the key has the size of the map's keys and outlives the call.
        unsafe { call(command::MAP_DELETE, &mut request) }.map(drop)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
