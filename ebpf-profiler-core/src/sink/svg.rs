//! Static flame graphs.

use std::fmt::Write as _;
use std::io;

use super::palette::{DARK_PAPER, LIGHT_PAPER, LOOKS, Look, Rgb, SHADES, number, shade};
use crate::profile::{Kind, Layout, Limits, Placed, Profile, SampleKind, Tree};
use crate::text::{Number, Share, clean, clip, fit};

/// A flame graph in SVG: without script, for documents.
///
/// It shows the first kind of samples. A tooltip shows name, value and share of a frame wider than
/// a pixel. Colours follow the reader's preference for light or dark. Frames narrower than a pixel
/// or beyond the limits are merged, and the picture shows their number.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::Svg, testing};
///
/// let profile = testing::profile("cat;main;read_[k] 3\ncat;main 1");
/// let mut picture = Vec::new();
/// Svg::new(&profile).title("cat").width(800).write(&mut picture)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Svg<'p> {
    profile: &'p Profile,
    title: String,
    width: u32,
    limits: Limits,
}

impl<'p> Svg<'p> {
    /// Returns a flame graph, 1200 pixels wide, with at most about 2,000 frames on 40 levels.
    pub fn new(profile: &'p Profile) -> Svg<'p> {
        let limits = Limits { samples: 0, frames: 2_000, levels: 40 };
        Svg { profile, title: super::title(profile), width: 1200, limits }
    }

    /// Sets the title.
    #[must_use = "returns the changed flame graph"]
    pub fn title(self, title: impl Into<String>) -> Svg<'p> {
        Svg { title: clean(&title.into()).into_owned(), ..self }
    }

    /// Sets the width in pixels; at least 300.
    #[must_use = "returns the changed flame graph"]
    pub fn width(self, width: u32) -> Svg<'p> {
        Svg { width: width.max(300), ..self }
    }

    /// Sets the limits beyond which frames are merged.
    #[must_use = "returns the changed flame graph"]
    pub fn limits(self, limits: Limits) -> Svg<'p> {
        Svg { limits, ..self }
    }

    /// Writes the SVG document.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let tree = Tree::new(self.profile);
        let inner = f64::from(self.width) - 2.0 * MARGIN;
        let pixel = (tree.total() as f64 / inner).ceil() as u64;
        let layout = tree.layout(Limits { samples: pixel.max(self.limits.samples), ..self.limits });
        let drawing = Drawing { svg: self, layout, scale: inner / tree.total().max(1) as f64 };
        out.write_all(drawing.draw(tree.total()).as_bytes())
    }
}

/// A flame graph with its layout.
struct Drawing<'d> {
    svg: &'d Svg<'d>,
    layout: Layout<'d, 'd>,
    /// Pixels per unit of value.
    scale: f64,
}

// Writing to a string does not fail.
impl Drawing<'_> {
    fn draw(&self, all: u64) -> String {
        let mut out = String::new();
        let levels = self.layout.frames.iter().map(|placed| placed.level + 1).max().unwrap_or(1);
        let height = HEAD + levels as f64 * ROW + MARGIN;
        self.head(&mut out, height);
        self.legend(&mut out);
        match all {
            0 => self.nothing(&mut out),
            _ => self.rows(&mut out, levels, all),
        }
        out.push_str("</svg>\n");
        out
    }

    fn head(&self, out: &mut String, height: f64) {
        let (width, title) = (self.svg.width, escape(&self.svg.title));
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>\n{}{}</style>\n{HATCHING}\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n\
             <text class=\"title\" x=\"{MARGIN}\" y=\"26\">{title}</text>\n\
             <text class=\"note\" x=\"{MARGIN}\" y=\"45\">{}</text>\n",
            include_str!("svg.css"),
            colors(),
            escape(&self.note()),
        );
    }

    fn note(&self) -> String {
        let mut note = self.svg.profile.summary().to_string();
        if self.layout.merged > 0 {
            let _ = write!(note, ", {} merged", Number(self.layout.merged).of("small frame"));
        }
        note
    }

    /// Draws the legend of the kinds that occur.
    fn legend(&self, out: &mut String) {
        let frames = &self.layout.frames;
        let occurs = |wanted: &dyn Fn(&Placed<'_, '_>) -> bool| frames.iter().skip(1).any(wanted);
        let mut x = MARGIN;
        for (kind, look) in LOOKS.iter().enumerate() {
            if occurs(&|placed| placed.label.kind == look.kind) {
                x = swatch(out, x, &[&format!("c{kind}0")], look.name);
            }
        }
        let inlined = frames.iter().find(|placed| placed.label.inlined);
        if let Some(placed) = inlined {
            x = swatch(out, x, &[&class(placed)], "paler: inlined");
        }
        if occurs(&|placed| placed.guessed) {
            swatch(out, x, &[&format!("c{}0", number(Kind::Native)), "g"], "hatched: guessed");
        }
    }

    fn nothing(&self, out: &mut String) {
        let _ = writeln!(out, "<text class=\"note\" x=\"{MARGIN}\" y=\"{}\">no samples</text>", HEAD + 12.0);
    }

    fn rows(&self, out: &mut String, levels: usize, all: u64) {
        for placed in &self.layout.frames {
            let y = HEAD + (levels - 1 - placed.level) as f64 * ROW;
            self.frame(out, placed, y, all);
        }
    }

    fn frame(&self, out: &mut String, placed: &Placed<'_, '_>, y: f64, all: u64) {
        let x = MARGIN + placed.start as f64 * self.scale;
        // Neighbours are half a pixel apart.
        let width = (placed.total as f64 * self.scale - 0.5).max(0.5);
        match width {
            // Too narrow for a tooltip. Merged frames of this width are left out.
            ..1.5 if placed.label.kind == Kind::Merged => {}
            ..1.5 => rect(out, &class(placed), x, y, width),
            _ => self.wide(out, placed, [x, y, width], all),
        }
    }

    fn wide(&self, out: &mut String, placed: &Placed<'_, '_>, [x, y, width]: [f64; 3], all: u64) {
        let described = describe(placed, all, self.svg.profile.kind());
        let _ = write!(out, "<g><title>{}</title>", escape(&described));
        rect(out, &class(placed), x, y, width);
        if placed.guessed {
            rect(out, "g", x, y, width);
        }
        let characters = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        if characters >= 3 {
            let (x, y, name) = (x + 3.0, y + 12.5, fit(&placed.label.name, characters));
            let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y}\">{}</text>", escape(&name));
        }
        out.push_str("</g>\n");
    }
}

