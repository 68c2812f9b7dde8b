//! A headless Chromium, driven over WebDriver.
//!
//! Commands go as JSON over plain HTTP to a chromedriver on the loopback interface, and scripts
//! return strings.

mod http;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A browser with one window; closed on drop.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// Starts a browser; `None` if none is installed, which fails in CI.
    pub(crate) fn start() -> Option<Browser> {
        let [chromium, driver] =
            [["chromium", "chromium-browser", "google-chrome"].as_slice(), &["chromedriver"]]
                .map(|names| names.iter().find_map(|name| test_needs::find(name)));
        let (Some(chromium), Some(driver)) = (chromium, driver) else {
            test_needs::skip("no chromium and chromedriver, of packages chromium and chromium-driver");
            return None;
        };
        Some(Browser::open(&chromium, &driver))
    }

    fn open(chromium: &Path, driver: &Path) -> Browser {
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chromium-{}", std::process::id()));
        let (driver, port) = start_driver(driver);
        let mut browser = Browser { driver, port, session: String::new(), profile };
        let answer = browser.post("", &browser.capabilities(chromium));
        let id = answer.split("\"sessionId\":\"").nth(1).and_then(|rest| rest.split('"').next());
        browser.session = format!("/{}", id.unwrap_or_else(|| panic!("no session: {answer}")));
        browser.leave_first_page();
        browser
    }

    /// Leaves Chromium's start page, and discards its requests.
    fn leave_first_page(&self) {
        self.post("/url", r#"{"url":"about:blank"}"#);
        self.requests();
    }

    fn capabilities(&self, chromium: &Path) -> String {
        let flags = FLAGS.iter().map(|flag| quoted(flag));
        let profile = quoted(&format!("--user-data-dir={}", self.profile.display()));
        let flags: Vec<String> = flags.chain([profile]).collect();
        format!(
            r#"{{"capabilities":{{"alwaysMatch":{{
                "goog:loggingPrefs":{{"browser":"ALL","performance":"ALL"}},
                "goog:chromeOptions":{{"binary":{},"args":[{}]}} }} }} }}"#,
            quoted(&chromium.display().to_string()),
            flags.join(","),
        )
    }

    /// Opens a file, with a fragment (the part of the address after `#`).
    pub(crate) fn open_file(&self, path: &Path, hash: &str) {
        // Without this, an address that differs in the fragment only would not be loaded again.
        self.post("/url", r#"{"url":"about:blank"}"#);
        let url = quoted(&format!("file://{}#{hash}", path.display()));
        self.post("/url", &format!("{{\"url\":{url}}}"));
    }

    /// Runs a script and returns its result as a string.
    pub(crate) fn ask(&self, script: &str) -> String {
        let script = quoted(&format!("return String({script})"));
        let answer = self.post("/execute/sync", &format!("{{\"script\":{script},\"args\":[]}}"));
        unquoted(&answer).unwrap_or_else(|| panic!("{script} answered {answer}"))
    }

    /// Waits until a script returns `expected`.
    pub(crate) fn wait(&self, script: &str, expected: &str) {
        let began = Instant::now();
        while self.ask(script) != expected {
            let answer = self.ask(script);
            assert!(began.elapsed() < Duration::from_secs(20), "{script} is {answer:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Moves the mouse to a position in the window and clicks.
    pub(crate) fn click(&self, x: i32, y: i32) {
        self.post(
            "/actions",
            &format!(
                r#"{{"actions":[{{"type":"pointer","id":"mouse","parameters":{{"pointerType":"mouse"}},"actions":[
                    {{"type":"pointerMove","x":{x},"y":{y},"duration":0}},
                    {{"type":"pointerDown","button":0}}, {{"type":"pointerUp","button":0}}]}}]}}"#
            ),
        );
    }

    /// Presses the keys one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let presses = keys.chars().map(|key| {
            let key = quoted(&key.to_string());
            format!(r#"{{"type":"keyDown","value":{key}}},{{"type":"keyUp","value":{key}}}"#)
        });
        let presses: Vec<String> = presses.collect();
        let presses = presses.join(",");
        self.post(
            "/actions",
            &format!(r#"{{"actions":[{{"type":"key","id":"keys","actions":[{presses}]}}]}}"#),
        );
    }

    /// Sets the preferred color scheme, light or dark.
    pub(crate) fn prefer(&self, scheme: &str) {
        self.post(
            "/goog/cdp/execute",
            &format!(
                r#"{{"cmd":"Emulation.setEmulatedMedia","params":{{"features":[
                    {{"name":"prefers-color-scheme","value":"{scheme}"}}]}} }}"#
            ),
        );
    }

    /// Returns the console messages since the previous call.
    pub(crate) fn complaints(&self) -> String {
        self.post("/se/log", r#"{"type":"browser"}"#)
    }

    /// Returns the addresses requested since the previous call.
    pub(crate) fn requests(&self) -> Vec<String> {
        // Each message of the JSON log is a string that contains JSON.
        let log = self.post("/se/log", r#"{"type":"performance"}"#);
        let requests = log.split(r#"\"method\":\"Network.requestWillBeSent\""#).skip(1);
        let url = |request: &str| {
            let url = request.split(r#"\"request\":{"#).nth(1)?.split(r#"\"url\":\""#).nth(1)?;
            url.split(r#"\""#).next().map(str::to_owned)
        };
        requests.map(|request| url(request).unwrap_or_else(|| request.to_owned())).collect()
    }

    fn post(&self, command: &str, body: &str) -> String {
        let path = format!("/session{}{command}", self.session);
        http::request(self.port, "POST", &path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A failure here means that the process has already ended.
        let _ = http::request(self.port, "DELETE", &format!("/session{}", self.session), "");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Starts chromedriver on a port that it chooses and prints.
fn start_driver(driver: &Path) -> (Child, u16) {
    let mut child = Command::new(driver)
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", driver.display()));
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let port = |line: String| line.split(" successfully on port ").nth(1)?.trim_end_matches('.').parse().ok();
    let port = output.by_ref().lines().map_while(Result::ok).find_map(port);
    let port = port.expect("chromedriver names its port");
    // chromedriver would end on a write to a closed pipe.
    child.stdout = Some(output.into_inner());
    (child, port)
}

/// Returns `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' => quoted.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

/// Returns the text of the JSON string in `{"value":"…"}`.
fn unquoted(answer: &str) -> Option<String> {
    let mut characters = answer.strip_prefix(r#"{"value":""#)?.chars();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                'n' => text.push('\n'),
                'u' => {
                    let digits: String = characters.by_ref().take(4).collect();
                    text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,800",
];
