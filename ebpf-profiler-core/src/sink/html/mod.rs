//! An interactive flame graph in one file.
//!
//! The file holds the page, its style, its script and the data; it asks for nothing else, and its content security policy
//! would refuse it. The parts lie beside this file:
//!
//! ```text
//!   page.html    what is on the page, with {{names}} where the others go
//!   style.css
//!   model.js     the frames, as arrays; searching them
//!   view.js      which of them are seen, and where
//!   paint.js     frames on a canvas
//!   words.js     frames in words
//!   page.js      mouse, keyboard, address, tooltip
//!   data.rs      the data, see there
//! ```

mod data;
mod json;

use std::io;

use crate::profile::{Limits, Profile, Tree};
use crate::text::clean;

/// A flame graph that one can search and walk around in: one HTML file that needs nothing else.
///
/// Click or Enter zooms, Escape resets, `/` searches (a regular expression), arrows go from frame to frame, `n`
/// and `N` from match to match. The address keeps where one is. It draws hundreds of thousands of frames; where there are
/// more, the narrowest are merged, and the page says so.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{sink::Html, testing};
///
/// let profile = testing::profile("cat;main;read_[k] 3\ncat;main 1");
/// let mut page = Vec::new();
/// Html::new(&profile).title("cat").write(&mut page)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Html<'p> {
    profile: &'p Profile,
    title: String,
}

impl<'p> Html<'p> {
    /// A page of the profile.
    pub fn new(profile: &'p Profile) -> Html<'p> {
        Html { profile, title: super::title(profile) }
    }

    /// What stands above it.
    #[must_use = "it is a new page"]
    pub fn title(self, title: impl Into<String>) -> Html<'p> {
        Html { title: clean(&title.into()).into_owned(), ..self }
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When `out` can't take it.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let tree = Tree::new(self.profile);
        let layout = tree.layout(Limits { frames: MOST_FRAMES, ..Limits::default() });
        for part in PAGE.split("{{") {
            let Some((name, text)) = part.split_once("}}") else {
                out.write_all(part.as_bytes())?;
                continue;
            };
            match name {
                "title" => json::write_text(out, &self.title)?,
                "style" => out.write_all(STYLE.as_bytes())?,
                "data" => data::write(out, &self.title, self.profile, &layout)?,
                _ => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// More than a browser draws at ease are merged.
const MOST_FRAMES: usize = 250_000;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("model.js"),
    include_str!("view.js"),
    include_str!("paint.js"),
    include_str!("words.js"),
    include_str!("page.js"),
];
