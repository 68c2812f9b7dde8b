//! Any status, dates and body of a collector's answer: `Retry-After`, `google.rpc.Status`, partial success.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;

const STATUSES: [u16; 8] = [200, 204, 400, 404, 413, 429, 503, 504];

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(4, |&byte| byte == b'\n');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (status, retry_after, date) = (text(), text(), text());
    let status = status.parse().unwrap_or(STATUSES[status.len() % STATUSES.len()]);
    let wait = ebpf_profiler_otlp::fuzzing::answer(status, &retry_after, &date, parts.next().unwrap_or_default());
    // A number of seconds is the wait; a date is at most the year 9999.
    match (wait, retry_after.parse()) {
        (Some(wait), Ok(seconds)) => assert_eq!(wait, Duration::from_secs(seconds)),
        (Some(wait), Err(_)) => assert!(wait < Duration::from_secs(10_000 * 366 * 86_400)),
        (None, _) => {}
    }
});
