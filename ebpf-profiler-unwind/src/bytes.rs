//! A reader over untrusted bytes: every step can fail, none can panic.

/// The bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns the bytes of `data` from `offset` on.
    pub(crate) fn at(data: &'a [u8], offset: usize) -> Option<Bytes<'a>> {
        data.get(offset..).map(Bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes the next `size` bytes.
    pub(crate) fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes the bytes before the next zero and skips that.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let string = self.take(end as u64)?;
        self.u8()?;
        Some(string)
    }

    /// Decodes an unsigned LEB128 number; nearly all have one byte.
    #[inline(always)]
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        match self.u8()? {
            byte @ 0..0x80 => Some(byte.into()),
            byte => {
                // The copy keeps the position in registers when a caller reads many numbers.
                let mut rest = *self;
                let value = rest.long_uleb(byte);
                *self = rest;
                value
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn long_uleb(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(value);
            }
        }
    }

    /// Decodes a signed LEB128 number.
    #[inline]
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift == 63 && byte != 0 && byte != 0x7f {
                return None;
            }
            value |= i64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                let negative = byte & 0x40 != 0 && shift < 64;
                return Some(if negative { value | (-1 << shift) } else { value });
            }
            if shift > 63 {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn unsigned_numbers() {
        assert_eq!(Bytes(&[0x7f]).uleb(), Some(127));
        assert_eq!(Bytes(&[0xe5, 0x8e, 0x26]).uleb(), Some(624_485));
        assert_eq!(Bytes(&[0xff; 12]).uleb(), None);
        assert_eq!(Bytes(&[0x80]).uleb(), None);
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Bytes(&largest).uleb(), Some(u64::MAX));
    }

    #[test]
    fn signed_numbers() {
        assert_eq!(Bytes(&[0x7f]).sleb(), Some(-1));
        assert_eq!(Bytes(&[0x78]).sleb(), Some(-8));
        assert_eq!(Bytes(&[0xc0, 0xbb, 0x78]).sleb(), Some(-123_456));
        assert_eq!(Bytes(&[0x80; 12]).sleb(), None);
        let smallest = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f];
        assert_eq!(Bytes(&smallest).sleb(), Some(i64::MIN));
    }

    #[test]
    fn pieces_end_where_the_bytes_end() {
        let mut bytes = Bytes(b"zR\0\x01\x02");
        assert_eq!(bytes.string(), Some(&b"zR"[..]));
        assert_eq!(bytes.u32(), None);
        assert_eq!(bytes.u16(), Some(0x201));
        assert_eq!(bytes.take(1), None);
        assert_eq!(bytes.string(), None);
    }
}
