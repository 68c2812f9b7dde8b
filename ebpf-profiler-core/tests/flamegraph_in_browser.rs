//! The flame graph in a real browser: it renders, zooms, searches, is operated by keyboard, sends
//! no request and runs only its own code.
#![expect(clippy::panic, clippy::print_stdout, reason = "a test fails by panicking and prints what it skips")]

mod browser;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use browser::Browser;
use ebpf_profiler_core::profile::{Process, Profile, ProfileBuilder, SampleKind, Thread, Unit};
use ebpf_profiler_core::sink::Html;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::testing;
use ebpf_profiler_core::trace::{Stop, Trace};

const STACKS: &str = "
    server;_start;main;serve;parse::request;core::str::find_[i] 20
    server;_start;main;serve;std::map<int, int>::find(int) 10
    server;_start;main;serve;libc.so.6`read;entry_[k];vfs_read_[k] 50
    server;_start;main;guess_[g];[anonymous]_[j];handler.js_[j] 15
    server`worker-1;start_thread;[… 976 frames left out];work 5
    cat;main;libc.so.6`read;entry_[k];vfs_read_[k] 100";

/// One browser for all checks, because its start takes longer than all of them.
#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let page = page("all", STACKS);
    draws_every_frame_and_kind(&browser, &page);
    zooms_by_click_and_resets_by_key(&browser, &page);
    finds_with_the_right_share(&browser, &page);
    is_walked_by_keyboard(&browser, &page);
    keeps_its_state_in_the_address(&browser, &page);
    turns_and_follows_the_preferred_colours(&browser, &page);
    switches_kinds_of_samples(&browser);
    says_that_there_are_no_samples(&browser);
    hostile_names_are_text(&browser);
    many_frames_are_drawn_quickly(&browser);
    deep_stacks_are_drawn(&browser);
}

fn draws_every_frame_and_kind(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    let expected = "0 200 23 all";
    assert_eq!(browser.ask("[find('nothing').hidden ? 0 : 1, flamegraph.model.all, flamegraph.model.count, flamegraph.model.name(0)].join(' ')"), expected);
    assert_eq!(
        browser.ask("find('notes').textContent"),
        "200 samples in 1.0 s  ·  97.5 % of the stacks whole  ·  none lost"
    );
    // Each kind of frame has its color, different from the background.
    let kinds = [
        "server",
        "main",
        "parse::request",
        "core::str::find",
        "std::map<int, int>::find(int)",
        "vfs_read",
        "handler.js",
        "[… 976 frames left out]",
    ];
    let mut colors: Vec<String> = kinds.iter().map(|name| color(browser, name)).collect();
    colors.push("255,255,255".into());
    colors.sort();
    let all = colors.len();
    colors.dedup();
    assert_eq!(colors.len(), all, "{colors:?}");
    assert_eq!(
        browser.ask("find('legend').innerText.split('\\n').filter((text) => text !== '').length"),
        "9"
    );
    quiet(browser);
}

fn zooms_by_click_and_resets_by_key(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    let before = width(browser, "main");
    click(browser, "serve");
    browser.wait("find('graph').dataset.zoomed", "serve");
    browser.wait("Math.round(flamegraph.place('serve').width) === flamegraph.view.width", "true");
    // Frames below it are still drawn, those beside it are not.
    browser.wait("Math.round(flamegraph.place('all').width) === flamegraph.view.width", "true");
    assert!(width(browser, "worker-*") <= 0.0);
    browser.press(ESCAPE);
    browser.wait("find('graph').dataset.zoomed", "all");
    browser.wait("flamegraph.view.to - flamegraph.view.from", "200");
    assert_eq!(width(browser, "main"), before);
    quiet(browser);
}

fn finds_with_the_right_share(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    browser.press("/^(vfs_)?read$");
    // 50 and 100 of 200; frames above a match count once.
    let matched = "75.0 % matched: 150 samples in 4 frames";
    browser.wait("find('matched').textContent", matched);
    browser.wait("flamegraph.view.found.frames.length", "4");
    assert_eq!(color(browser, "vfs_read"), color(browser, "read"));
    assert_ne!(color(browser, "entry"), color(browser, "read"));
    browser.press("(");
    browser.wait("find('matched').textContent", "not a regular expression");
    browser.press(ESCAPE);
    browser.wait("find('matched').textContent + find('search').value", "");
    browser.press("/nothing has this name");
    browser.wait("find('matched').textContent", "0.0 % matched: 0 samples in 0 frames");
    quiet(browser);
}

fn is_walked_by_keyboard(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    // Tab stops: search field, two buttons, graph.
    browser.press(&TAB.repeat(4));
    browser.wait("document.activeElement.id", "graph");
    let spoken = "find('spoken').textContent.split(',')[0]";
    browser.wait(spoken, "all");
    for (key, expected) in
        [(UP, "cat"), (RIGHT, "server"), (LEFT, "cat"), (RIGHT, "server"), (UP, "_start"), (DOWN, "server")]
    {
        browser.press(key);
        browser.wait(spoken, expected);
    }
    browser.press(ENTER);
    browser.wait("find('graph').dataset.zoomed", "server");
    assert_eq!(
        browser.ask("find('spoken').textContent"),
        "server, process, 100 samples, 50.0 %, 100.0 % of this view, 1.0 s of CPU time"
    );
    browser.press(&format!("{ESCAPE}/handler{ENTER}"));
    browser.wait(spoken, "handler.js");
    assert_eq!(browser.ask("find('tip').hidden"), "false");
    quiet(browser);
}

fn keeps_its_state_in_the_address(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    click(browser, "serve");
    browser.press("/read");
    browser.wait("location.hash.replace(/[0-9]+/, 'N')", "#zoom=N&search=read");
    let hash = browser.ask("location.hash.slice(1)");
    browser.open_file(page, &hash);
    browser.wait("find('graph').dataset.zoomed + find('search').value", "serveread");
    // Matches: read and start_thread.
    browser.wait("find('matched').textContent.slice(0, 6)", "77.5 %");
    // An invalid fragment shows all.
    for nonsense in ["zoom=99999999", "zoom=-1&search=%5B", "zoom=NaN&icicle=perhaps", "%%%"] {
        browser.open_file(page, nonsense);
        browser.wait("find('graph').dataset.zoomed", "all");
    }
    quiet(browser);
}

fn switches_kinds_of_samples(browser: &Browser) {
    let page = written("kinds", Html::new(&five_kinds()));
    browser.open_file(&page, "");
    let shown = "[find('kind').value, flamegraph.model.all, flamegraph.words.counts(0)].join(' ')";
    assert_eq!(
        browser.ask("[...find('kind').options].map((kind) => kind.text).join()"),
        "cpu,off-cpu,malloc,inuse_space,block-latency"
    );
    browser.wait(shown, "cpu 3 3 samples, 100.0 %, 30 ms of CPU time");
    browser.open_file(&page, "search=worker");
    // The menu is the first tab stop.
    browser.press(&format!("{TAB}{DOWN}{DOWN}"));
    browser.wait(shown, "malloc 6144 6 KiB, 100.0 %");
    browser.wait("find('matched').textContent", "100.0 % matched: 6 KiB in 1 frame");
    browser.wait("location.hash", "#kind=malloc&search=worker");
    browser.open_file(&page, "kind=off-cpu&zoom=1");
    browser.wait(shown, "off-cpu 7000000 7 ms, 100.0 %");
    browser.wait("find('notes').textContent.split('  ·  ')[0]", "1 sample (7 ms off-cpu) in 1.0 s");
    browser.wait("find('graph').dataset.zoomed", "worker");
    browser.open_file(&page, "kind=inuse_space");
    browser.wait(shown, "inuse_space 5120 5 KiB, 100.0 %");
    browser.press(&format!("{TAB}{DOWN}"));
    browser.wait(shown, "block-latency 4000000 4 ms, 100.0 %");
    browser.open_file(&page, "kind=none");
    browser.wait(shown, "cpu 3 3 samples, 100.0 %, 30 ms of CPU time");
    quiet(browser);
}

/// Three samples of CPU time, one of off-CPU time, two of allocations, one of memory in use, two of
/// latencies.
fn five_kinds() -> Profile {
    let kinds = [
        SampleKind::cpu(Duration::from_millis(10)),
        SampleKind::off_cpu(),
        SampleKind::new("malloc", Unit::Bytes),
        SampleKind::new("inuse_space", Unit::Bytes),
        SampleKind::new("block-latency", Unit::Nanoseconds),
    ];
    let mut builder = ProfileBuilder::of_kinds(kinds);
    let process = builder.process(Process::new(7));
    let thread = builder.thread(Thread::new(process, 7, "worker"));
    let trace = Trace::new([].as_slice(), Stop::NoUserStack);
    let values = [(0, 1), (0, 1), (0, 1), (1, 7_000_000), (2, 4_096), (2, 2_048)];
    let held = [(3, 5_120), (4, 1_000_000), (4, 3_000_000)];
    for (kind, value) in values.into_iter().chain(held) {
        builder.add_value(kind, value, None, thread, &trace, 1_000);
    }
    builder.finish(UNIX_EPOCH, Duration::from_secs(1), |_| None, &mut NoSymbols)
}

fn turns_and_follows_the_preferred_colours(browser: &Browser, page: &Path) {
    browser.open_file(page, "");
    let top = "flamegraph.place('all').y < flamegraph.place('main').y";
    assert_eq!(browser.ask(top), "false");
    browser.press("i");
    browser.wait(top, "true");
    let light = color(browser, "main");
    browser.prefer("dark");
    browser.wait("flamegraph.painter.dark", "true");
    assert_ne!(color(browser, "main"), light);
    browser.prefer("light");
    browser.wait("flamegraph.painter.dark", "false");
    quiet(browser);
}

fn says_that_there_are_no_samples(browser: &Browser) {
    browser.open_file(&page("empty", ""), "");
    assert_eq!(browser.ask("find('nothing').innerText.split('\\n')[0]"), "No samples");
    assert_eq!(browser.ask("find('notes').textContent"), "0 samples in 1.0 s  ·  no stacks  ·  none lost");
    browser.click(600, 400);
    browser.press(&format!("{TAB}{UP}{RIGHT}{ENTER}{ESCAPE}/x{ENTER}n"));
    browser.wait("find('matched').textContent", "0.0 % matched: 0 samples in 0 frames");
    quiet(browser);
}

fn hostile_names_are_text(browser: &Browser) {
    let name = "</script><img src=x onerror=hacked=1><script>hacked=1</script>";
    let stacks = format!("{name};{name};\"'`{name}&lt;<!--;{{{{data}}}}\\u003c\\ 3");
    browser.open_file(&titled("hostile", name, &stacks), "");
    assert_eq!(browser.ask("find('title').textContent"), name);
    assert_eq!(browser.ask("document.title"), name);
    assert_eq!(browser.ask("flamegraph.model.name(2)"), name);
    assert_eq!(browser.ask("flamegraph.model.name(5)"), "{{data}}\\u003c\\");
    click(browser, "{{data}}\\\\u003c\\\\");
    assert_eq!(
        browser.ask("[typeof hacked, document.images.length, document.scripts.length]"),
        "undefined,0,2"
    );
    quiet(browser);
}

