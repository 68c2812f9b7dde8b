//! Folded text.

use ebpf_profiler_core::sink::Format;
use ebpf_profiler_core::testing;

use crate::written;

fn folded(text: &str) -> String {
    written(&testing::profile(text), Format::FOLDED)
}

#[test]
fn equal_stacks_are_one_line() {
    assert_eq!(folded("cat;main;read 2\nls;main 1\ncat;main;read 3"), "cat;main;read 5\nls;main 1\n");
}

#[test]
fn threads_of_one_name_are_one() {
    assert_eq!(folded("a`pool;main 2\nb`pool;main 3"), "pool;main 5\n");
}

#[test]
fn what_is_missing_can_be_seen() {
    let text = "a;[truncated: stack not readable];main;f 1\na;main;[… 7 frames left out];f 1\na;main;f 1\n";
    assert_eq!(folded(text), text);
    let at_the_leaf = "a;main;f;[… 7 frames left out] 1\n";
    assert_eq!(folded(at_the_leaf), at_the_leaf);
    let nothing_else = "a;[truncated: process not known yet] 1\n";
    assert_eq!(folded(nothing_else), nothing_else);
}

#[test]
fn inlined_functions_of_a_frame_follow_their_caller() {
    let text = "a;main;one;two_[i];three_[i];four 1\n";
    assert_eq!(testing::profile(text).samples().next().expect("there is one").trace().frames().len(), 3);
    assert_eq!(folded(text), text);
}

#[test]
fn a_thread_without_a_name_has_a_line_too() {
    assert_eq!(folded(";main 2"), "[unknown];main 2\n");
}

#[test]
fn deep_recursion_is_written_whole() {
    let text = format!("deep;main{};leaf 3\n", ";recurse".repeat(900));
    assert_eq!(folded(&text), text);
}

#[test]
fn no_samples_are_no_lines() {
    assert_eq!(folded(""), "");
}
