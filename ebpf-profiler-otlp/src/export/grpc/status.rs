//! The meaning of a gRPC status, after the OTLP specification.
//!
//! | status | meaning |
//! | --- | --- |
//! | OK | delivered, possibly in part |
//! | CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS | retry |
//! | RESOURCE_EXHAUSTED | retry if the answer has a `RetryInfo`, else refused |
//! | RESOURCE_EXHAUSTED, OUT_OF_RANGE with a text about the size | too large: send parts |
//! | anything else | refused: never send again |

use std::time::Duration;

use super::Answer;
use crate::export::answer::{Field, MESSAGE, Verdict, delivered, fields};
use crate::resource::percent_decoded;

/// Classifies an answer.
pub(in crate::export) fn verdict(answer: &Answer) -> Verdict {
    let Some(status) = answer.text("grpc-status") else { return without_status(answer) };
    let why = format!("the collector answered with gRPC status {status}{}", reason(answer));
    match status.parse() {
        Ok(0) => delivered(answer.body.get(5..).unwrap_or_default()),
        Ok(8 | 11) if is_too_large(&why) => Verdict::TooLarge { why },
        Ok(1 | 4 | 10 | 11 | 14 | 15) => Verdict::Retry { after: retry_info(answer), why },
        Ok(8) => match retry_info(answer) {
            None => Verdict::Refused { why },
            after => Verdict::Retry { after, why },
        },
        _ => Verdict::Refused { why },
    }
}

/// Returns `true` for the texts of the gRPC libraries for Go, C, Python, Java and Rust.
fn is_too_large(why: &str) -> bool {
    ["larger than max", "exceeds maximum size", "length too large"].iter().any(|said| why.contains(said))
}

/// Classifies an answer without gRPC status, which a proxy sends.
fn without_status(answer: &Answer) -> Verdict {
    let status = answer.text(":status").unwrap_or_default();
    let why = format!("the collector answered {status} without gRPC status");
    match &*status {
        "413" => Verdict::TooLarge { why },
        "429" | "502" | "503" | "504" => Verdict::Retry { after: None, why },
        _ => Verdict::Refused { why },
    }
}

fn reason(answer: &Answer) -> String {
    let message = percent_decoded(&answer.text("grpc-message").unwrap_or_default());
    let message: String = message.chars().filter(|c| !c.is_control()).take(MESSAGE).collect();
    if message.is_empty() { message } else { format!(": {message}") }
}

impl Answer {
    /// Returns the last header of this name.
    fn text(&self, name: &str) -> Option<String> {
        let header = self.headers.iter().rev().find(|(known, _)| known == name.as_bytes());
        header.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// Decodes `google.rpc.Status { details 3: Any { type_url 1, value 2: RetryInfo { retry_delay 1:
/// Duration } } }`.
fn retry_info(answer: &Answer) -> Option<Duration> {
    let status = base64(answer.text("grpc-status-details-bin")?.as_bytes())?;
    let details = fields(&status).filter_map(|field| bytes(field, 3));
    let retry_info = details.filter_map(|any| {
        let is_retry_info = |url: &[u8]| url.ends_with(b"/google.rpc.RetryInfo");
        let is_right = fields(any).filter_map(|field| bytes(field, 1)).any(is_retry_info);
        fields(any).find_map(|field| bytes(field, 2)).filter(|_| is_right)
    });
    retry_info.filter_map(|info| fields(info).find_map(|field| bytes(field, 1))).map(duration).next()
}

fn bytes(field: Field<'_>, number: u64) -> Option<&[u8]> {
    match field {
        Field::Bytes(known, content) if known == number => Some(content),
        _ => None,
    }
}

/// Decodes `google.protobuf.Duration { seconds 1, nanos 2 }`; a negative duration is zero.
fn duration(message: &[u8]) -> Duration {
    let number = |expected| {
        let mut numbers = fields(message).filter_map(|field| match field {
            Field::Number(known, number) if known == expected => Some(number),
            _ => None,
        });
        numbers.next().filter(|&number| number <= i64::MAX as u64).unwrap_or_default()
    };
    Duration::from_secs(number(1)).saturating_add(Duration::from_nanos(number(2)))
}

/// Decodes Base64 with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    let end = text.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
    for &byte in &text[..end] {
        bits = bits << 6 | u32::from(sextet(byte)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> Answer {
        let header = |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        Answer { headers: headers.iter().map(header).collect(), body: Vec::new() }
    }

    #[test]
    fn each_status_has_the_meaning_of_the_specification() {
        for status in 0..20 {
            let verdict = verdict(&answer(&[("grpc-status", &status.to_string())]));
            let expected = match (status, &verdict) {
                (0, Verdict::Delivered { rejected: 0, .. }) => true,
                (1 | 4 | 10 | 11 | 14 | 15, Verdict::Retry { after: None, .. }) => true,
                (0 | 1 | 4 | 10 | 11 | 14 | 15, _) => false,
                (_, Verdict::Refused { .. }) => true,
                _ => false,
            };
            assert!(expected, "{status}: {verdict:?}");
        }
    }

    /// Status { 8, "full", [Any { "type.googleapis.com/google.rpc.RetryInfo", RetryInfo { 3.5 s }
    /// }] }
    #[test]
    fn retry_info_sets_the_wait() {
        let url = b"type.googleapis.com/google.rpc.RetryInfo";
        let delay = [0x0a, 8, 0x08, 3, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01];
        let any = [&[0x0a, url.len() as u8][..], url, &[0x12, delay.len() as u8], &delay].concat();
        let status = [&[0x08, 8, 0x12, 4][..], b"full", &[0x1a, any.len() as u8], &any].concat();
        let details = to_base64(&status);
        let full = answer(&[("grpc-status", "8"), ("grpc-status-details-bin", &details)]);
        let why = "the collector answered with gRPC status 8".to_owned();
        let after = Some(Duration::from_millis(3_500));
        assert_eq!(verdict(&full), Verdict::Retry { after, why });
    }

    #[test]
    fn texts_about_the_size_mean_too_large() {
        for (status, message) in [
            ("8", "grpc: received message larger than max (5000000 vs. 4194304)"),
            ("8", "grpc: received message after decompression larger than max 4194304"),
            ("8", "gRPC message exceeds maximum size 4194304: 5000000"),
            (
                "11",
                "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
            ),
        ] {
            let verdict = verdict(&answer(&[("grpc-status", status), ("grpc-message", message)]));
            assert!(matches!(verdict, Verdict::TooLarge { .. }), "{verdict:?}");
        }
    }

    fn to_base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let chunk = |chunk: &[u8]| {
            let bits =
                chunk.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
            let digit = move |place: usize| DIGITS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            (0..=chunk.len()).map(digit).collect::<String>()
        };
        bytes.chunks(3).map(chunk).collect()
    }

    #[test]
    fn answer_without_grpc_status_is_classified_by_http_status() {
        assert!(matches!(verdict(&answer(&[(":status", "503")])), Verdict::Retry { .. }));
        assert!(matches!(verdict(&answer(&[(":status", "404")])), Verdict::Refused { .. }));
    }

    #[test]
    fn refusal_has_the_collectors_reason() {
        let refused = answer(&[("grpc-status", "3"), ("grpc-message", "bad%20frame\n")]);
        let why = "the collector answered with gRPC status 3: bad frame".to_owned();
        assert_eq!(verdict(&refused), Verdict::Refused { why });
    }
}