fn many_frames_are_drawn_quickly(browser: &Browser) {
    let mut stacks = String::new();
    for leaf in 0..50_000_u32 {
        let _ = writeln!(stacks, "busy;main;a{};b{};c{leaf} 1", leaf % 7, leaf % 1_009);
    }
    let page = page("many", &stacks);
    let bytes = std::fs::metadata(&page).expect("the page is there").len();
    assert!(bytes < 2_000_000, "{bytes} bytes");
    browser.open_file(&page, "");
    assert_eq!(browser.ask("flamegraph.model.count > 50000"), "true");
    browser.ask(
        "timed = (what) => { const began = performance.now(); what(); return performance.now() - began; }",
    );
    let times: Vec<f64> = ["flamegraph.painter.draw(flamegraph.view)", "flamegraph.model.search('c.*9')"]
        .map(|what| browser.ask(&format!("timed(() => {what})")).parse().expect("a number"))
        .into();
    println!("57,000 frames: {bytes} bytes, drawn in {:.1} ms, searched in {:.1} ms", times[0], times[1]);
    // Ten milliseconds on an idle machine; this one may be busy.
    assert!(times.iter().all(|&time| time < 1_000.0), "{times:?} ms");
    // Forty frames share a pixel; a match is drawn on top.
    let before = color(browser, "c31415");
    browser.press("/^(a0|c31415)$");
    browser.wait("flamegraph.view.found.frames.length", "2");
    assert_ne!(color(browser, "c31415"), before);
    assert_eq!(color(browser, "c31415"), color(browser, "a0"));
    quiet(browser);
}

