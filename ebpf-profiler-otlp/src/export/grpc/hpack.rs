//! Header compression of HTTP/2 (HPACK, RFC 7541).
//!
//! | first bits | then | meaning |
//! | --- | --- | --- |
//! | `1` | index | an entry of the tables |
//! | `01` | index of a name or 0, name, value | a literal that is added to the dynamic table |
//! | `0000`, `0001` | the same | a literal that is not added |
//! | `001` | size | a new size of the dynamic table |
//!
//! The encoder writes literals without Huffman code that are not added; the decoder accepts all
//! forms.

use std::collections::VecDeque;

use super::huffman;

/// Name and value.
pub(in crate::export) type Header = (Vec<u8>, Vec<u8>);

/// Appends a header as a literal.
pub(in crate::export) fn encode(name: &str, value: &str, block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        put_number(text.len(), block);
        block.extend_from_slice(text.as_bytes());
    }
}

/// Appends a number with a prefix of seven bits, the eighth being zero.
fn put_number(mut number: usize, block: &mut Vec<u8>) {
    if number < 127 {
        return block.push(number as u8);
    }
    block.push(127);
    number -= 127;
    while number >= 128 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

/// A decoder with the dynamic table of one connection.
#[derive(Debug)]
pub(in crate::export) struct Decoder {
    /// Entries, the newest first.
    table: VecDeque<Header>,
    size: usize,
    max: usize,
    /// Number of decoded bytes that may still follow: a one-byte index can repeat a large header.
    budget: usize,
}

/// Maximum size of all headers of a connection in bytes.
const MAX_HEADERS: usize = 256 << 10;

/// Initial size of the dynamic table in bytes; we never raise it.
const MAX_TABLE: usize = 4096;

impl Decoder {
    pub(in crate::export) fn new() -> Decoder {
        Decoder { table: VecDeque::new(), size: 0, max: MAX_TABLE, budget: MAX_HEADERS }
    }

    /// Decodes a header block; `None` if it is malformed or too large.
    pub(in crate::export) fn decode(&mut self, mut block: &[u8]) -> Option<Vec<Header>> {
        let mut headers = Vec::new();
        while let Some(&first) = block.first() {
            if first & 0xe0 == 0x20 {
                self.resize(number(&mut block, 5)?)?;
                continue;
            }
            let header = self.header(first, &mut block)?;
            self.budget = self.budget.checked_sub(cost(&header))?;
            headers.push(header);
        }
        Some(headers)
    }

    fn header(&mut self, first: u8, block: &mut &[u8]) -> Option<Header> {
        match first {
            0x80.. => self.lookup(number(block, 7)?),
            0x40.. => {
                let header = self.literal(block, 6)?;
                self.insert(header.clone());
                Some(header)
            }
            _ => self.literal(block, 4),
        }
    }

    fn literal(&self, block: &mut &[u8], bits: u8) -> Option<Header> {
        let name = match number(block, bits)? {
            0 => text(block)?,
            index => self.lookup(index)?.0,
        };
        Some((name, text(block)?))
    }

    fn lookup(&self, index: usize) -> Option<Header> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None => self.table.get(index - STATIC.len()).cloned(),
        }
    }

    fn insert(&mut self, header: Header) {
        self.size += cost(&header);
        self.table.push_front(header);
        self.evict();
    }

    fn resize(&mut self, max: usize) -> Option<()> {
        self.max = (max <= MAX_TABLE).then_some(max)?;
        self.evict();
        Some(())
    }

    fn evict(&mut self) {
        while self.size > self.max {
            let Some(oldest) = self.table.pop_back() else { return };
            self.size -= cost(&oldest);
        }
    }
}

/// Size of an entry as RFC 7541 defines it.
fn cost((name, value): &Header) -> usize {
    name.len() + value.len() + 32
}

/// Decodes a number with a prefix of `bits` bits; if those are all ones, a varint follows.
fn number(block: &mut &[u8], bits: u8) -> Option<usize> {
    let (&first, rest) = block.split_first()?;
    *block = rest;
    let max = (1 << bits) - 1;
    let mut number = usize::from(first) & max;
    if number < max {
        return Some(number);
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, rest) = block.split_first()?;
        *block = rest;
        number += usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Decodes a string: a bit for Huffman code, a length, and the bytes.
fn text(block: &mut &[u8]) -> Option<Vec<u8>> {
    let is_huffman = block.first()? & 0x80 != 0;
    let len = number(block, 7)?;
    let (text, rest) = block.split_at_checked(len)?;
    *block = rest;
    if is_huffman { huffman::decode(text) } else { Some(text.to_vec()) }
}

/// The static table: RFC 7541, appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
    ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
    ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
    ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""),
    ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""),
    ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""),
    ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(headers: Option<Vec<Header>>) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        headers.unwrap().iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
    }

    #[test]
    fn encoded_headers_are_decoded() {
        let mut block = Vec::new();
        let long = "x".repeat(1_000);
        encode("grpc-status", "0", &mut block);
        encode("a", &long, &mut block);
        assert_eq!(texts(Decoder::new().decode(&block)), ["grpc-status: 0".into(), format!("a: {long}")]);
    }

    /// The three answers of RFC 7541, appendix C.5 and C.6, share a table of 256 bytes.
    #[test]
    fn examples_of_the_specification_are_decoded() {
        let mut decoder = Decoder::new();
        decoder.resize(256).unwrap();
        let first = [
            &[0x48, 0x03][..],
            b"302",
            &[0x58, 0x07],
            b"private",
            &[0x61, 0x1d],
            b"Mon, 21 Oct 2013 20:13:21 GMT",
            &[0x6e, 0x17],
            b"https://www.example.com",
        ];
        let headers = texts(decoder.decode(&first.concat()));
        assert_eq!(headers[0], ":status: 302");
        assert_eq!(headers[3], "location: https://www.example.com");
        let second = texts(decoder.decode(&[0x48, 0x83, 0x64, 0x0e, 0xff, 0xc1, 0xc0, 0xbf]));
        assert_eq!(second[0], ":status: 307");
        assert_eq!(second[1..], headers[1..]);
        assert_eq!((decoder.size, decoder.table.len()), (222, 4));
    }

    #[test]
    fn repeated_index_is_bounded() {
        let mut block = vec![0x40];
        for text in [&b"a"[..], &[b'b'; 126]] {
            block.push(text.len() as u8);
            block.extend_from_slice(text);
        }
        block.extend([0xbe; 50_000]);
        assert_eq!(Decoder::new().decode(&block), None);
    }

    #[test]
    fn random_blocks_do_not_panic() {
        let mut seed = 1u64;
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        };
        for len in 0..2_000 {
            let block: Vec<u8> = (0..len % 50).map(|_| byte()).collect();
            Decoder::new().decode(&block);
        }
    }

    #[test]
    fn malformed_blocks_are_errors() {
        for block in [
            &[0x80][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xbe],
            &[0x00, 5, b'a'],
            &[0x3f, 0xff, 0x7f],
        ] {
            assert_eq!(Decoder::new().decode(block), None, "{block:x?}");
        }
    }
}
