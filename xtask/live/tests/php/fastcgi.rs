//! FastCGI: one request, and the output in the answer.
//!
//! ```text
//!   record    version 1, type, request u16, length u16, padding u8, reserved u8; contents; padding       numbers: big-endian
//!   request   BEGIN  role u16, flags u8, 5 reserved          PARAMS  length, length, name, value …        PARAMS  STDIN
//!   answer    STDOUT …   END
//! ```

use std::path::Path;

const BEGIN: u8 = 1;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// The role of a program that answers, which closes the connection.
const RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];

/// Size of a record's head.
const HEAD: usize = 8;

/// Returns the bytes of a request for a script.
pub(crate) fn request(script: &Path, query: &str) -> Vec<u8> {
    let script = script.display().to_string();
    let parameters = [
        ("SCRIPT_FILENAME", script.as_str()),
        ("QUERY_STRING", query),
        ("REQUEST_METHOD", "GET"),
        ("SERVER_PROTOCOL", "HTTP/1.0"),
    ];
    let mut params = Vec::new();
    for (name, value) in parameters {
        params.push(name.len() as u8);
        // The first bit marks a length of four bytes.
        params.extend((value.len() as u32 | 1 << 31).to_be_bytes());
        params.extend([name, value].concat().bytes());
    }
    [record(BEGIN, &RESPONDER), record(PARAMS, &params), record(PARAMS, &[]), record(STDIN, &[])].concat()
}

fn record(kind: u8, contents: &[u8]) -> Vec<u8> {
    let [high, low] = (contents.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], contents].concat()
}

/// Returns the output in an answer.
pub(crate) fn output(mut answer: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    while let Some((&[_, kind, _, _, high, low, padding, _], rest)) = answer.split_first_chunk::<HEAD>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (contents, rest) = rest.split_at(length.min(rest.len()));
        if kind == STDOUT {
            output.extend(contents);
        }
        answer = &rest[usize::from(padding).min(rest.len())..];
    }
    output
}

#[test]
fn reads_output_of_records() {
    let answer = [record(STDOUT, b"some "), record(7, b"error"), record(STDOUT, b"text"), record(3, &[0; 8])];
    assert_eq!(output(&answer.concat()), b"some text");
    assert_eq!(output(&answer.concat()[..11]), b"som");
}
