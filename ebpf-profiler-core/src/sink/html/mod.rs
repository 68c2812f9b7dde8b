//! An interactive flame graph in one file.
//!
//! The file holds the page, its style, its script and the data. It loads nothing else, and its
//! content security policy forbids it. Names of functions may be hostile: they are escaped in the
//! data, inserted into the page as text only, and the policy's nonce blocks any other script. The
//! parts are beside this file:
//!
//! ```text
//!   page.html    the elements, with {{names}} in place of the other parts
//!   style.css
//!   model.js     the frames as arrays, and the search
//!   view.js      visible frames and their positions
//!   paint.js     drawing on a canvas
//!   words.js     text of frames
//!   page.js      mouse, keyboard, URL, tooltip
//!   data.rs      format of the data
//! ```

mod data;

use std::io;

use crate::profile::Profile;
use crate::text::clean;

use super::json;

/// An interactive flame graph with search, as one self-contained HTML file.
///
/// A profile with several kinds of samples gets a menu of them; the page begins with the first one.
/// Click or Enter zooms, Escape resets, `/` searches (a regular expression), arrows select the next
/// frame, `n` and `N` the next and the previous match. The URL keeps kind, zoom and search. It
/// draws at most 250,000 frames: the narrowest of more are merged, and the page shows their number.
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
    /// Creates the page with the flame graph of a profile, to be written to one HTML file.
    pub fn new(profile: &'p Profile) -> Html<'p> {
        Html { profile, title: super::title(profile) }
    }

    /// Sets the title.
    #[must_use = "returns the changed page"]
    pub fn title(self, title: impl Into<String>) -> Html<'p> {
        Html { title: clean(&title.into()).into_owned(), ..self }
    }

    /// Writes the HTML document.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for part in PAGE.split("{{") {
            let Some((name, text)) = part.split_once("}}") else {
                out.write_all(part.as_bytes())?;
                continue;
            };
            match name {
                "title" => json::write_text(out, &self.title)?,
                "style" => out.write_all(STYLE.as_bytes())?,
                "data" => data::write(out, &self.title, self.profile)?,
                _ => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("model.js"),
    include_str!("view.js"),
    include_str!("paint.js"),
    include_str!("words.js"),
    include_str!("page.js"),
];
