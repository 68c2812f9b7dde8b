//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and
//! the first code of a length follows the last of the next shorter length. The lengths alone define
//! it.

/// Length of each byte's code in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Length of the longest code in bits.
const MAX_LENGTH: usize = 30;

/// Number of codes by length.
const COUNTS: [u32; MAX_LENGTH + 1] = {
    let mut counts = [0; MAX_LENGTH + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        counts[LENGTHS[symbol] as usize] += 1;
        symbol += 1;
    }
    counts
};

/// Symbols in the order of their codes.
const SYMBOLS: [u8; 256] = {
    let (mut symbols, mut next, mut length) = ([0; 256], 0, 1);
    while length <= MAX_LENGTH {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                symbols[next] = symbol as u8;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
};

/// Decodes a string; `None` if it has an invalid code, or more than seven bits or a zero as
/// padding.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut code = Code::default();
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1)) {
        if let Some(symbol) = code.push(bit)? {
            text.push(symbol);
        }
    }
    // The padding is the beginning of a code of ones.
    (code.length < 8 && code.bits == (1 << code.length) - 1).then_some(text)
}

/// The received bits of an incomplete code.
#[derive(Debug, Default)]
struct Code {
    bits: u32,
    length: usize,
    /// The first code of this length.
    first: u32,
    /// Number of shorter codes.
    shorter: u32,
}

impl Code {
    /// Adds a bit and returns the symbol if the code is complete.
    fn push(&mut self, bit: u8) -> Option<Option<u8>> {
        self.first = (self.first + COUNTS[self.length]) << 1;
        self.shorter += COUNTS[self.length];
        self.bits = self.bits << 1 | u32::from(bit);
        self.length += 1;
        let count = *COUNTS.get(self.length)?;
        let index = self.bits.checked_sub(self.first).filter(|&index| index < count);
        let symbol = index.and_then(|index| SYMBOLS.get((self.shorter + index) as usize).copied());
        if symbol.is_some() {
            *self = Code::default();
        }
        Some(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings of the examples in RFC 7541, appendix C.
    #[test]
    fn examples_of_the_specification_are_decoded() {
        for (bytes, text) in [
            (&[0x64, 0x02][..], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff], "www.example.com"),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
        ] {
            assert_eq!(decode(bytes).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn invalid_codes_are_errors() {
        assert_eq!(decode(&[0xff; 4]), None);
        assert_eq!(decode(&[0x00, 0x00]), None);
        assert_eq!(decode(&[]), Some(Vec::new()));
    }
}
