//! Bounded, fallible reads of a process's memory.

/// Memory of a process: live, recorded, or in a core dump. Closures implement it too.
pub trait Memory {
    /// Fills `buffer` with the bytes at `address`.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless all of them are mapped.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable>;
}

/// The error of a read of memory that is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl<F> Memory for F
where
    F: Fn(u64, &mut [u8]) -> Result<(), Unreadable>,
{
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self(address, buffer)
    }
}

impl dyn Memory + '_ {
    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless all of them are mapped.
    pub fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], Unreadable> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads eight bytes as a little-endian number.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless all of them are mapped.
    pub fn u64(&self, address: u64) -> Result<u64, Unreadable> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Reads four bytes as a little-endian number.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless all of them are mapped.
    pub fn u32(&self, address: u64) -> Result<u32, Unreadable> {
        self.array(address).map(u32::from_le_bytes)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless all of them are mapped and `len` is at most `limit`.
    pub fn bytes(&self, address: u64, len: u64, limit: usize) -> Result<Vec<u8>, Unreadable> {
        let len = usize::try_from(len).ok().filter(|&len| len <= limit).ok_or(Unreadable)?;
        let mut bytes = vec![0; len];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0];
        let at = usize::try_from(address).map_err(|_| Unreadable)?;
        buffer.copy_from_slice(bytes.get(at..).and_then(|rest| rest.get(..buffer.len())).ok_or(Unreadable)?);
        Ok(())
    }

    #[test]
    fn reads_only_mapped_bytes() {
        let memory: &dyn Memory = &memory;
        assert_eq!(memory.u64(0), Ok(2 << 32 | 1));
        assert_eq!(memory.u32(4), Ok(2));
        assert_eq!(memory.u64(1), Err(Unreadable));
        assert_eq!(memory.bytes(3, 2, 2), Ok(vec![0, 2]));
        assert_eq!(memory.bytes(3, 3, 2), Err(Unreadable));
        assert_eq!(memory.bytes(0, u64::MAX, 8), Err(Unreadable));
    }
}
