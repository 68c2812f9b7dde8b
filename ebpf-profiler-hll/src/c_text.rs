//! Reads text that ends with a zero byte.

use ebpf_profiler_core::language::{Memory, Unreadable};

/// Number of bytes of a read. A read ends at a multiple of it, so it never crosses a page.
const PIECE: u64 = 64;

/// Text that ends with a zero byte.
pub(crate) struct CText {
    /// The bytes before the zero byte, cut to the limit.
    pub(crate) bytes: Vec<u8>,
    /// `true` if there was no zero byte up to the limit.
    pub(crate) is_cut: bool,
}

impl CText {
    /// Reads the text at an address, up to `limit` bytes of it.
    pub(crate) fn read(at: u64, limit: usize, memory: &dyn Memory) -> Result<CText, Unreadable> {
        let mut bytes = Vec::new();
        let mut next = at;
        while bytes.len() < limit {
            let mut piece = memory.bytes(next, PIECE - next % PIECE, PIECE as usize)?;
            next = next.wrapping_add(piece.len() as u64);
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                piece.truncate(end);
                bytes.append(&mut piece);
                return Ok(CText { bytes, is_cut: false });
            }
            bytes.append(&mut piece);
        }
        bytes.truncate(limit);
        Ok(CText { bytes, is_cut: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads text in memory that ends with it, at the end of a page.
    fn read(text: &[u8]) -> Result<CText, Unreadable> {
        let (start, bytes) = (0x4000 - text.len() as u64, text.to_vec());
        let memory = move |address: u64, buffer: &mut [u8]| {
            let at = address.checked_sub(start).ok_or(Unreadable)? as usize;
            buffer.copy_from_slice(bytes.get(at..at + buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        CText::read(start, 4096, &memory)
    }

    #[test]
    fn text_ends_before_unmapped_memory() {
        let text = read(&[&[b'x'; 100][..], b"/a.pl\0"].concat()).unwrap();
        assert_eq!((text.bytes.len(), text.is_cut), (105, false));
        assert!(read(b"/a.pl").is_err());
        assert!(read(b"").is_err());
    }

    #[test]
    fn long_text_is_cut() {
        let text = read(&[b'x'; 5000]).unwrap();
        assert_eq!((text.bytes.len(), text.is_cut), (4096, true));
    }
}
