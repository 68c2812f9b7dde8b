//! Headers as HTTP/2 packs them (HPACK, RFC 7541).
//!
//! | first bits | then | meaning |
//! | --- | --- | --- |
//! | `1` | number | a header of the tables |
//! | `01` | number of a name or 0, name, value | a header that goes into the table |
//! | `0000`, `0001` | the same | one that doesn't |
//! | `001` | number | the table becomes smaller |
//!
//! What we send is written as headers that go into no table and aren't squeezed. What comes in can be all of it.

use std::collections::VecDeque;

use super::huffman;

/// A header: name and value.
pub(super) type Header = (Vec<u8>, Vec<u8>);

/// Appends a header.
pub(super) fn encode(name: &str, value: &str, block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        put_number(text.len(), block);
        block.extend_from_slice(text.as_bytes());
    }
}

/// A number with room for seven bits in its first byte, the eighth being zero.
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

/// The table that the other side fills with what it sends.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    table: VecDeque<Header>,
    size: usize,
    most: usize,
    /// How much may still come out: a few bytes can stand for a large header again and again.
    budget: usize,
}

/// The most that all headers of a connection take.
const MOST_HEADERS: usize = 256 << 10;

/// The size of the table that both sides begin with; we never allow more.
const MOST_TABLE: usize = 4096;

impl Decoder {
    pub(super) fn new() -> Decoder {
        Decoder { table: VecDeque::new(), size: 0, most: MOST_TABLE, budget: MOST_HEADERS }
    }

    /// The headers of a block; none where it isn't packed as it should be, or holds too much.
    pub(super) fn decode(&mut self, mut block: &[u8]) -> Option<Vec<Header>> {
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

    fn resize(&mut self, most: usize) -> Option<()> {
        self.most = (most <= MOST_TABLE).then_some(most)?;
        self.evict();
        Some(())
    }

    fn evict(&mut self) {
        while self.size > self.most {
            let Some(oldest) = self.table.pop_back() else { return };
            self.size -= cost(&oldest);
        }
    }
}

/// What an entry counts for, by the specification.
fn cost((name, value): &Header) -> usize {
    name.len() + value.len() + 32
}

/// A number that begins in the lowest bits of a byte: all ones there, and it goes on in varint form.
fn number(block: &mut &[u8], bits: u8) -> Option<usize> {
    let (&first, rest) = block.split_first()?;
    *block = rest;
    let most = (1 << bits) - 1;
    let mut number = usize::from(first) & most;
    if number < most {
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

/// A length, of which the top bit says whether the text is squeezed, and the text.
fn text(block: &mut &[u8]) -> Option<Vec<u8>> {
    let squeezed = block.first()? & 0x80 != 0;
    let len = number(block, 7)?;
    let (text, rest) = block.split_at_checked(len)?;
    *block = rest;
    if squeezed { huffman::decode(text) } else { Some(text.to_vec()) }
}

/// RFC 7541, appendix A.
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
    fn what_is_written_is_read() {
        let mut block = Vec::new();
        let long = "x".repeat(1_000);
        encode("grpc-status", "0", &mut block);
        encode("a", &long, &mut block);
        assert_eq!(texts(Decoder::new().decode(&block)), ["grpc-status: 0".into(), format!("a: {long}")]);
    }

    /// The three answers of RFC 7541, appendix C.5 and C.6, share a table of 256 bytes.
    #[test]
    fn the_table_of_the_specification_s_example() {
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
    fn a_few_bytes_can_not_become_very_many() {
        let mut block = vec![0x40];
        for text in [&b"a"[..], &[b'b'; 126]] {
            block.push(text.len() as u8);
            block.extend_from_slice(text);
        }
        block.extend([0xbe; 50_000]);
        assert_eq!(Decoder::new().decode(&block), None);
    }

    #[test]
    fn whatever_comes_it_is_read_or_refused() {
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
    fn what_is_no_block_is_an_error() {
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
