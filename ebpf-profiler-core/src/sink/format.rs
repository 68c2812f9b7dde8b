//! Formats of files, chosen by the ending of a path.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::{Html, Svg, WriteError, firefox, folded, speedscope};
use crate::profile::Profile;

/// File format of a profile, named by the ending of a path.
///
/// | ending | contents | several kinds of samples |
/// | --- | --- | --- |
/// | `.html` | [interactive flame graph](super::Html) | a menu |
/// | `.svg` | [static flame graph](super::Svg) | a file for each |
/// | `.folded` | [folded text](super::folded) | a file for each |
/// | `.json` | [profile of the Firefox Profiler](super::firefox) | threads of each |
/// | `.speedscope.json` | [profile of speedscope](super::speedscope) | a menu |
///
/// Other crates and programs [register](Format::register) further ones.
/// `ebpf_profiler_otlp::register_formats` registers `.pb.gz` and `.pb`, for pprof.
///
/// # Examples
///
/// ```
/// use std::io::{self, Write};
/// use ebpf_profiler_core::{profile::Profile, sink::Format, testing};
///
/// fn write_leaves(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
///     profile.samples().try_for_each(|sample| writeln!(out, "{} {}", sample.value(), sample.trace().leaf()))
/// }
///
/// Format::new("leaves", "innermost functions", write_leaves).register();
/// let path = std::env::temp_dir().join(format!("{}.leaves", std::process::id()));
/// testing::profile("cat;main;read 3").write(&path)?;
/// assert_eq!(std::fs::read_to_string(&path)?, "3 read\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Format {
    ending: &'static str,
    contents: &'static str,
    holds_all_kinds: bool,
    write: Write,
}

/// Writes a profile in a format.
type Write = fn(&Profile, &mut dyn io::Write) -> io::Result<()>;

impl Format {
    /// An interactive flame graph.
    pub const HTML: Format = Format::new("html", "interactive flame graph", write_html).with_all_kinds();

    /// A static flame graph.
    pub const SVG: Format = Format::new("svg", "static flame graph", write_svg);

    /// [Folded text](super::folded).
    pub const FOLDED: Format = Format::new("folded", "folded text", folded::write);

    /// A profile of the [Firefox Profiler](super::firefox).
    pub const FIREFOX: Format = Format::new("json", "Firefox Profiler", firefox::write).with_all_kinds();

    /// A profile of [speedscope](super::speedscope).
    pub const SPEEDSCOPE: Format =
        Format::new("speedscope.json", "speedscope", speedscope::write).with_all_kinds();

    /// Creates a format with an ending without its first dot, in lower case, and a short
    /// description of its contents.
    ///
    /// Its files hold one kind of samples, unless [`with_all_kinds`](Format::with_all_kinds) is
    /// called.
    pub const fn new(ending: &'static str, contents: &'static str, write: Write) -> Format {
        Format { ending, contents, holds_all_kinds: false, write }
    }

    /// Returns the format with one file for all kinds of samples.
    #[must_use = "returns the changed format"]
    pub const fn with_all_kinds(self) -> Format {
        Format { holds_all_kinds: true, ..self }
    }

    /// Adds the format to those of the program, in place of one with the same ending.
    ///
    /// From then on [`Profile::write`] and [`File`](super::File) write it.
    pub fn register(self) {
        let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        registered.retain(|format| *format != self);
        registered.push(self);
    }

    /// Returns the formats of this crate, then the registered ones.
    pub fn all() -> Vec<Format> {
        let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        let own = OWN.into_iter().filter(|own| !registered.contains(own));
        own.chain(registered.iter().copied()).collect()
    }

    /// Returns the format with the longest ending that is the end of `path`. Case does not matter.
    ///
    /// # Errors
    ///
    /// Fails with [`WriteError::UnknownEnding`] if there is none.
    pub fn of(path: impl AsRef<Path>) -> Result<Format, WriteError> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_named = |format: &Format| {
            let stem = name.strip_suffix(format.ending).and_then(|stem| stem.strip_suffix('.'));
            stem.is_some_and(|stem| !stem.is_empty())
        };
        let named = Format::all().into_iter().filter(is_named);
        named
            .max_by_key(|format| format.ending.len())
            .ok_or_else(|| WriteError::UnknownEnding { path: path.into() })
    }

    /// Returns the ending, without its first dot: `html`, `speedscope.json`.
    pub fn ending(self) -> &'static str {
        self.ending
    }

    /// Returns a short description of the contents.
    pub fn contents(self) -> &'static str {
        self.contents
    }

    /// Returns `true` if a file holds all kinds of samples, and not only the first one.
    pub fn holds_all_kinds(self) -> bool {
        self.holds_all_kinds
    }

    /// Writes the profile in this format.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn write(self, profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
        (self.write)(profile, out)
    }
}

/// Formats are equal if their endings are.
impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.ending == other.ending
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format")
            .field("ending", &self.ending)
            .field("contents", &self.contents)
            .field("holds_all_kinds", &self.holds_all_kinds)
            .finish_non_exhaustive()
    }
}

/// Returns all endings: `.html, .svg or .folded`.
pub(super) fn endings() -> String {
    let endings: Vec<String> = Format::all().iter().map(|format| format!(".{}", format.ending)).collect();
    match endings.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => endings.concat(),
    }
}

fn write_html(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    Html::new(profile).write(out)
}

fn write_svg(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    Svg::new(profile).write(out)
}

const OWN: [Format; 5] = [Format::HTML, Format::SVG, Format::FOLDED, Format::FIREFOX, Format::SPEEDSCOPE];

/// Formats of other crates and of the program.
static REGISTERED: Mutex<Vec<Format>> = Mutex::new(Vec::new());