/// `read (libc.so.6), inlined, guessed: 1,234 samples, 12.3 %`
fn describe(placed: &Placed<'_, '_>, all: u64, kind: &SampleKind) -> String {
    let mut text = clip(&placed.label.name, LONGEST_NAME).into_owned();
    match placed.label.kind {
        Kind::Kernel => text.push_str(" (kernel)"),
        _ if !placed.label.module.is_empty() => {
            let _ = write!(text, " ({})", placed.label.module);
        }
        _ => {}
    }
    text.push_str(if placed.label.inlined { ", inlined" } else { "" });
    text.push_str(if placed.guessed { ", guessed" } else { "" });
    let _ = write!(text, ": {}, {}", kind.format(placed.total), Share { part: placed.total, all });
    text
}

fn class(placed: &Placed<'_, '_>) -> String {
    let inlined = if placed.label.inlined { "i" } else { "" };
    format!("{inlined}c{}{}", number(placed.label.kind), shade(placed.label))
}

fn rect(out: &mut String, class: &str, x: f64, y: f64, width: f64) {
    let height = ROW - 1.0;
    let round = if width > 5.0 { " rx=\"1.5\"" } else { "" };
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"{round}/>"
    );
}

/// Draws an entry of the legend and returns the position of the next one.
fn swatch(out: &mut String, x: f64, classes: &[&str], name: &str) -> f64 {
    for class in classes {
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x:.0}\" y=\"56\" width=\"11\" height=\"11\" rx=\"2\"/>"
        );
    }
    let _ = writeln!(out, "<text class=\"note\" x=\"{:.0}\" y=\"66\">{name}</text>", x + 16.0);
    x + 38.0 + name.len() as f64 * 6.0
}

/// Returns the style rules for all kinds and shades, light and dark.
fn colors() -> String {
    let light = rules(|look| look.light, LIGHT_PAPER);
    let dark = rules(|look| look.dark, DARK_PAPER);
    format!("{light}@media (prefers-color-scheme: dark) {{\n{DARK}{dark}}}\n")
}

fn rules(color: impl Fn(&Look) -> Rgb, paper: Rgb) -> String {
    let mut rules = String::new();
    for (kind, look) in LOOKS.iter().enumerate() {
        for shade in 0..SHADES {
            let plain = color(look).shaded(shade, false, paper);
            let inlined = color(look).shaded(shade, true, paper);
            let _ = write!(rules, ".c{kind}{shade}{{fill:{plain}}}.ic{kind}{shade}{{fill:{inlined}}}");
        }
        rules.push('\n');
    }
    let _ = writeln!(rules, ".paper{{fill:{paper}}}");
    rules
}

/// Escapes text and attributes in double quotes. Names hold no control characters, which XML
/// forbids.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

const DARK: &str =
    "text{fill:#f0ede8}.title{fill:#f0ede8}.note{fill:#a3abb8}.hatch{stroke:#fff;stroke-opacity:.32}\n";
const HATCHING: &str = "<pattern id=\"hatching\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
    <path class=\"hatch\" d=\"M-1 7 7 -1M-4 4 4 -4M2 10 10 2\"/></pattern>";
/// Maximum length of a name in characters; generic functions may have thousands.
const LONGEST_NAME: usize = 120;
const MARGIN: f64 = 12.0;
const HEAD: f64 = 80.0;
const ROW: f64 = 18.0;
/// Maximum width of a character in the fonts of `svg.css`, in pixels.
const CHARACTER: f64 = 6.65;