fn deep_stacks_are_drawn(browser: &Browser) {
    let page = page("deep", &format!("deep;main{} 3\ndeep;main 1", ";recurse".repeat(2_000)));
    browser.open_file(&page, "zoom=1500");
    assert_eq!(browser.ask("flamegraph.model.rows.length"), "2003");
    // The zoomed frame of the address is visible.
    browser
        .wait("flamegraph.view.top(1500) > 0 && flamegraph.view.top(1500) < flamegraph.view.height", "true");
    browser.press(ESCAPE);
    browser.wait("flamegraph.view.top(0) > 0 && flamegraph.view.top(0) < flamegraph.view.height", "true");
    quiet(browser);
}

/// Checks that there are no messages and no requests but the page itself.
fn quiet(browser: &Browser) {
    assert_eq!(browser.complaints(), r#"{"value":[]}"#);
    let page = browser.ask("location.href.split('#')[0]");
    for request in browser.requests() {
        let is_own = request.split('#').next() == Some(&page) || request.starts_with("data:");
        assert!(is_own || request == "about:blank", "requested {request}");
    }
}

fn page(name: &str, stacks: &str) -> PathBuf {
    titled(name, name, stacks)
}

fn titled(name: &str, title: &str, stacks: &str) -> PathBuf {
    written(name, Html::new(&testing::profile(stacks)).title(title))
}

fn written(name: &str, html: Html<'_>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("flamegraph-{name}.html"));
    let mut page = Vec::new();
    html.write(&mut page).expect("memory takes it");
    std::fs::write(&path, page).expect("the folder is there");
    path
}

/// Clicks on the first frame with this name.
fn click(browser: &Browser, name: &str) {
    let place = browser.ask(&format!("Object.values(flamegraph.place('{name}')).map(Math.round).join(' ')"));
    let numbers: Vec<i32> = place.split(' ').map(|number| number.parse().expect("a number")).collect();
    browser.click(numbers[0] + numbers[2] / 2, numbers[1] + numbers[3] / 2);
}

fn width(browser: &Browser, name: &str) -> f64 {
    browser.ask(&format!("flamegraph.place('{name}').width")).parse().expect("a number")
}

/// Returns the drawn color near the left edge of the first frame with this name.
fn color(browser: &Browser, name: &str) -> String {
    browser.ask(&format!(
        "(() => {{
            const place = flamegraph.place('{name}');
            const edge = find('canvas').getBoundingClientRect();
            flamegraph.painter.draw(flamegraph.view);
            const [x, y] = [place.x - edge.left + place.width / 2, place.y - edge.top + 3].map(Math.floor);
            const ratio = devicePixelRatio;
            const copy = new OffscreenCanvas(1, 1).getContext('2d');
            copy.drawImage(find('canvas'), x * ratio, y * ratio, 1, 1, 0, 0, 1, 1);
            const pixel = copy.getImageData(0, 0, 1, 1).data;
            return [...pixel.slice(0, 3)].join(',');
        }})()"
    ))
}

const ESCAPE: &str = "\u{e00c}";
const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const LEFT: &str = "\u{e012}";
const UP: &str = "\u{e013}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
