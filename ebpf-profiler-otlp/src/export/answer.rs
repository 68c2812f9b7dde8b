//! The meaning of an HTTP answer, after the OTLP specification.
//!
//! | answer | meaning |
//! | --- | --- |
//! | 2xx | delivered, possibly in part |
//! | 429, 502, 503, 504 | retry, after the time in `Retry-After` (seconds or a date) |
//! | 413, and 400 with a text about the size | too large: send parts |
//! | no answer, or not HTTP | retry |
//! | anything else | refused: never send again |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::connection::Failure;
use super::http::Response;

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Delivered; the collector rejected `rejected` profiles, with its reason.
    Delivered { rejected: u64, message: String },
    /// Not delivered; may be sent again, not before `after`.
    Retry { after: Option<Duration>, why: String },
    /// Refused because of its size; parts of it may be sent.
    TooLarge { why: String },
    /// Refused; must not be sent again.
    Refused { why: String },
}

/// Classifies the outcome of an attempt.
pub(super) fn verdict(outcome: Result<Response, Failure>, now: SystemTime) -> Verdict {
    match outcome {
        Ok(response) => of_response(&response, now),
        Err(failure) => Verdict::Retry { after: None, why: failure.to_string() },
    }
}

fn of_response(response: &Response, now: SystemTime) -> Verdict {
    match response.status {
        200..300 => delivered(&response.body),
        429 | 502 | 503 | 504 => {
            // A date is of the collector's clock, which can differ from ours.
            let now = response.header("date").and_then(date).unwrap_or(now);
            let after = response.header("retry-after").and_then(|value| retry_after(value, now));
            Verdict::Retry { after, why: describe(response) }
        }
        413 => Verdict::TooLarge { why: describe(response) },
        // The text of the OpenTelemetry Collector.
        400 if describe(response).ends_with("request body too large") => {
            Verdict::TooLarge { why: describe(response) }
        }
        _ => Verdict::Refused { why: describe(response) },
    }
}

/// Reads the body of a successful answer.
pub(super) fn delivered(body: &[u8]) -> Verdict {
    let (rejected, message) = partial_success(body).unwrap_or_default();
    Verdict::Delivered { rejected, message }
}

/// Returns the status and the message of the body, which is a `google.rpc.Status` or plain text.
fn describe(response: &Response) -> String {
    let message = fields(&response.body)
        .find_map(
            |field| if let Field::Bytes(2, text) = field { std::str::from_utf8(text).ok() } else { None },
        )
        .or_else(|| std::str::from_utf8(&response.body).ok())
        .unwrap_or_default();
    let message: String = message.chars().filter(|c| !c.is_control()).take(MESSAGE).collect();
    let separator = if message.is_empty() { "" } else { ": " };
    format!("the collector answered {}{separator}{message}", response.status)
}

/// Maximum length in characters of a collector's message in an error.
pub(super) const MESSAGE: usize = 200;

/// Decodes `ExportProfilesServiceResponse { partial_success 1 { rejected_profiles 1, error_message
/// 2 } }`.
fn partial_success(body: &[u8]) -> Option<(u64, String)> {
    let partial = fields(body).find_map(|field| match field {
        Field::Bytes(1, partial) => Some(partial),
        _ => None,
    })?;
    let (mut rejected, mut message) = (0, String::new());
    for field in fields(partial) {
        match field {
            Field::Number(1, number) => rejected = number.min(i64::MAX as u64),
            Field::Bytes(2, text) => message = String::from_utf8_lossy(text).chars().take(MESSAGE).collect(),
            _ => {}
        }
    }
    Some((rejected, message))
}

/// A field of a Protocol Buffers message with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64, u64),
    Bytes(u64, &'a [u8]),
    Other,
}

