//! The tree from which pictures are drawn.

use std::fmt::Write as _;

use ebpf_profiler_core::profile::{Kind, Limits, Tree};
use ebpf_profiler_core::testing;

fn samples(samples: u64) -> Limits {
    Limits { samples, ..Limits::default() }
}

fn frames(frames: usize) -> Limits {
    Limits { frames, ..Limits::default() }
}

fn drawn(stacks: &str, smallest: u64) -> String {
    let profile = testing::profile(stacks);
    let tree = Tree::new(&profile);
    let mut text = String::new();
    for placed in tree.layout(samples(smallest)).frames {
        let _ = writeln!(text, "{}{} {}", " ".repeat(placed.level), placed.label.name, placed.total);
    }
    text
}

#[test]
fn the_widest_come_first() {
    let tree = drawn("cat;main;read 2\ncat;main;write 3\ncat;main 1\nls;main 9", 1);
    assert_eq!(tree, "all 15\n ls 9\n  main 9\n cat 6\n  main 6\n   write 3\n   read 2\n");
}

#[test]
fn narrow_frames_are_merged_in_their_place() {
    let stacks = "a;main;wide 8\na;main;thin;thinner 1\na;main;slim 1\nb;main 1";
    let tree = drawn(stacks, 2);
    assert_eq!(tree, "all 11\n a 10\n  main 10\n   wide 8\n   [merged frames] 2\n [merged frames] 1\n");
    let profile = testing::profile(stacks);
    assert_eq!(Tree::new(&profile).layout(samples(2)).merged, 5);
}

#[test]
fn numbered_threads_are_one_pool() {
    let tree =
        drawn("java`pool-1-thread-7;run 2\njava`pool-1-thread-23;run 3\njava;main 1\npython3;main 1", 1);
    assert_eq!(tree, "all 7\n java 6\n  pool-1-thread-* 5\n   run 5\n  main 1\n python3 1\n  main 1\n");
}

#[test]
fn of_too_many_frames_the_foremost_are_kept() {
    let stacks: String = (1..=50).map(|count| format!("a;main;f{count} {count}\n")).collect();
    let profile = testing::profile(&stacks);
    let tree = Tree::new(&profile);
    for (most, kept) in [(3, 3), (10, 10), (40, 40), (53, 53), (1_000, 53)] {
        let frames = tree.layout(frames(most)).frames;
        assert_eq!(frames.iter().filter(|placed| placed.label.kind != Kind::Merged).count(), kept);
    }
}

#[test]
fn of_equally_narrow_frames_those_near_the_root_are_kept() {
    let profile = testing::profile("a;b;c;d 1\na;x;y;z 1\n");
    let tree = Tree::new(&profile);
    let frames = tree.layout(frames(6)).frames;
    let names: Vec<&str> = frames.iter().map(|placed| &*placed.label.name).collect();
    let merged = "[merged frames]";
    assert_eq!(names, ["all", "a", "b", "c", merged, "x", "y", merged]);
}

#[test]
fn what_is_too_high_is_merged() {
    let profile = testing::profile("a;b;c;d 1\na;b;c;e 1\na;x 1");
    let tree = Tree::new(&profile);
    let layout = tree.layout(Limits { levels: 3, ..Limits::default() });
    let names: Vec<&str> = layout.frames.iter().map(|placed| &*placed.label.name).collect();
    assert_eq!((names, layout.merged), (vec!["all", "a", "b", "[merged frames]", "x"], 3));
}

#[test]
fn languages_are_told_apart() {
    let profile = testing::profile("a;main;core::fmt::write;std::sort(int*);libc.so.6`read;x_[k];y_[j] 1");
    let tree = Tree::new(&profile);
    let kinds: Vec<Kind> =
        tree.layout(Limits::default()).frames.iter().skip(2).map(|placed| placed.label.kind).collect();
    let expected = [Kind::Native, Kind::Rust, Kind::Cpp, Kind::Native, Kind::Kernel, Kind::RunTime];
    assert_eq!(kinds, expected);
}

#[test]
fn stacks_may_be_deeper_than_the_drawers_own() {
    let profile = testing::profile(&format!("deep{} 2", ";recurse".repeat(200_000)));
    let tree = Tree::new(&profile);
    assert_eq!(tree.layout(Limits::default()).frames.len(), 200_002);
}
