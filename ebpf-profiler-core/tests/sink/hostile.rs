//! Names that contain markup, control characters and separators.

use std::time::{Duration, SystemTime};

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{Process, Profile, ProfileBuilder, Thread};
use ebpf_profiler_core::sink::{Format, Html, Table};
use ebpf_profiler_core::symbol::{Symbol, Symbolizer};
use ebpf_profiler_core::trace::{Found, Frame, Stop, Trace};

use crate::{json, written};

const NAME: &str = "</script></title><img src=x onerror=\"a=1\">;'&\n\r\t\0\x1b[2J\u{202e}\u{2028}]]>--> 7";

/// Returns a profile in which everything has this name.
fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(Duration::from_millis(10));
    let mut process = Process::new(0);
    (process.executable, process.container) = (NAME.into(), NAME.into());
    let process = builder.process(process);
    let thread = builder.thread(Thread::new(process, 1, NAME));
    let module = ebpf_profiler_core::process::ModuleId(0);
    let frames =
        vec![Frame::Kernel { address: 1 }, Frame::Native { module, address: 2, found: Found::Exactly }];
    builder.add(thread, &Trace::new(frames, Stop::Root), 0);
    builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| Some(Module::new(NAME)), &mut Hostile)
}

struct Hostile;

impl Symbolizer for Hostile {
    fn native(&mut self, _: &Module, _: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        name(0, &[Symbol::new(NAME)]);
    }

    fn kernel(&mut self, _: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        name(0, &[Symbol::new(NAME)]);
    }
}

#[test]
fn folded_text_stays_a_line_of_three_parts() {
    let text = written(&profile(), Format::FOLDED);
    assert_eq!(text.lines().count(), 1);
    let (stack, count) = text.trim_end().rsplit_once(' ').expect("a count");
    assert_eq!((stack.split(';').count(), count), (3, "1"));
    assert!(!text.trim_end().contains(char::is_control));
    assert!(text.contains("\">:'&"));
}

#[test]
fn pictures_have_no_element_more() {
    let elements = |text: &str, name: &str| text.matches(&format!("<{name}")).count();
    let mut html = Vec::new();
    Html::new(&profile()).title(NAME).write(&mut html).expect("memory takes everything");
    let html = String::from_utf8(html).expect("it is text");
    assert_eq!((elements(&html, "script"), elements(&html, "/script"), elements(&html, "img")), (2, 2, 0));
    let svg = written(&profile(), Format::SVG);
    // All, the last part of the executable's path, the thread, two frames.
    assert_eq!((elements(&svg, "img"), elements(&svg, "script"), elements(&svg, "g>")), (0, 0, 5));
    let allowed = |character: char| character == '\n' || !character.is_control();
    assert!(svg.chars().all(allowed) && html.chars().all(allowed));
    assert!(!svg.contains("]]>"));
}

#[test]
fn a_terminal_is_not_steered() {
    let table = Table::new(&profile()).to_string();
    assert!(table.chars().all(|character| character == '\n' || !character.is_control()));
    assert!(!table.contains('\u{202e}'));
}

#[test]
fn a_profile_without_duration_has_a_summary() {
    let summary = profile().summary();
    assert_eq!(summary.to_string(), "1 sample in 0.0 s, 100.0 % of the stacks whole, none lost");
}

/// Both are JSON in which the name occurs as text, without control characters.
#[test]
fn files_of_viewers_stay_json() {
    for format in [Format::FIREFOX, Format::SPEEDSCOPE] {
        let text = written(&profile(), format);
        assert!(
            text.contains("\\u003c/script\\u003e") && !text.contains(['<', '\t', '\0', '\u{202e}']),
            "{text}"
        );
        json::parse(&text);
    }
}