/// Returns the fields of a message up to the first malformed one.
pub(super) fn fields(mut message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    std::iter::from_fn(move || {
        let tag = varint(&mut message)?;
        match tag & 7 {
            0 => Some(Field::Number(tag >> 3, varint(&mut message)?)),
            2 => {
                let len = usize::try_from(varint(&mut message)?).ok()?;
                let (content, rest) = message.split_at_checked(len)?;
                message = rest;
                Some(Field::Bytes(tag >> 3, content))
            }
            kind @ (1 | 5) => {
                message = message.get(if kind == 1 { 8 } else { 4 }..)?;
                Some(Field::Other)
            }
            _ => None,
        }
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Parses `Retry-After: 120` or `Retry-After: Sun, 06 Nov 1994 08:49:37 GMT`.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    Some(date(value)?.duration_since(now).unwrap_or_default())
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(value: &str) -> Option<SystemTime> {
    let (_, date) = value.split_once(", ")?;
    let parts: Vec<&str> = date.split([' ', ':']).collect();
    let [day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number <= 60);
    let days = days_before(year.parse().ok()?, month)? + number(day)?.checked_sub(1)?;
    let seconds = days * 86_400 + number(hour)? * 3_600 + number(minute)? * 60 + number(second)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the number of days from 1970 to the first of a month.
fn days_before(year: u64, month: usize) -> Option<u64> {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years = (1970..=9_999).contains(&year).then_some(1970..year)?;
    let days: u64 = years.map(|year| 365 + u64::from(leap(year))).sum();
    let months: u64 = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30].iter().take(month).sum();
    Some(days + months + u64::from(month > 1 && leap(year)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Response { status, headers, body: body.to_vec() }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_status_has_the_meaning_of_the_specification() {
        for status in 200..600 {
            let verdict = verdict(Ok(response(status, &[], b"")), at(0));
            let expected = match (status, &verdict) {
                (200..300, Verdict::Delivered { .. }) => true,
                (429 | 502 | 503 | 504, Verdict::Retry { after: None, .. }) => true,
                (413, Verdict::TooLarge { .. }) => true,
                (200..300 | 413 | 429 | 502 | 503 | 504, _) => false,
                (_, Verdict::Refused { .. }) => true,
                _ => false,
            };
            assert!(expected, "{status}: {verdict:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = at(784_111_777 - 30);
        for (value, seconds) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sun, 06 Nov 1984 08:49:37 GMT", Some(0)),
            ("Sun, 06 Nov 99999 08:49:37 GMT", None),
            ("Sun, 18446744073709551615 Nov 1994 08:49:37 GMT", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn retry_after_date_is_relative_to_the_collectors_clock() {
        let dates =
            [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")];
        // The local clock may be wrong by years.
        for now in [0, 784_111_777, 4_000_000_000] {
            let expected = Verdict::Retry {
                after: Some(Duration::from_secs(30)),
                why: "the collector answered 503".into(),
            };
            assert_eq!(verdict(Ok(response(503, &dates, b"")), at(now)), expected);
        }
    }

    #[test]
    fn too_large_is_413_or_400_with_a_text() {
        for (status, body) in [(413, &b""[..]), (400, b"http: request body too large")] {
            let verdict = verdict(Ok(response(status, &[], body)), at(0));
            assert!(matches!(verdict, Verdict::TooLarge { .. }), "{verdict:?}");
        }
    }

    #[test]
    fn partial_success_is_success() {
        let body = [&[0x0a, 7, 0x08, 3, 0x12, 3][..], b"bad"].concat();
        let expected = Verdict::Delivered { rejected: 3, message: "bad".into() };
        assert_eq!(verdict(Ok(response(200, &[], &body)), at(0)), expected);
    }

    #[test]
    fn malformed_body_of_a_success_is_ignored() {
        let nothing = Verdict::Delivered { rejected: 0, message: String::new() };
        for body in [&b""[..], b"\x0a\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"<html>", b"{}"]
        {
            assert_eq!(verdict(Ok(response(200, &[], body)), at(0)), nothing, "{body:?}");
        }
    }

    #[test]
    fn random_bodies_do_not_panic() {
        let mut seed = 1u64;
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8 & 0x1f
        };
        for len in 0..2_000 {
            let body: Vec<u8> = (0..len % 50).map(|_| byte()).collect();
            verdict(Ok(response(200 + 200 * (len % 2), &[], &body)), at(0));
        }
    }

    #[test]
    fn refusal_has_the_collectors_reason() {
        let status = [&[0x08, 3, 0x12, 6][..], b"too\nb\xc3"].concat();
        for (body, why) in [
            (&b"\x08\x03\x12\x03bad"[..], "the collector answered 400: bad"),
            (b"plain text", "the collector answered 400: plain text"),
            (&status, "the collector answered 400"),
        ] {
            let expected = Verdict::Refused { why: why.into() };
            assert_eq!(verdict(Ok(response(400, &[], body)), at(0)), expected);
        }
    }
}
